"""The port of the cluster manager."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

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


def _accepts_all(_placement: str) -> bool:
    return True


def _charge_request(request: Request) -> Resources:
    return request


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
    accepts: Callable[[str], bool] = field(default=_accepts_all, compare=False, repr=False)
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
    """

    state: SubmissionState
    request: Resources
    message: str = ""
    can_start: bool = True


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
    charge: Callable[[Request], Resources | None] = field(default=_charge_request, compare=False, repr=False)


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
        log_command: command of a user that prints the output of the driver; "" if nothing keeps the output, None if the worker has it.
    """

    state: SubmissionState
    message: str = ""
    worker_address: str = ""
    can_start: bool = True
    ended_by: str = ""
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
        ...

    async def snapshot(self) -> ClusterSnapshot:
        """Return workers, grants and drivers. Raises `ClusterUnreachableError`."""
        ...

    async def submit(self, submission: DriverSubmission) -> str:
        """Start a driver and return its submission id.

        A submission with the name, the epoch and the nonce of an earlier submission results in no second driver: the call returns the id of
        the first driver, or raises `ClusterUnreachableError`.

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

    async def clean_up(self, job: str) -> None:
        """Remove what the drivers of a job that has ended left on the cluster. The call is idempotent. Raises `ClusterUnreachableError`."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
