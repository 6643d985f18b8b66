"""What the runtime needs from the world, as protocols and the plain values that cross them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from airflow_adaptive.job.protocol.documents import SECRET_CONF_VARIABLE as SECRET_CONF_VARIABLE  # noqa: PLC0414  exported to clients
from airflow_adaptive.job.protocol.documents import DriverStatus, JournalDocument, RescaleDocument


class PortError(Exception):
    """The world did not do what was asked; the message names the thing and the fix."""


class ClusterUnreachableError(PortError):
    """No master answered: nothing is known about the cluster now. Trying again may help."""


class NotSubmittedError(ClusterUnreachableError):
    """No master could be given the submission: it was certainly not accepted."""


class SubmissionRefusedError(PortError):
    """The master answered and refused: trying the same again won't help."""


class JobDirectoryError(PortError):
    """The job directory can't be read or written now."""


class ForeignDirectoryError(JobDirectoryError):
    """The job directory is another job's, or a newer version's: trying again won't help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker of the cluster, as its manager describes it.

    Attributes:
        worker_id: the manager's id.
        address: of its web UI; executors report it as `ExecutorReport.worker`.
        cores: all its cores.
        cores_free: of them not granted to anybody.
        memory_mb: all its memory for drivers and executors, MiB.
        memory_free_mb: of it not granted, MiB.
    """

    worker_id: str
    address: str
    cores: int
    cores_free: int
    memory_mb: int
    memory_free_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPages:
    """Where a person reads what a driver writes: addresses of web pages."""

    stdout: str
    stderr: str


class SubmissionState(StrEnum):
    """State of a submitted driver process, as the cluster manager knows it."""

    SUBMITTED = "SUBMITTED"
    """It waits for a worker with room."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    UNKNOWN = "UNKNOWN"
    """The manager has never heard of it, has forgotten it, or has lost the worker that runs it: it may live."""

    @property
    def over(self) -> bool:
        """Whether the process can't be running any more."""
        return self in (SubmissionState.FINISHED, SubmissionState.FAILED, SubmissionState.KILLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingDriver:
    """A driver that was submitted and has not ended.

    Attributes:
        state: SUBMITTED as long as it waits for a worker with room.
        cores: that it takes.
        memory_mb: that it takes, MiB.
    """

    state: SubmissionState
    cores: int
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The cluster at one moment: its living workers, and the cores that its manager granted to each application.

    Attributes:
        workers: living workers only, ordered by id.
        granted: application id -> cores granted, executors still starting included.
        master_url: the `spark://` URL of the master that answered and is the leader.
        ui_url: its web UI.
        log_pages: submission id -> pages of a driver that runs, or ran, on one of these workers.
        names: application id -> name of each of these applications; a job's has the job's name.
        drivers: submission id -> driver that has not ended, whoever submitted it.
    """

    workers: Sequence[Worker]
    granted: Mapping[str, int] = field(default_factory=dict)
    master_url: str = ""
    ui_url: str = ""
    log_pages: Mapping[str, LogPages] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, LivingDriver] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionStatus:
    """State of a submitted driver and, if it failed, what the manager says about it.

    Attributes:
        state: see `SubmissionState`.
        message: the manager's words, "" if none.
        worker_address: `host:port` of the worker that runs it, "" if unknown.
    """

    state: SubmissionState
    message: str = ""
    worker_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLog:
    """The end of what a driver wrote, some thousand characters of each output.

    Attributes:
        stdout: what its Python wrote, to stderr as well: Spark sends both there.
        stderr: what its JVM wrote: Spark's own log.
    """

    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmission:
    """A driver to start: everything by URI, since the cluster uploads nothing.

    Attributes:
        name: application name.
        script: URI of the PySpark script, readable from every worker.
        py_files: URIs of zips and modules for `PYTHONPATH`.
        args: the script's arguments.
        conf: Spark properties; may hold secrets, so it is never logged. Those with secret names reach the driver not
            as arguments but in its environment (`SECRET_CONF_VARIABLE`).
        env: environment of the driver process.
        driver_cores: cores that the driver takes.
        driver_memory_mb: heap of the driver, MiB.
    """

    name: str
    script: str
    py_files: Sequence[str] = ()
    args: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    driver_cores: int = 1
    driver_memory_mb: int = 1024


class ClusterClient(Protocol):
    """A cluster manager (Spark standalone, YARN, Kubernetes)."""

    async def snapshot(self) -> ClusterSnapshot:
        """Living workers and grants. Raises `ClusterUnreachableError`."""
        ...

    async def submit(self, submission: DriverSubmission) -> str:
        """Start a driver and return its submission id.

        Raises `NotSubmittedError`, `ClusterUnreachableError` (whether it was accepted is unknown) or
        `SubmissionRefusedError`.
        """
        ...

    async def status(self, submission_id: str) -> SubmissionStatus:
        """What the manager knows of a driver. Raises `ClusterUnreachableError`."""
        ...

    async def driver_log(self, submission_id: str) -> DriverLog:
        """The end of what a driver wrote, the cluster's own secrets masked; empty if there is none any more.

        Raises `ClusterUnreachableError`.
        """
        ...

    async def kill(self, submission_id: str) -> None:
        """Ask for a driver's death; asking again, or for a dead one, is no error. Raises `ClusterUnreachableError`."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class JobChannel(Protocol):
    """The job directory: the log, and the driver's status."""

    async def newest(self) -> JournalDocument | None:
        """The newest journal document that can be trusted, None if there is none. Raises `JobDirectoryError`."""
        ...

    async def read(self, number: int) -> JournalDocument | None:
        """Log document `number`, None if there is none. Raises `JobDirectoryError`."""
        ...

    async def create(self, document: JournalDocument) -> bool:
        """Create the journal document under its number only if there is none, and say whether it is now the newest.

        False if another was first. Creating the very same document again is no error: a lost answer can be asked for
        again. Raises `JobDirectoryError`.
        """
        ...

    async def history(self, limit: int) -> Sequence[JournalDocument]:
        """At most the `limit` newest documents, oldest first. Raises `JobDirectoryError`."""
        ...

    async def compact(self, keep: int) -> None:
        """Remove all but the newest `keep` journal documents, and of rescales as well. Raises `JobDirectoryError`."""
        ...

    async def record(self, document: RescaleDocument) -> bool:
        """Keep a rescale under its number only if there is none, and say whether it is there now.

        False if it is another that is there. Keeping the very same again is no error. Raises `JobDirectoryError`.
        """
        ...

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """At most the `limit` newest rescales that can be trusted, oldest first. Raises `JobDirectoryError`."""
        ...

    async def status(self) -> DriverStatus | None:
        """The driver's newest report, None if there is none that can be trusted. Raises `JobDirectoryError`."""
        ...


class DesiredState(StrEnum):
    """What a person wants of the job."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asked for bounds.

    Attributes:
        requested_by: name, "" if that is not known.
        via: by what way, for people: "REST", "CLI", "task"; "" if that is not known.
        expires_at: when they expire, None if they hold until they are cleared.
    """

    requested_by: str = ""
    via: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequests:
    """What was asked from outside since the job began: level, not edge; reading it again gives the same.

    Attributes:
        wish: run, suspend or cancel.
        requirements: vertex -> (lower bound, upper bound) that a person has set, empty if none were. If all are -1, what was
            set before is lifted.
        requester: who has.
        calendar: likewise, of a calendar that is kept apart from the job; a person's win.
        calendar_requester: whose calendar.
        is_read: whether all this was read since the loop began; else it is what is assumed until then.
    """

    desired_state: DesiredState = DesiredState.RUNNING
    requirements: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    requester: Requester = Requester()
    calendar: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    calendar_requester: Requester = Requester()
    is_read: bool = field(default=True, compare=False)


class JobStore(Protocol):
    """Where people and programs leave wishes, and where they look: inbox and mirror, never the truth."""

    async def control_requests(self) -> ControlRequests:
        """What is asked of the job now."""
        ...

    async def publish(self, view: Mapping[str, object]) -> None:
        """Show state, parallelism and transitions to people (XComs, mirror); small and JSON-able."""
        ...

    async def measure(self, figures: Mapping[str, object]) -> None:
        """Show the newest figures: documents of the mirror by key. Some may be left out where many jobs run."""
        ...

    async def figures(self) -> Mapping[str, object]:
        """What was shown last of them, by whatever loop; empty if that is not known."""
        ...


class Clock(Protocol):
    """Time, so that tests own it."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
