"""The world of one job for tests that kill its loops: a script of events, and drivers with the real fence.

The drivers do what the real runtime does, in the same order: look at the log, obey, report; a query is started a turn
after its plan was reported, on a second look. At each moment at most one of them may run queries. The whole world can be
copied, to go on from one moment in several ways.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Self

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
from airflow_adaptive.ports import ControlRequests, DesiredState, SubmissionState
from airflow_adaptive.runtime.loop import Loop, RunLimits
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.job_channel import FakeChannel
from airflow_adaptive.testing.fakes.manual_clock import ManualClock
from airflow_adaptive.testing.simulation.one_job import Simulation

OPTIONS: dict[str, Any] = {
    "resource_wait_timeout": "3 h",  # a job that was looked at by nobody for an hour gives nothing up
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "2 s",
    "executing_stabilization_timeout": "1 s",
    "max_trigger_delay": "2 s",
    "slot_idle_timeout": 0,
    "deploy_timeout": "40 s",
    "stop_timeout": "4 s",
    "driver_heartbeat_timeout": "6 s",
    "driver_lease_timeout": "6 s",
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"},
}

LONGEST_LIFE_S = 300.0
"""A job that has not ended by then is lost."""

LIVING = (SubmissionState.RUNNING, SubmissionState.UNKNOWN)
"""States of a driver whose process may live."""

EVERY_EPOCH = 0
"""Key of the faults of all drivers, whatever their epoch."""

Call = partial[Awaitable[Any]]
"""A call to a port that is about to be made."""

Interceptor = Callable[[str, Call], Awaitable[Any]]
"""Decides what becomes of a call to a port: `(method, call) -> answer`."""


class UnencodedChannel(FakeChannel):
    """A channel that keeps documents as they are: most of the time would go into JSON otherwise.

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

    async def history(self, limit: int) -> Sequence[JournalDocument]:
        return [self._log[number] for number in sorted(self._log)[-limit:]]

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
    channel: UnencodedChannel
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
        return self.channel.documents.get(max(self.channel.documents, default=0))

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
        self.channel.newest_status = DriverStatus(
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


class RequestedStates:
    """A `JobStore` that shows nothing to anybody."""

    def __init__(self) -> None:
        self.asked = ControlRequests()

    async def control_requests(self) -> ControlRequests:
        return self.asked

    async def publish(self, view: object) -> None:
        pass

    async def measure(self, figures: object) -> None:
        pass

    async def figures(self) -> dict[str, object]:
        return {}


class InterceptedPort:
    """A port whose every call goes through a fate."""

    def __init__(self, port: Any, fate: Interceptor) -> None:
        self._port = port
        self._fate = fate

    def now(self) -> Any:
        return self._port.now()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def call(*args: Any) -> Any:
            return await self._fate(name, partial(method, *args))

        return call


class LoopKillSimulation(Simulation):
    """One job from its start until it is suspended, when all that was to happen has happened and it runs again.

    Attributes:
        events: (seconds since the start, what happens then), in order.
        slots: it is well when it runs on so many.
        asked: it was asked to end.
    """

    def __init__(
        self,
        *events: tuple[float, Callable[[LoopKillSimulation], None]],
        slots: int = 1,
        cores: int = 2,
        boot_s: tuple[float, float] = (1, 1),
        **options: Any,
    ) -> None:
        super().__init__(**OPTIONS | options)
        self.store: Any = RequestedStates()
        self.channel: Any = UnencodedChannel()
        self.drivers: Any = LeasedDrivers(
            cluster=self.cluster,
            channel=self.channel,
            clock=self.clock,
            lease_s=self.spec.options.driver_lease_timeout.total_seconds(),
            boot_s=boot_s,
        )
        self.ports = replace(self.ports, store=self.store, channel=self.channel)
        self.events = list(events)
        self.slots = slots
        self.asked = False
        if cores:
            self.cluster.add_worker(cores=cores, memory_mb=512 * cores)

    def copy(self) -> Self:
        """The same world, to go on with in another way; what never changes is shared."""
        fixed = [self.spec, *self.cluster.submissions.values(), *self.cluster._workers.values(), *self.events]
        fixed += [*self.channel.documents.values(), self.channel.newest_status]
        return copy.deepcopy(self, {id(it): it for it in fixed})

    def through(self, fate: Interceptor, leave: RunLimits | None = None) -> Loop:
        """A loop whose calls to the ports all go through a fate."""
        names = ("cluster", "channel", "store", "clock")
        ports: dict[str, Any] = {name: InterceptedPort(getattr(self.ports, name), fate) for name in names}
        return Loop(self.spec, replace(self.ports, **ports), leave)

    def pass_time(self, seconds: float) -> None:
        """Nobody runs a loop for so long."""

        async def wait() -> None:
            for _ in range(int(seconds)):
                await self.clock.sleep(1.0)

        asyncio.run(wait())

    def try_again(self) -> None:
        """The task is run again: another attempt, and nobody wants anything else than that it runs."""
        self.spec = replace(self.spec, attempt="attempt-2")
        self.store.asked, self.asked = ControlRequests(), False

    def live(self) -> None:
        """Run a loop until the job has ended."""
        self.run()
        self.check_end()

    def live_in_short_loops(self, lifetime_s: float, gap_s: float) -> None:
        """Run loops of that lifetime one after the other until the job has ended."""
        while not self._has_ended(self.run(RunLimits(recycle_at=self.clock.now() + timedelta(seconds=lifetime_s)))):
            self.pass_time(gap_s)
        self.check_end()

    def check_end(self) -> None:
        """Make sure that it ran, that no epoch was submitted twice, and that no driver is left."""
        assert self.drivers.started or self.asked
        epochs = [submission.conf[PREFIX + "epoch"] for submission in self.cluster.submissions.values()]
        assert len(epochs) == len(set(epochs)), f"epochs {epochs}: one was submitted twice"
        if self.drivers.left:
            self.pass_time(60)  # orphans find out that they are
        assert not self.drivers.left, f"drivers {self.drivers.left} are left"

    @staticmethod
    def _has_ended(state: SchedulerState) -> bool:
        return state.name == "Finished" and state.driver is None

    def _tick(self) -> None:
        if self.clock.elapsed > LONGEST_LIFE_S:
            raise AssertionError(f"the job is lost: {self.drivers.newest()}")
        while self.events and self.events[0][0] <= self.clock.elapsed:
            self.events.pop(0)[1](self)
        self.drivers.tick()
        if not self.events and not self.asked and self._is_well():
            self.store.asked, self.asked = ControlRequests(desired_state=DesiredState.SUSPENDED), True

    def _is_well(self) -> bool:
        newest = self.drivers.newest()
        if newest is None or newest.scheduler["current"]["type"] != "Executing":
            return False
        running = [process.epoch for process in self.drivers.active]
        return running == [newest.directive.epoch] and newest.directive.plan.executors == self.slots


def finish(awaitable: Coroutine[Any, Any, Any]) -> Any:
    """The result of a call to a fake, which awaits nothing."""
    try:
        awaitable.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a fake awaited something")
