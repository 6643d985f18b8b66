"""Several jobs that compete for one fake cluster, with one or more triggerers, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from airflow_adaptive._core.ports import ClusterSnapshot, DriverLog, DriverSubmission, Request, SubmissionStatus
from airflow_adaptive._core.protocol.documents import JournalDocument
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.scheduler.allocator import minimum_slots
from airflow_adaptive._core.scheduler.machine import default_requirements
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.rate_limit import FILE_POLLS_PER_SECOND, RateLimiter
from airflow_adaptive._engine.spec import JobSpec
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.driver import FakeDrivers
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fakes.virtual_time import VirtualClock, run
from tests.lab.simulation.one_job import MEMORY_MB, small_job

BOOT_S = 8
"""Ticks from the placement of a driver until its session requests executors."""

REGISTRATION_S = 1
"""Ticks from the grant of an executor until the executor has registered with its driver."""

LATENCY_S = 0.05
"""Duration of a call to the cluster by default, seconds."""


class DistantCluster:
    """A `ClusterClient` of a fake cluster whose calls take time."""

    def __init__(
        self, cluster: FakeCluster, clock: VirtualClock, latency_s: Callable[[], float] = lambda: LATENCY_S
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._latency_s = latency_s

    async def snapshot(self) -> ClusterSnapshot:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s())
        return await self._cluster.snapshot()

    async def check(self, driver: Request | None = None, executor: Request | None = None) -> None:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s())
        await self._cluster.check(driver, executor)

    async def submit(self, submission: DriverSubmission) -> str:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s())
        return await self._cluster.submit(submission)

    async def status(self, submission_id: str) -> SubmissionStatus:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s())
        return await self._cluster.status(submission_id)

    async def driver_log(self, submission_id: str) -> DriverLog:
        """See `ClusterClient`."""
        return await self._cluster.driver_log(submission_id)

    async def kill(self, submission_id: str) -> None:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s())
        await self._cluster.kill(submission_id)

    async def clean_up(self, job: str) -> None:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s())
        await self._cluster.clean_up(job)

    async def close(self) -> None:
        """See `ClusterClient`."""


class DistantJobDirectory(FakeJobDirectory):
    """A job directory on a storage whose writes take time."""

    def __init__(self, job: str, clock: VirtualClock, seconds: Callable[[], float]) -> None:
        super().__init__(job)
        self._clock = clock
        self._seconds = seconds

    async def create(self, document: JournalDocument) -> bool:
        """See `JobDirectory.create`."""
        await self._clock.sleep(self._seconds())
        return await super().create(document)


@dataclass(kw_only=True)
class Competitor:
    """One of the jobs.

    Attributes:
        spec: the job as deployed.
        triggerer: number of the triggerer that runs the loop of the job.
        starts_s: start of the loop, seconds.
        clock: clock of the loop.
    """

    spec: JobSpec
    triggerer: int
    starts_s: float
    clock: VirtualClock
    directory: FakeJobDirectory
    drivers: FakeDrivers
    store: FakeStore = field(default_factory=FakeStore)
    loop: Loop | None = None

    @property
    def state(self) -> SchedulerState:
        """State of the scheduler."""
        if self.loop is None:
            raise LookupError(f"{self.spec.graph.job!r} has not begun")
        return self.loop.state

    @property
    def minimum(self) -> int:
        """Slots for the lower bounds of the job."""
        return minimum_slots(self.spec.graph, default_requirements(self.spec.graph, self.spec.options))

    @property
    def path(self) -> list[str]:
        """States that the job has entered, from the published views."""
        return [] if not self.store.views else [it.target for it in self.store.views[-1].history.transitions]

    @property
    def runs_on(self) -> int:
        """Slots of the running queries, 0 if no query runs."""
        plan = None if self.loop is None else self.loop.state.plan
        return plan.slots if plan is not None and self.state.name == "Executing" else 0

    @property
    def claims(self) -> int:
        """Cores that the job holds or has planned."""
        if self.loop is None or self.loop.state.driver is None:
            return 0
        plan = self.loop.state.plan
        return 1 + (0 if plan is None else plan.slots)


class Competition:
    """A cluster and the jobs that compete for it."""

    def __init__(self, triggerers: int = 1, seed: int = 0, storage_s: float = 0.1) -> None:
        """Create an empty cluster without jobs.

        Args:
            triggerers: number of processes, each with its own shared cluster.
            seed: seed of all random values.
            storage_s: longest duration of a write to the job directory, seconds.
        """
        self.cluster = FakeCluster()
        self.jobs: dict[str, Competitor] = {}
        self.latency_s = LATENCY_S
        """Duration of a call to the cluster, seconds."""
        self.checks: list[Callable[[], None]] = []
        """Functions that check the cluster and the jobs once per second, and raise an error if a check fails."""
        self.clock = VirtualClock()
        self._random = Random(seed)
        self._triggerers = triggerers
        self._storage_s = storage_s
        self._foreign: list[DriverSubmission] = []
        self._planned: list[tuple[float, Callable[[], object]]] = []

    def add_job(
        self,
        name: str,
        parallelism: tuple[int, int],
        *,
        priority: int = 1,
        triggerer: int = 0,
        starts_s: float = 0.0,
        clock_ahead: timedelta = timedelta(0),
        **options: object,
    ) -> Competitor:
        """Add a job, whose loop may have a wall clock that is ahead of the other clocks."""
        directory = DistantJobDirectory(name, self.clock, lambda: self._random.uniform(0, self._storage_s))
        spec = replace(small_job(name, parallelism, {"resource_wait_timeout": -1, **options}), priority=priority)
        drivers = FakeDrivers(self.cluster, directory, lambda: self.clock.elapsed)
        drivers.boots, drivers.registers = BOOT_S, REGISTRATION_S
        clock = VirtualClock(clock_ahead)
        job = Competitor(
            spec=spec, triggerer=triggerer, starts_s=starts_s, clock=clock, directory=directory, drivers=drivers
        )
        self.jobs[name] = job
        return job

    def set_upper_bound(self, name: str, upper: int) -> None:
        """Change the upper bound of a job, as a user does."""
        job = self.jobs[name]
        job.store.requests = ControlRequests(requirements={"job": ParallelismRange(job.minimum, upper)})

    def kill_worker(self, chance: Random) -> None:
        """Kill one of the workers, unless it is the last one."""
        workers = [worker.worker_id for worker in self.cluster.workers]
        if len(workers) > 1:
            self.cluster.kill_worker(chance.choice(workers))

    def submit_foreign_driver(self, cores: int) -> None:
        """Submit a foreign driver, which belongs to no job."""
        submission = DriverSubmission(
            name="foreign", epoch=0, nonce="", script="x.py", driver_cores=cores, driver_memory_mb=MEMORY_MB
        )
        self._foreign.append(submission)

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Plan an action for a time, in seconds."""
        self._planned.append((seconds, action))

    def add_worker(self, cores: int) -> str:
        """Add a worker; returns its id."""
        return self.cluster.add_worker(cores=cores, memory_mb=cores * MEMORY_MB)

    @property
    def free(self) -> int:
        """Cores that are not granted."""
        return sum(worker.free.cpu_millicores // 1000 for worker in self.cluster.workers)

    def run(self, seconds: float) -> dict[str, int]:
        """Run all jobs for a time; returns the slots of the running queries by job."""
        run(self._run(seconds))
        return {name: job.runs_on for name, job in self.jobs.items()}

    async def _run(self, seconds: float) -> None:
        processes = [self._process() for _ in range(self._triggerers)]
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(self._compete(job, *processes[job.triggerer])) for job in self.jobs.values()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._work()
            for loop in loops:
                loop.cancel()

    def _process(self) -> tuple[DistantCluster, SharedCluster, RateLimiter]:
        """Return the resources that the loops of one triggerer share."""
        client = DistantCluster(self.cluster, self.clock, lambda: self.latency_s)
        return client, SharedCluster(self.clock), RateLimiter(FILE_POLLS_PER_SECOND, self.clock)

    async def _compete(
        self, job: Competitor, client: DistantCluster, shared: SharedCluster, files: RateLimiter
    ) -> None:
        ports = Ports(
            cluster=client, directory=job.directory, store=job.store, clock=job.clock, shared=shared, files=files
        )
        job.loop = Loop(job.spec, ports)
        await self.clock.sleep(job.starts_s)
        await job.loop.run()

    async def _work(self) -> None:
        """Let cluster and drivers run, second by second."""
        for second in range(1 << 30):
            for _, action in [it for it in self._planned if second <= it[0] < second + 1]:
                action()
            while self._foreign:
                await self.cluster.create_driver(self._foreign.pop())
            states = self.cluster.states
            for job in self.jobs.values():
                job.drivers.tick(states)
            for check in self.checks:
                check()
            await self.clock.sleep(1)
