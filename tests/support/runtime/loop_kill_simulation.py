"""The simulation of one job for tests that kill its loops: a script of events, and drivers with the real fence.

The drivers do what the real runtime does, in the same order: look at the log, obey, report; a query is started a turn
after its plan was reported, on a second look. At each moment at most one of them may run queries. The whole world can be
copied, to go on from one moment in several ways.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Self

from airflow_adaptive._core.protocol.conf import PREFIX
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.loop import Loop, RunLimits
from tests.lab.simulation.one_job import Simulation
from tests.support.runtime.leased_drivers import LeasedDrivers, UnencodedJobDirectory

OPTIONS: dict[str, Any] = {
    "resource_wait_timeout": "3 h",  # a job without a loop for an hour must not give up
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "2 s",
    "executing_stabilization_timeout": "1 s",
    "max_trigger_delay": "2 s",
    "slot_idle_timeout": 0,
    "deploy_timeout": "40 s",
    "stop_timeout": "4 s",
    "driver_heartbeat_timeout": "6 s",
    "driver_lease_timeout": "6 s",
    "history_size": 4,
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": "1 s"},
}

LONGEST_LIFE_S = 300.0
"""A job that has not ended by then is lost."""


Call = partial[Awaitable[Any]]
"""A call to a port that is about to be made."""

Interceptor = Callable[[str, Call], Awaitable[Any]]
"""Decides what becomes of a call to a port: `(method, call) -> answer`."""


class RequestedStates:
    """A `JobStore` that publishes nothing."""

    def __init__(self) -> None:
        self.requests = ControlRequests()

    async def control_requests(self) -> ControlRequests:
        return self.requests

    async def publish(self, view: object) -> None:
        pass

    async def publish_metrics(self, metrics: object) -> None:
        pass

    async def published_metrics(self) -> dict[str, object]:
        return {}


class InterceptedPort:
    """A port whose every call goes through a fate."""

    def __init__(self, port: Any, fate: Interceptor) -> None:
        self._port = port
        self._fate = fate

    def now(self) -> Any:
        return self._port.now()

    @property
    def elapsed(self) -> float:
        seconds: float = self._port.elapsed
        return seconds

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
        is_stop_requested: whether the simulation has requested the end of the job.
    """

    def __init__(
        self,
        *events: tuple[float, Callable[[LoopKillSimulation], None]],
        slots: int = 1,
        cores: int = 2,
        boot_s: tuple[int, int] = (1, 1),
        **options: Any,
    ) -> None:
        super().__init__(**OPTIONS | options)
        self.store: Any = RequestedStates()
        self.directory: Any = UnencodedJobDirectory()
        self.drivers: Any = LeasedDrivers(self.cluster, self.directory, self.elapsed_s, boot_s)
        self.ports = replace(self.ports, store=self.store, directory=self.directory)
        self.events = list(events)
        self.slots = slots
        self.is_stop_requested = False
        if cores:
            self.cluster.add_worker(cores=cores, memory_mb=512 * cores)

    def copy(self) -> Self:
        """The same world, to go on with in another way; what never changes is shared."""
        fixed = [self.spec, *self.cluster.submissions.values(), *self.cluster._workers.values(), *self.events]
        fixed += [*self.directory.documents.values(), self.directory.newest_status]
        return copy.deepcopy(self, {id(it): it for it in fixed})

    def through(self, fate: Interceptor, leave: RunLimits | None = None) -> Loop:
        """A loop whose calls to the ports all go through a fate."""
        names = ("cluster", "directory", "store", "clock")
        ports: dict[str, Any] = {name: InterceptedPort(getattr(self.ports, name), fate) for name in names}
        return Loop(self.spec, replace(self.ports, **ports), leave)

    def pass_time(self, seconds: float) -> None:
        """No loop runs for this time."""

        async def wait() -> None:
            for _ in range(int(seconds)):
                await self.clock.sleep(1.0)

        asyncio.run(wait())

    def try_again(self) -> None:
        """The task is run again: another attempt, with the desired state RUNNING."""
        self.spec = replace(self.spec, attempt="attempt-2")
        self.store.requests, self.is_stop_requested = ControlRequests(), False

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
        """Make sure that it ran, that no epoch was submitted twice, and that neither a driver nor its objects are left."""
        assert self.drivers.started or self.is_stop_requested
        epochs = [submission.conf[PREFIX + "epoch"] for submission in self.cluster.submissions.values()]
        assert len(epochs) == len(set(epochs)), f"epochs {epochs}: one was submitted twice"
        assert not self.cluster.repeated
        if self.drivers.left:
            self.pass_time(60)  # orphans find out that they are
        assert not self.drivers.left, f"drivers {self.drivers.left} are left"
        assert self.cluster.cleaned_up, "the objects of the job remain on the cluster"

    @staticmethod
    def _has_ended(state: SchedulerState) -> bool:
        return state.name == "Finished" and state.driver is None

    def _tick(self) -> None:
        if self.clock.elapsed > LONGEST_LIFE_S:
            raise AssertionError(f"the job is lost: {self.drivers.newest()}")
        while self.events and self.events[0][0] <= self.clock.elapsed:
            self.events.pop(0)[1](self)
        self.drivers.tick(self.cluster.states)
        if not self.events and not self.is_stop_requested and self._is_well():
            self.store.requests, self.is_stop_requested = ControlRequests(desired_state=DesiredState.SUSPENDED), True

    def _is_well(self) -> bool:
        newest = self.drivers.newest()
        if newest is None or newest.scheduler["current"]["type"] != "Executing":
            return False
        running = [process.epoch for process in self.drivers.active]
        return running == [newest.directive.epoch] and newest.directive.plan.executors == self.slots
