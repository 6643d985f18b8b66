"""Protocols for all external systems of the engine, and the plain values that these protocols exchange."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from airflow_adaptive._core.protocol.conf import STANDBY_EXECUTORS
from airflow_adaptive._core.protocol.documents import DriverStatus, JournalDocument, RescaleDocument
from airflow_adaptive._core.protocol.sources import KafkaSource


class PortError(Exception):
    """An external system failed; the message names the system and the fix."""


class UnavailableError(PortError):
    """A secrets backend, a database or a file system does not answer now. A retry may help."""


class StoreUnavailableError(UnavailableError):
    """Airflow's stores do not answer: what they contain is unknown. A retry may help."""


class ClusterUnreachableError(PortError):
    """No master answered: the state of the cluster is unknown. A retry may help."""


class NotSubmittedError(ClusterUnreachableError):
    """No master received the submission, so no master accepted it."""


class SubmissionRefusedError(PortError):
    """The master refused the submission: a retry does not help."""


class ClusterRefusedError(PortError):
    """The cluster accepts no driver until the cluster or its connection is changed."""


class SourceUnreachableError(PortError):
    """The brokers of a source do not return its end offsets. A retry may help."""


class JobDirectoryError(PortError):
    """The job directory cannot be read or written now."""


class ForeignDirectoryError(JobDirectoryError):
    """The job directory belongs to another job or to a newer version: a retry does not help."""


class OwnedJobError(PortError):
    """The job belongs to another task: a retry does not help.

    Attributes:
        owner: the other task, as `<DAG id>/<task id>`.
    """

    def __init__(self, job: str, owner: str, task: str, place: str) -> None:
        """Create the error.

        Args:
            job: name of the job.
            owner: the task to which the job belongs.
            task: the task that is refused.
            place: place of the record of the owner.
        """
        self.owner = owner
        super().__init__(
            f"the job belongs to task {owner!r} ({place}), and task {task!r} would continue from its checkpoint: give the job of this task "
            f"an id of its own. To move the job to this task, suspend the job, remove it from task {owner!r}, and set moved_from={owner!r} here"
        )


class Clock(Protocol):
    """The time. Tests replace the clock."""

    def now(self) -> datetime:
        """Return the current time, with the time zone UTC."""

    @property
    def elapsed(self) -> float:
        """Seconds since an arbitrary moment. Clocks of one process agree on durations, but not on the current time."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Id of a job: a valid name of a folder on any storage."""

SEPARATOR: Final = ":"
"""Separates the parts of the name of a job, and of a key in Airflow's stores. Neither ids of Airflow nor job ids contain it."""

FOLDER_SEPARATOR: Final = "~"
"""Separates the parts of the folder of a fleet. Neither ids of Airflow nor job ids contain it."""

MAX_FOLDER: Final = 200
"""Longest name of the folder of a fleet, because file systems allow 255 bytes. A longer name, or one that is not ASCII, is replaced by a hash."""


@dataclass(frozen=True, slots=True)
class JobKey:
    """The identity of a job.

    A job id is unique only in its scope. The id of the job of a task is unique in Airflow, and the id of the job of a mapped task is unique in this
    task. A key contains the scope, and everything that belongs to one job derives from its key: its name in messages, requests, metrics, journal
    documents and Spark, its Airflow Asset, the labels of its pods, and the folder of its directory. Two jobs with different keys therefore never share
    any of them.

    Attributes:
        job: id of the job.
        dag_id: DAG of the mapped task that runs the fleet of the job; "" for a job without a fleet.
        task_id: the mapped task; "" for a job without a fleet.
    """

    job: str
    dag_id: str = ""
    task_id: str = ""

    @classmethod
    def of(cls, job: str, dag_id: str, task_id: str, map_index: int) -> JobKey:
        """Return the key of the job that a task instance runs."""
        return cls(job) if map_index < 0 else cls(job, dag_id, task_id)

    @classmethod
    def parse(cls, name: str) -> JobKey:
        """Return the key of the job with this name."""
        dag_id, _, rest = name.partition(SEPARATOR)
        task_id, is_of_fleet, job = rest.partition(SEPARATOR)
        return cls(job, dag_id, task_id) if is_of_fleet else cls(name)

    @property
    def is_of_fleet(self) -> bool:
        """Whether a mapped task runs the job."""
        return bool(self.dag_id)

    @property
    def name(self) -> str:
        """Name of the job."""
        return SEPARATOR.join((self.dag_id, self.task_id, self.job)) if self.is_of_fleet else self.job

    @property
    def folder(self) -> str:
        """Folder of the job below the folder of all job directories. Raises `ValueError` if the id is not a valid job id."""
        if not JOB_ID.fullmatch(self.job):
            raise ValueError(f"job id {self.job!r} must match {JOB_ID.pattern}")
        if not self.is_of_fleet:
            return self.job
        fleet = FOLDER_SEPARATOR.join((self.dag_id, self.task_id))
        if not fleet.isascii() or len(fleet) > MAX_FOLDER:
            fleet = f"{FOLDER_SEPARATOR}{sha256(fleet.encode()).hexdigest()}"
        return f"{fleet}/{self.job}"


MIB: Final = 1024 * 1024
"""Bytes of a mebibyte, the unit of memory in Spark's properties."""


@dataclass(frozen=True, slots=True)
class Resources:
    """CPU and memory.

    Attributes:
        cpu_millicores: CPU, in thousandths of a core.
        memory_bytes: memory, in bytes.
    """

    cpu_millicores: int = 0
    memory_bytes: int = 0

    def __add__(self, other: Resources) -> Resources:
        """Return the sum."""
        return Resources(self.cpu_millicores + other.cpu_millicores, self.memory_bytes + other.memory_bytes)

    def __sub__(self, other: Resources) -> Resources:
        """Return the difference, which may be negative."""
        return Resources(self.cpu_millicores - other.cpu_millicores, self.memory_bytes - other.memory_bytes)

    def count_in(self, free: Resources) -> int:
        """Return how often these resources fit into free resources. These resources must be positive."""
        fitting = min(free.cpu_millicores // self.cpu_millicores, free.memory_bytes // self.memory_bytes)
        return max(fitting, 0)


@dataclass(frozen=True, slots=True)
class Request(Resources):
    """Resources that a driver or an executor takes from the cluster, and where it may run.

    Attributes:
        placement: constraints of the placement, in the form of the cluster manager (Kubernetes: the parts of a pod specification); the
            runtime does not interpret the text. "" without any.
        may_probe: whether it may also be placed on workers that may not exist (`Worker.is_on_demand`).
    """

    placement: str = field(default="", repr=False)
    may_probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker of the cluster, as its manager describes it.

    Attributes:
        worker_id: id that the cluster manager gives the worker.
        address: address of the worker (standalone: of its web UI); executors report the address as `ExecutorReport.worker`.
        total: resources for drivers and executors.
        free: resources that are not granted to a driver or an executor.
        count: number of drivers and executors that the worker can take in addition; None without a limit of the number.
        accepts: returns whether drivers and executors with these constraints (`Request.placement`) may run on the worker.
        is_on_demand: whether the worker stands for resources that the cluster manager does not show, or that the cluster may add when a
            driver or an executor needs them. Only a probe shows how many fit.
    """

    worker_id: str
    address: str
    total: Resources
    free: Resources
    count: int | None = None
    accepts: Callable[[str], bool] = field(default=lambda _: True, compare=False, repr=False)
    is_on_demand: bool = False


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
        request: resources of the driver.
        message: why the driver waits, or what is unusual about the executors of a running driver; "" if the manager does not know or
            nothing is unusual.
        can_start: False if the driver or all its executors wait for something that does not happen by itself, or if the driver ended because the
            cluster manager refused its requests, as `message` says.
        leaves: why the driver will have to leave its machine, such as a node that was cordoned; "" if it may stay, None if this is unknown.
        worker_address: where the driver runs, or starts; "" before, and if the cluster manager does not say it here.
    """

    state: SubmissionState
    request: Resources
    message: str = ""
    can_start: bool = True
    leaves: str | None = ""
    worker_address: str = ""


class LimitKind(StrEnum):
    """Kinds of limits, in the order in which the limits apply."""

    WORKERS = "workers"
    """The workers of the cluster together, where the cluster manager does not report single workers."""
    QUOTA = "quota"
    QUEUE = "queue"
    CAP = "cap"
    """A maximum that the connection of the cluster sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of all drivers and executors of a cluster or of a part of it, beside the free resources of single workers.

    A limit already counts all drivers in `ClusterSnapshot.drivers`, and all executors in `granted` and `pending`.

    Attributes:
        kind: see `LimitKind`.
        name: name of the quota or the queue, "" without one.
        cpu_millicores: CPU that the limit still allows; None without a limit of the CPU.
        memory_bytes: memory that the limit still allows; None without a limit of the memory.
        count: number of drivers and executors that the limit still allows; None without a limit of the number.
        charge: returns what a driver or an executor takes from the limit. None if the limit does not apply to it.
    """

    kind: LimitKind
    name: str = ""
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
    count: int | None = None
    charge: Callable[[Request], Resources | None] = field(default=lambda request: request, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The cluster at one moment: its workers, and the cores that its manager has granted to each application.

    Attributes:
        workers: workers that are alive, ordered by id.
        granted: application id -> granted cores, including the cores of executors that are starting.
        pending: application id -> cores of executors that were created and wait for a worker. The limits count these executors already.
        master_url: `spark://` URL of the leading master.
        ui_url: address of the master's web UI.
        log_pages: submission id -> pages of a driver that runs, or ran, on one of the workers.
        names: application id -> name of the application.
        drivers: submission id -> driver that has not ended, including drivers that other programs submitted.
        limits: limits beside the free resources of the workers, in the order in which they apply.
        executor_workers: application id -> executor id -> worker id; None if the cluster manager does not know the workers of executors,
            so that the executors report the addresses of their workers.
    """

    workers: Sequence[Worker]
    granted: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    master_url: str = ""
    ui_url: str = ""
    log_pages: Mapping[str, LogPages] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, ActiveDriver] = field(default_factory=dict)
    limits: Sequence[Limit] = ()
    executor_workers: Mapping[str, Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionStatus:
    """State of a submitted driver.

    Attributes:
        state: see `SubmissionState`.
        message: error message of the manager, "" without one.
        worker_address: `host:port` of the worker that runs the driver, "" if unknown.
        can_start: see `ActiveDriver`.
        ended_by: who or what ends or has ended the driver from outside, such as a deletion or an eviction; "" if unknown, or if the scheduler does.
            Failures that the driver reports then are consequences.
        leaves: see `ActiveDriver`.
        log_command: command of a user that prints the output of the driver; "" if nothing keeps the output, None if the worker has it.
    """

    state: SubmissionState
    message: str = ""
    worker_address: str = ""
    can_start: bool = True
    ended_by: str = ""
    leaves: str | None = None
    log_command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLog:
    """The end of a driver's output: some thousand characters of each stream.

    Attributes:
        stdout: output of Python; Spark redirects the standard error of Python to this stream.
        stderr: output of the JVM, which is Spark's own log.
        waits: why an executor of the driver waits, or why the last one failed, as the cluster manager reports it; "" without a report.
    """

    stdout: str = ""
    stderr: str = ""
    waits: str = ""


async def _no_code(_most_bytes: int) -> Mapping[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmission:
    """A driver to start. All files are named by URI, because the cluster does not upload files.

    The name, the epoch and the nonce identify the submission.

    Attributes:
        name: id of the job. The Spark application has the same name, unless `conf` contains `spark.app.name`.
        epoch: epoch of the driver.
        nonce: nonce of the journal that assigned the epoch.
        script: URI of the PySpark script, readable from each worker.
        py_files: URIs of zips and modules for `PYTHONPATH`.
        read_code: reads the script and the other staged code, for cluster managers that can transport them: URI -> content, for URIs in `script`
            and `py_files`; none if they have more than this number of bytes, or cannot be read now.
        args: arguments of the script.
        conf: Spark properties. They may contain secrets and are never logged. Properties with secret names reach the driver
            in its environment (`SECRET_CONF_VARIABLE`) and not as arguments.
        secret_names: names in `conf` whose values are secret whatever their names.
        env: environment of the driver process.
        secret_env: secret variables of the environment of the driver process. They are never logged, and the driver removes their
            values from its reports.
        driver_cores: cores of the driver.
        driver_memory_mb: heap of the driver, MiB.
        executors: number of executors at the start.
        max_executors: maximum number of executors of the job.
        executor_cores: cores (slots) of an executor.
        executor_memory_mb: heap of an executor, MiB.
        driver_template: description of the driver beyond its size, in the form of the cluster manager; None without one.
        executor_template: likewise, of an executor.
    """

    name: str
    epoch: int
    nonce: str
    script: str
    py_files: Sequence[str] = ()
    read_code: Callable[[int], Awaitable[Mapping[str, bytes]]] = field(default=_no_code, compare=False, repr=False)
    args: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    secret_names: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    driver_cores: int = 1
    driver_memory_mb: int = 1024
    executors: int = 1
    max_executors: int = 1
    executor_cores: int = 1
    executor_memory_mb: int = 1024
    driver_template: str | None = None
    executor_template: str | None = None

    @property
    def is_standby(self) -> bool:
        """Whether the driver waits until it replaces another one, which runs. Such a driver may start without executors."""
        return STANDBY_EXECUTORS in self.conf


class ClusterClient(Protocol):
    """A cluster manager (Spark standalone, YARN, Kubernetes)."""

    async def check(self, driver: Request | None = None, executor: Request | None = None) -> None:
        """Check that the cluster accepts drivers of this client, before the first driver of a job.

        Args:
            driver: request of the driver; without it, its size is not checked.
            executor: request of an executor, likewise.

        Raises:
            ClusterRefusedError: the cluster accepts no driver, or never has room for a driver or an executor of this size. The message names what is missing, and the remedy.
            ClusterUnreachableError: the cluster does not answer.
        """

    async def snapshot(self) -> ClusterSnapshot:
        """Return workers, grants and drivers. Raises `ClusterUnreachableError`."""

    async def submit(self, submission: DriverSubmission) -> str:
        """Start a driver and return its submission id.

        A submission with the name, the epoch and the nonce of an earlier submission results in no second driver: the call returns the id of
        the first driver, or raises `ClusterUnreachableError`.

        Raises:
            NotSubmittedError: no master received the submission.
            ClusterUnreachableError: a master may have accepted the submission.
            SubmissionRefusedError: the master refused the submission.
        """

    async def status(self, submission_id: str) -> SubmissionStatus:
        """Return the state of a driver. Raises `ClusterUnreachableError`."""

    async def driver_log(self, submission_id: str) -> DriverLog:
        """Return the end of a driver's output, with the secrets of the cluster masked; empty if the output is gone.

        Raises `ClusterUnreachableError`.
        """

    async def kill(self, submission_id: str) -> None:
        """Kill a driver. The call is idempotent. Raises `ClusterUnreachableError`."""

    async def kill_epochs(self, job: str, nonce: str, epochs: Collection[int]) -> None:
        """Kill the drivers of a job with these epochs of a journal, whose submission ids may be unknown, if the cluster manager knows the epochs.

        The call is idempotent. Raises `ClusterUnreachableError`.
        """

    async def clean_up(self, job: str) -> None:
        """Remove what the drivers of a job that has ended left on the cluster. The call is idempotent. Raises `ClusterUnreachableError`."""

    async def close(self) -> None:
        """Close all connections."""


class JobDirectory(Protocol):
    """The job directory: the journal, the history and the driver status."""

    async def newest(self) -> JournalDocument | None:
        """Return the newest valid journal document, None without one. Raises `JobDirectoryError`."""

    async def read(self, number: int) -> JournalDocument | None:
        """Return journal document `number`, None without one. Raises `JobDirectoryError`."""

    async def create(self, document: JournalDocument) -> bool:
        """Create the journal document if its number is unused, and return whether the document is now the newest.

        False means that another document has the number. A repeated call with the same document returns True, so a caller that
        lost the answer can call again. Raises `JobDirectoryError`.
        """

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        """Return at most the `limit` newest journal documents, oldest first. Raises `JobDirectoryError`.

        Args:
            limit: greatest number of documents.
            before: only documents with a lower number; None for all documents.
        """

    async def compact(self, keep: int) -> None:
        """Remove all journal documents except the newest `keep`, and likewise rescale documents. Raises `JobDirectoryError`."""

    async def record(self, document: RescaleDocument) -> bool:
        """Create the rescale document if its number is unused, and return whether the document exists now.

        False means that another document has the number. A repeated call with the same document returns True. Raises
        `JobDirectoryError`.
        """

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """Return at most the `limit` newest valid rescale documents, oldest first. Raises `JobDirectoryError`."""

    async def status(self, *, of_standby: bool = False) -> DriverStatus | None:
        """Return the newest status of the driver, or of the standby; None without a valid one. Raises `JobDirectoryError`."""

    async def file(self, uri: str, limit: int) -> bytes | None:
        """Return the content of a file of the directory, by its URI.

        None if the file does not exist, is not in the directory, or has more than `limit` bytes. Raises `JobDirectoryError`.
        """


if TYPE_CHECKING:  # Every `airflow` command loads this module.
    from airflow_adaptive._core.requirements.control_requests import ControlRequests
    from airflow_adaptive._core.view import JobView


class JobStore(Protocol):
    """Control requests and published state of a job. The store is never the truth: the journal is."""

    async def control_requests(self) -> ControlRequests:
        """Return the newest known control requests, without waiting for a store that does not answer."""

    async def publish(self, view: JobView) -> None:
        """Publish the view of the job: state, parallelism, transitions, decisions and rescales."""

    async def publish_metrics(self, metrics: Mapping[str, object]) -> None:
        """Publish the newest job metrics: documents by key. A store may skip some of them while many jobs run."""

    async def published_metrics(self) -> Mapping[str, object]:
        """Return the job metrics that any loop published last, when the store answers."""


class SourceOffsets(Protocol):
    """The brokers of the sources, as the loop reaches them while no driver reports the lag."""

    async def end_offsets(self, source: KafkaSource, topics: frozenset[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the end offset of each partition of the topics of a source, by topic and by the number of the partition.

        Args:
            source: the source, whose isolation level applies.
            topics: topics that the source has read. If the source has a pattern, other topics that the pattern matches are in the result, too.

        Raises:
            SourceUnreachableError: the brokers do not answer, refuse the request, do not know a topic, or belong to another cluster.
        """
