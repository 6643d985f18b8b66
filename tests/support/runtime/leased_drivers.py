"""Driver processes with the real fence, for the simulation of killed loops.

The drivers do what the real runtime does, in the same order: a driver reads the journal, obeys its newest directive and reports its
status. A driver starts a query one turn after it has reported the plan of the query, and reads the journal again before the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.protocol.conf import PREFIX
from airflow_adaptive.job.protocol.documents import (
    Action,
    Directive,
    DriverState,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    JournalDocument,
    QueryReport,
)
from airflow_adaptive.ports import SubmissionState
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.job_directory import FakeJobDirectory
from airflow_adaptive.testing.fakes.manual_clock import ManualClock

LIVING = (SubmissionState.RUNNING, SubmissionState.UNKNOWN)
"""States of a driver whose process may live."""


EVERY_EPOCH = 0
"""Key of the faults of all drivers, whatever their epoch."""


class UnencodedJobDirectory(FakeJobDirectory):
    """A job directory that keeps documents as they are: most of the time would go into JSON otherwise.

    Attributes:
        documents: the log, number -> document.
        newest_status: the driver's status, None before its first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[int, JournalDocument] = {}
        self.newest_status: DriverStatus | None = None

    async def newest(self) -> JournalDocument | None:
        return self._log.get(max(self._log, default=0))

    async def read(self, number: int) -> JournalDocument | None:
        return self._log.get(number)

    async def create(self, document: JournalDocument) -> bool:
        return self._log.setdefault(document.number, document) == document and max(self._log) == document.number

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        older = [number for number in sorted(self._log) if before is None or number < before]
        return [self._log[number] for number in older[-limit:]]

    async def compact(self, keep: int) -> None:
        for number in sorted(self._log)[:-keep]:
            del self._log[number]

    async def status(self) -> DriverStatus | None:
        self._require_available()
        return self.newest_status

    @property
    def _log(self) -> dict[int, JournalDocument]:
        self._require_available()
        return self.documents


class TwoDriversError(AssertionError):
    """Two drivers ran queries at the same time."""


@dataclass(slots=True, kw_only=True)
class Process:
    """One driver process.

    Attributes:
        boots_at: when its session is up, seconds.
        built: the directive whose query it has built and will start when it looks again.
        active: it runs queries.
        gone: it has ended by itself, whatever the cluster knows.
    """

    submission_id: str
    epoch: int
    nonce: str
    boots_at: float
    fence: Fence
    sequence: int = 0
    version: int = 0
    committed: int = 0
    application_id: str | None = None
    state: DriverState = DriverState.STARTING
    failure: FailureReport | None = None
    built: Directive | None = None
    active: bool = False
    gone: bool = False


@dataclass(kw_only=True)
class LeasedDrivers:
    """All driver processes of a job, and what is wrong with them.

    Attributes:
        boot_s: from the start of a process until its session is up; of the first one, and of the others.
        faults: epoch -> of "frozen", "blind" (can't read the log) and "mute" (can't write the status).
        started: (epoch, executors) of every start of the queries, in order.
        processes: by submission.
    """

    cluster: FakeCluster
    directory: UnencodedJobDirectory
    clock: ManualClock
    lease_s: float
    boot_s: tuple[float, float]
    faults: dict[int, frozenset[str]] = field(default_factory=dict)
    started: list[tuple[int, int]] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def active(self) -> list[Process]:
        """Those whose queries run now."""
        return [process for process in self.processes.values() if process.active and self._is_awake(process)]

    @property
    def left(self) -> list[str]:
        """Drivers that are there, or that the cluster will start."""
        living = [it.submission_id for it in self.processes.values() if self._lives(it)]
        waiting = [it for it, driver in self.cluster._drivers.items() if driver.state is SubmissionState.SUBMITTED]
        return living + waiting

    def tick(self) -> None:
        """Let every process that is awake act once."""
        for submission_id, driver in self.cluster._drivers.items():
            if driver.state is SubmissionState.RUNNING and submission_id not in self.processes:
                self.processes[submission_id] = self._boot(submission_id)
        for process in self.processes.values():
            if self._is_awake(process):
                self._act(process)
        if len(self.active) > 1:
            epochs = [process.epoch for process in self.active]
            raise TwoDriversError(f"after {self.clock.elapsed:g} s drivers of epochs {epochs} run queries")

    def newest(self) -> JournalDocument | None:
        """The newest document of the log."""
        return self.directory.documents.get(max(self.directory.documents, default=0))

    def fail(self, process: Process) -> None:
        """The query of a process fails; the driver lives on."""
        process.active, process.built, process.state = False, None, DriverState.FAILED
        process.failure = FailureReport(error_class="SparkException", message="no", causes=("SparkException",))

    def _boot(self, submission_id: str) -> Process:
        conf = self.cluster.submissions[submission_id].conf
        epoch, nonce = int(conf[PREFIX + "epoch"]), conf[PREFIX + "nonce"]
        fence = Fence(epoch=epoch, nonce=nonce, lease_timeout_s=self.lease_s, clock=self._time)
        boots_at = self._time() + self.boot_s[bool(self.processes)]
        return Process(submission_id=submission_id, epoch=epoch, nonce=nonce, boots_at=boots_at, fence=fence)

    def _time(self) -> float:
        return self.clock.elapsed

    def _is_awake(self, process: Process) -> bool:
        awake = self._time() >= process.boots_at and "frozen" not in self._faults(process)
        return awake and self._lives(process)

    def _lives(self, process: Process) -> bool:
        return self.cluster._drivers[process.submission_id].state in LIVING and not process.gone

    def _faults(self, process: Process) -> frozenset[str]:
        return self.faults.get(process.epoch, frozenset()) | self.faults.get(EVERY_EPOCH, frozenset())

    def _act(self, process: Process) -> None:
        try:
            directive = self._look(process)
            end = None if directive is None else self._obey(process, directive)
        except FencedError:
            end = DriverState.FENCED
        if end is not None:
            process.active, process.gone, process.state = False, True, end
            fenced = end is DriverState.FENCED
            self.cluster._end(process.submission_id, SubmissionState.FAILED if fenced else SubmissionState.FINISHED)
        self._report(process)

    def _look(self, process: Process) -> Directive | None:
        newest = None if "blind" in self._faults(process) else self.newest()
        if newest is not None:
            process.fence.admit(newest.directive, self._time())
        process.fence.check(query_may_run=process.active)
        return None if newest is None else newest.directive

    def _obey(self, process: Process, directive: Directive) -> DriverState | None:
        if directive.action is Action.STOP:
            return DriverState.STOPPED
        if directive.action is Action.HOLD or directive.plan is None:
            process.active, process.built = False, None
            process.state = DriverState.FAILED if process.failure else DriverState.HOLDING
        elif process.failure is None or process.version != directive.version:
            self._run(process, directive, directive.plan.executors)
        return None

    def _run(self, process: Process, directive: Directive, executors: int) -> None:
        if self.cluster._drivers[process.submission_id].state is SubmissionState.RUNNING:
            process.application_id = self.cluster.request_executors(process.submission_id, executors, 1, 512)
        there = len(self.cluster.executors(process.submission_id)) >= executors
        if process.active and process.version == directive.version:
            process.committed += 1
        elif process.built == directive and process.fence.overdue_s() < 0:
            process.version, process.state, process.failure = directive.version, DriverState.RUNNING, None
            process.active = True
            self.started.append((process.epoch, executors))
        elif there:
            process.active, process.built, process.state = False, directive, DriverState.RESCALING

    def _report(self, process: Process) -> None:
        newest = self.newest()
        if "mute" in self._faults(process) or newest is None:
            return
        process.sequence += 1
        workers = {worker.worker_id: worker.address for worker in self.cluster._workers.values()}
        placed = [workers[it] for it in self.cluster.executors(process.submission_id) if it in workers]
        self.directory.newest_status = DriverStatus(
            job=newest.job,
            epoch=process.epoch,
            nonce=process.nonce,
            sequence=process.sequence,
            at="",
            state=process.state,
            version=process.version,
            executors=tuple(ExecutorReport(executor_id=at, cores=1, worker=at) for at in placed),
            queries=(QueryReport(name="q", active=process.active, committed=process.committed),),
            failure=process.failure,
            submission_id=process.submission_id,
            application_id=process.application_id,
        )
        process.fence.renew()
