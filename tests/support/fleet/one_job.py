"""One job with its real loop over a simulated cluster and storage, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.protocol.documents import JournalDocument
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.loop import Loop, Ports
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fleet import seams
from tests.lab.fleet.cluster import transport
from tests.lab.fleet.cluster.drivers import Drivers
from tests.lab.fleet.cluster.job_model import WorkloadShape
from tests.lab.fleet.cluster.masters import SimulatedMasters
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage
from tests.lab.simulation.one_job import MEMORY_MB, small_job

LEASE_S = 15
JOB = "job"
FOLDER = f"bucket/jobs/{JOB}"

OPTIONS: Mapping[str, object] = {
    "resource_wait_timeout": "60 s",
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "5 s",
    "deploy_timeout": "60 s",
    "stop_timeout": "20 s",
    "driver_heartbeat_timeout": f"{LEASE_S} s",
    "driver_lease_timeout": f"{LEASE_S} s",
    "local_recovery_timeout": "10 s",
}


class StoredJobDirectory(FakeJobDirectory):
    """The job directory of the loop, whose files the drivers see in the simulated storage at once."""

    def __init__(self, storage: SimulatedStorage, now: Callable[[], float]) -> None:
        super().__init__(JOB)
        self._files = storage.files
        self._now = now

    async def create(self, document: JournalDocument) -> bool:
        is_created = await super().create(document)
        if is_created:
            name = f"{FOLDER}/journal/{document.number:010d}.json"
            self._files.write(name, self.journal[document.number], self._now())
        return is_created

    async def status(self) -> Any:
        if self._files.contains(f"{FOLDER}/status.json"):
            self.reported = self._files.read(f"{FOLDER}/status.json")
        return await super().status()


class OneJobFleet:
    """A cluster, and one job whose loop runs in one event loop.

    `history` has all recorded facts, with the virtual time and the process; `overlaps` has the moments with two drivers with queries.
    """

    def __init__(
        self,
        seed: int = 1,
        shape: WorkloadShape | None = None,
        parallelism: tuple[int, int] = (1, 4),
        **options: object,
    ) -> None:
        self.kernel = Kernel()
        self.entropy = Entropy(seed)
        self.history: list[str] = []
        self.overlaps: list[tuple[float, list[str]]] = []
        self.storage = SimulatedStorage(self.kernel, self.entropy, self.record)
        self.drivers = Drivers(self.kernel, self.entropy, self.record, lambda uri: self.storage)
        self.cluster = self.drivers.cluster
        self.masters = SimulatedMasters(
            self.kernel, self.entropy, self.record, self.cluster, hosts=("master-1", "master-2"), token="first"
        )
        self.model = self.drivers.add_job(JOB, shape or WorkloadShape())
        self.store = FakeStore()
        self.process = SimulatedProcess(self.kernel, "triggerer-1")
        spec = small_job(JOB, parallelism, {**OPTIONS, **options})
        self.spec = replace(spec, directory=f"s3a://{FOLDER}", conf={"spark.airflow.adaptive.pollInterval": "1.0"})
        self.loop: Loop | None = None
        self.event_loop = SimulatedEventLoop(self.process)  # type: ignore[abstract]  # it has no methods for networks
        self.tasks: list[asyncio.Task[Any]] = []
        self.process.soon(lambda: self.tasks.append(self.event_loop.create_task(self._run_loop())))

    def record(self, text: str) -> None:
        process = self.kernel.process
        self.history.append(f"{self.kernel.now:9.3f} {'-' if process is None else process.name}  {text}")

    def add_workers(self, *cores: int) -> list[str]:
        return [self.cluster.add_worker(each, each * MEMORY_MB) for each in cores]

    def run(self, seconds: float) -> None:
        """Run for a virtual time."""
        with self.installed():
            self.kernel.run(self.kernel.now + seconds, self._check)
        assert self.event_loop.failures == []
        assert self.model.violations == []
        assert self.cluster.excesses == []

    def run_until(self, is_reached: Callable[[], bool], limit_s: float = 300) -> None:
        """Run until a condition holds."""
        for _ in range(round(limit_s)):
            if is_reached():
                return
            self.run(1)
        raise AssertionError(f"not reached within {limit_s} s: {self.history[-20:]}")

    def set_upper_bound(self, upper: int) -> None:
        """Set requirements, as a user does."""
        self.store.requests = ControlRequests(requirements={JOB: ParallelismRange(1, upper)})

    def runs_with(self, executors: int) -> Callable[[], bool]:
        """Return a condition: queries run on that number of slots, and the scheduler knows it."""
        return lambda: (
            self.state == "Executing"
            and self._plan_slots == executors
            and len(self.drivers.with_queries(JOB)) == 1
            and len(self.cluster.executors(self.drivers.with_queries(JOB)[0].submission_id)) == executors
        )

    @property
    def state(self) -> str:
        return "" if self.loop is None else self.loop.state.name

    @property
    def driver(self) -> Any:
        """The newest driver."""
        return self.drivers.started[-1]

    def has(self, text: str) -> bool:
        """Whether the history contains a text."""
        return any(text in line for line in self.history)

    def count(self, text: str) -> int:
        return sum(text in line for line in self.history)

    @contextmanager
    def installed(self) -> Iterator[None]:
        with seams.installed(self.kernel, self.entropy), transport.installed(self.kernel, lambda host: self.masters):
            yield

    @property
    def _plan_slots(self) -> int:
        plan = None if self.loop is None else self.loop.state.plan
        return 0 if plan is None else plan.slots

    def _check(self) -> None:
        running = [driver.name for driver in self.drivers.with_queries(JOB)]
        if len(running) > 1:
            self.overlaps.append((self.kernel.now, running))

    async def _run_loop(self) -> None:
        cluster = StandaloneCluster(self.masters.address, renew=self._renew)
        directory = StoredJobDirectory(self.storage, lambda: self.kernel.now)
        ports = Ports(cluster=cluster, directory=directory, store=self.store, clock=SystemClock())
        self.loop = Loop(self.spec, ports)
        state = await self.loop.run()
        self.record(f"loop ended: {state.name}")

    async def _renew(self) -> ClusterAddress:
        return self.masters.address
