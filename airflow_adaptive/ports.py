"""Protocols for all external systems of the runtime, and the plain values that these protocols exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from airflow_adaptive.job.protocol.documents import SECRET_CONF_VARIABLE as SECRET_CONF_VARIABLE  # noqa: PLC0414  exported to clients
from airflow_adaptive.job.protocol.documents import SECRET_ENV_VARIABLE as SECRET_ENV_VARIABLE  # noqa: PLC0414
from airflow_adaptive.job.protocol.documents import DriverStatus, JournalDocument, RescaleDocument
from airflow_adaptive.job.protocol.secret_names import SECRET_NAME_PATTERN as SECRET_NAME_PATTERN  # noqa: PLC0414
from airflow_adaptive.job.protocol.secret_names import SECRET_VALUE_PATTERN as SECRET_VALUE_PATTERN  # noqa: PLC0414
from airflow_adaptive.job.protocol.secret_names import is_secret as is_secret  # noqa: PLC0414
from airflow_adaptive.job.protocol.secret_names import is_secret_name as is_secret_name  # noqa: PLC0414
from airflow_adaptive.job.protocol.secret_names import secret_assignments as secret_assignments  # noqa: PLC0414
from airflow_adaptive.job.protocol.secret_names import url_passwords as url_passwords  # noqa: PLC0414

if TYPE_CHECKING:
    from airflow_adaptive.runtime.publishing.job_view import JobView


class PortError(Exception):
    """An external system failed; the message names the system and the fix."""


class ClusterUnreachableError(PortError):
    """No master answered: the state of the cluster is unknown. A retry may help."""


class NotSubmittedError(ClusterUnreachableError):
    """No master received the submission, so no master accepted it."""


class SubmissionRefusedError(PortError):
    """The master refused the submission: a retry does not help."""


class JobDirectoryError(PortError):
    """The job directory cannot be read or written now."""


class ForeignDirectoryError(JobDirectoryError):
    """The job directory belongs to another job or to a newer version: a retry does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker of the cluster, as its manager describes it.

    Attributes:
        worker_id: id that the cluster manager gives the worker.
        address: address of the worker's web UI; executors report the address as `ExecutorReport.worker`.
        cores: cores of the worker, in total.
        cores_free: cores that are not granted to a driver or an executor.
        memory_mb: memory for drivers and executors, in total, MiB.
        memory_free_mb: memory that is not granted to a driver or an executor, MiB.
    """

    worker_id: str
    address: str
    cores: int
    cores_free: int
    memory_mb: int
    memory_free_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPages:
    """Addresses of the web pages that show the output of a driver.

    Attributes:
        stdout: page of the standard output.
        stderr: page of the standard error.
    """

    stdout: str
    stderr: str


class SubmissionState(StrEnum):
    """State of a submitted driver process, as the cluster manager knows it."""

    SUBMITTED = "SUBMITTED"
    """The driver waits for a worker with enough free cores and memory."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    UNKNOWN = "UNKNOWN"
    """The manager does not know the driver, or has lost the worker that runs the driver: the driver may still run."""

    @property
    def over(self) -> bool:
        """Whether the process certainly does not run any more."""
        return self in (SubmissionState.FINISHED, SubmissionState.FAILED, SubmissionState.KILLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveDriver:
    """A driver that was submitted and has not ended.

    Attributes:
        state: SUBMITTED while the driver waits for a worker.
        cores: cores of the driver.
        memory_mb: memory of the driver, MiB.
    """

    state: SubmissionState
    cores: int
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The cluster at one moment: its workers, and the cores that its manager has granted to each application.

    Attributes:
        workers: workers that are alive, ordered by id.
        granted: application id -> granted cores, including the cores of executors that are starting.
        master_url: `spark://` URL of the leading master.
        ui_url: address of the master's web UI.
        log_pages: submission id -> pages of a driver that runs, or ran, on one of the workers.
        names: application id -> name of the application; the application of a job has the name of the job.
        drivers: submission id -> driver that has not ended, including drivers that other programs submitted.
    """

    workers: Sequence[Worker]
    granted: Mapping[str, int] = field(default_factory=dict)
    master_url: str = ""
    ui_url: str = ""
    log_pages: Mapping[str, LogPages] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, ActiveDriver] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionStatus:
    """State of a submitted driver.

    Attributes:
        state: see `SubmissionState`.
        message: error message of the manager, "" without one.
        worker_address: `host:port` of the worker that runs the driver, "" if unknown.
    """

    state: SubmissionState
    message: str = ""
    worker_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLog:
    """The end of a driver's output: some thousand characters of each stream.

    Attributes:
        stdout: output of Python; Spark redirects the standard error of Python to this stream.
        stderr: output of the JVM, which is Spark's own log.
    """

    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmission:
    """A driver to start. All files are named by URI, because the cluster does not upload files.

    Attributes:
        name: name of the Spark application.
        script: URI of the PySpark script, readable from each worker.
        py_files: URIs of zips and modules for `PYTHONPATH`.
        args: arguments of the script.
        conf: Spark properties. They may contain secrets and are never logged. Properties with secret names reach the driver
            in its environment (`SECRET_CONF_VARIABLE`) and not as arguments.
        env: environment of the driver process.
        secret_env: secret variables of the environment of the driver process. They are never logged, and the driver removes their
            values from its reports.
        driver_cores: cores of the driver.
        driver_memory_mb: heap of the driver, MiB.
        driver_template: description of the driver beyond its size, in the form of the cluster manager; None without one.
        executor_template: likewise, of an executor.
    """

    name: str
    script: str
    py_files: Sequence[str] = ()
    args: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver_cores: int = 1
    driver_memory_mb: int = 1024
    driver_template: str | None = None
    executor_template: str | None = None


class ClusterClient(Protocol):
    """A cluster manager (Spark standalone, YARN, Kubernetes)."""

    async def snapshot(self) -> ClusterSnapshot:
        """Return workers, grants and drivers. Raises `ClusterUnreachableError`."""
        ...

    async def submit(self, submission: DriverSubmission) -> str:
        """Start a driver and return its submission id.

        Raises:
            NotSubmittedError: no master received the submission.
            ClusterUnreachableError: a master may have accepted the submission.
            SubmissionRefusedError: the master refused the submission.
        """
        ...

    async def status(self, submission_id: str) -> SubmissionStatus:
        """Return the state of a driver. Raises `ClusterUnreachableError`."""
        ...

    async def driver_log(self, submission_id: str) -> DriverLog:
        """Return the end of a driver's output, with the secrets of the cluster masked; empty if the output is gone.

        Raises `ClusterUnreachableError`.
        """
        ...

    async def kill(self, submission_id: str) -> None:
        """Kill a driver. The call is idempotent. Raises `ClusterUnreachableError`."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class JobDirectory(Protocol):
    """The job directory: the journal, the history and the driver status."""

    async def newest(self) -> JournalDocument | None:
        """Return the newest valid journal document, None without one. Raises `JobDirectoryError`."""
        ...

    async def read(self, number: int) -> JournalDocument | None:
        """Return journal document `number`, None without one. Raises `JobDirectoryError`."""
        ...

    async def create(self, document: JournalDocument) -> bool:
        """Create the journal document if its number is unused, and return whether the document is now the newest.

        False means that another document has the number. A repeated call with the same document returns True, so a caller that
        lost the answer can call again. Raises `JobDirectoryError`.
        """
        ...

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        """Return at most the `limit` newest journal documents, oldest first. Raises `JobDirectoryError`.

        Args:
            limit: greatest number of documents.
            before: only documents with a lower number; None for all documents.
        """
        ...

    async def compact(self, keep: int) -> None:
        """Remove all journal documents except the newest `keep`, and likewise rescale documents. Raises `JobDirectoryError`."""
        ...

    async def record(self, document: RescaleDocument) -> bool:
        """Create the rescale document if its number is unused, and return whether the document exists now.

        False means that another document has the number. A repeated call with the same document returns True. Raises
        `JobDirectoryError`.
        """
        ...

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """Return at most the `limit` newest valid rescale documents, oldest first. Raises `JobDirectoryError`."""
        ...

    async def status(self) -> DriverStatus | None:
        """Return the newest driver status, None without a valid one. Raises `JobDirectoryError`."""
        ...


class DesiredState(StrEnum):
    """State that users and programs request for the job (as `job.state` of the Flink Kubernetes operator)."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The author of a request for resource requirements.

    Attributes:
        requested_by: name of the author, "" if unknown.
        via: interface of the request, for display: "REST", "CLI", "task"; "" if unknown.
        expires_at: when the requirements expire, None if they apply until they are cleared.
    """

    requested_by: str = ""
    via: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequests:
    """All control requests of a job. They are levels, not edges: reading them again gives the same values.

    Attributes:
        desired_state: see `DesiredState`.
        requirements: vertex -> (lower bound, upper bound) that a user has set, empty without any. The value -1 for all bounds
            clears the override.
        requester: author of `requirements`.
        calendar: likewise, bounds of a calendar that is a DAG of its own; `requirements` take precedence.
        calendar_requester: the calendar.
        is_read: whether the requests were read since the loop began; before that they are defaults.
        age: time since the read of the requests began, or since the loop began if the requests were not read.
    """

    desired_state: DesiredState = DesiredState.RUNNING
    requirements: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    requester: Requester = Requester()
    calendar: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    calendar_requester: Requester = Requester()
    is_read: bool = field(default=True, compare=False)
    age: timedelta = field(default=timedelta(0), compare=False)


class JobStore(Protocol):
    """Control requests and published state of a job. The store is never the truth: the journal is."""

    async def control_requests(self) -> ControlRequests:
        """Return the newest known control requests, without waiting for a store that does not answer."""
        ...

    async def publish(self, view: JobView) -> None:
        """Publish the view of the job: state, parallelism, transitions, decisions and rescales."""
        ...

    async def publish_metrics(self, metrics: Mapping[str, object]) -> None:
        """Publish the newest job metrics: documents by key. A store may skip some of them while many jobs run."""
        ...

    async def published_metrics(self) -> Mapping[str, object]:
        """Return the job metrics that any loop published last, when the store answers."""
        ...


class Clock(Protocol):
    """The time. Tests replace the clock."""

    def now(self) -> datetime:
        """Return the current time, with the time zone UTC."""
        ...

    @property
    def elapsed(self) -> float:
        """Seconds since an arbitrary moment. Clocks of one process agree on durations, but not on the current time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
