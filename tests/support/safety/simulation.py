"""One job whose drivers must never run queries at the same time: the real control loop and the real drivers, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_adaptive._core.ports import SubmissionState
from airflow_adaptive._core.protocol.documents import DriverState
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.observation.driver_events import LEASE_MARGIN
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.simulation.one_job import small_job
from tests.support.safety import leased_driver
from tests.support.safety.leased_driver import LeasedDriver
from tests.support.safety.operating_system import Hosts
from tests.support.safety.slow_directory import ROOT, DriverDirectory, SlowStore

JOB = "job"

OPTIONS: dict[str, Any] = {
    "resource_wait_timeout": -1,
    "resource_stabilization_timeout": 0,
    "poll_interval": "0.2 s",
    "deploy_timeout": "10 min",
    "stop_timeout": "10 s",
    "driver_heartbeat_timeout": "20 s",
    "driver_lease_timeout": "20 s",
    "restart_strategy": {"type": "fixed-delay", "attempts": 1000, "delay": 0},
}
"""A successor starts as early as the product allows."""

TICK_S = 0.05


class TwoDriversError(AssertionError):
    """Two drivers ran queries at the same time, or a driver ran a query after its lease."""


class ProcessClock:
    """The `Clock` of one simulated process."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process

    def now(self) -> datetime:
        return self._process.wall_time()

    @property
    def elapsed(self) -> float:
        return self._process.elapsed()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LateCluster(FakeCluster):
    """A cluster whose drivers are processes of the simulation. A kill takes effect after a time.

    Attributes:
        kills: submission ids of the drivers that the loop has killed.
        kill_s: time until a kill takes effect.
    """

    def __init__(self, kernel: Kernel, kill_driver_process: Callable[[str], None], kill_s: float) -> None:
        super().__init__()
        self.kills: list[str] = []
        self.kill_s = kill_s
        self._kernel = kernel
        self._kill_driver_process = kill_driver_process

    async def kill(self, submission_id: str) -> None:
        self._receive()
        self.kills.append(submission_id)
        if self.states.get(submission_id) is SubmissionState.RUNNING:
            self._kernel.after(self.kill_s, lambda: self._kill(submission_id))

    def _kill(self, submission_id: str) -> None:
        if self.states[submission_id] is SubmissionState.RUNNING:  # a master does not reach a lost worker
            self._kill_driver_process(submission_id)
            self._end(submission_id, SubmissionState.KILLED)


class SafetySimulation:
    """Runs one job.

    Attributes:
        drivers: the drivers by submission id, oldest first.
    """

    def __init__(self, *, call_s: float = 0.02, kill_s: float = 0.5, boot_s: float = 0.1, **options: Any) -> None:
        self.kernel = Kernel()
        self.hosts = Hosts(self.kernel)
        self.files = SlowStore(self.kernel, call_s)
        self.cluster = LateCluster(self.kernel, lambda name: self.drivers[name].kill(), kill_s)
        self.store = FakeStore()
        self.drivers: dict[str, LeasedDriver] = {}
        self.spec = small_job(JOB, (1, 1), OPTIONS | options)
        self.spec = replace(self.spec, directory=f"gs://{ROOT}/{JOB}")
        self._boot_s = boot_s
        self._triggerers: list[SimulatedProcess] = []
        self._loops: list[tuple[Loop, asyncio.Task[Any]]] = []
        for _ in range(3):
            self.cluster.add_worker(cores=2, memory_mb=1024)

    @property
    def lease_s(self) -> float:
        return self.spec.options.driver_lease_timeout.total_seconds()

    @property
    def driver(self) -> LeasedDriver:
        """The newest driver."""
        return list(self.drivers.values())[-1]

    @property
    def loop(self) -> Loop:
        """The newest control loop."""
        return self._loops[-1][0]

    def start_loop(self) -> None:
        """Start a control loop in a new process."""
        process = SimulatedProcess(self.kernel, f"triggerer-{len(self._triggerers) + 1}")
        directory = FsspecJobDirectory(Storage(self.files, ROOT), JOB)
        ports = Ports(cluster=self.cluster, directory=directory, store=self.store, clock=ProcessClock(process))
        loop = Loop(self.spec, ports)
        self._triggerers.append(process)
        event_loop = SimulatedEventLoop(process)  # type: ignore[abstract]  # it has no methods for networks
        self._loops.append((loop, event_loop.create_task(loop.run())))

    def kill_loop(self) -> None:
        self._triggerers[-1].kill()

    def lose_worker(self) -> None:
        """The worker of the newest driver loses its connection to the master. Its processes continue to run."""
        worker = self.cluster._drivers[list(self.drivers)[-1]].worker
        assert worker is not None
        self.cluster.kill_worker(worker.worker_id)

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Run everything for a time, or until a condition is true."""
        end = self.kernel.now + seconds
        with self.files.installed(), leased_driver.installed(self.kernel, self.hosts):
            while self.kernel.now < end and not until():
                self._tick()
                self.kernel.run(self.kernel.now + TICK_S, self.check)
        for _, task in self._loops:
            if task.done() and not task.cancelled():
                task.result()

    def run_until_query(self, number: int = 1) -> None:
        """Run until the nth driver runs its query, and the scheduler knows this."""
        self.run(
            300, lambda: len(self.drivers) >= number and self.driver.runs_query and self.loop.state.name == "Executing"
        )
        assert self.driver.runs_query

    def check(self) -> None:
        """At most one driver runs a query, and only until the margin after its lease, as the scheduler assumes."""
        running = {name: driver for name, driver in self.drivers.items() if driver.runs_query}
        if len(running) > 1:
            raise TwoDriversError(f"after {self.kernel.now:g} s {sorted(running)} run queries")
        limit = self.lease_s + LEASE_MARGIN.total_seconds()
        for name, driver in running.items():
            if driver.age_s > limit:
                raise TwoDriversError(f"{name} runs a query {driver.age_s:g} s after it began to read the journal")

    def _tick(self) -> None:
        """Start the drivers that the cluster has placed, and let the cluster notice drivers that have ended."""
        for name, state in self.cluster.states.items():
            if state is SubmissionState.RUNNING and name not in self.drivers:
                directory = DriverDirectory(self.files, self.kernel, JOB, timeout_s=2.0)
                self.drivers[name] = LeasedDriver(self.kernel, self.hosts, self.cluster, name, directory)
                self.drivers[name].boot(self._boot_s)
            elif state is SubmissionState.RUNNING and not self.drivers[name].jvm.is_alive:
                stopped = self.drivers[name].end in (DriverState.STOPPED, DriverState.FINISHED)
                self.cluster._end(name, SubmissionState.FINISHED if stopped else SubmissionState.FAILED)
