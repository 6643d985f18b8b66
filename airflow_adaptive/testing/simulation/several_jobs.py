"""Several jobs on one fake cluster, under as many triggerers as wanted, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from airflow_adaptive.job.protocol.documents import JournalDocument
from airflow_adaptive.ports import (
    ClusterSnapshot,
    ControlRequests,
    DriverLog,
    DriverSubmission,
    SubmissionStatus,
)
from airflow_adaptive.runtime.cluster.shared_cluster import SharedCluster
from airflow_adaptive.runtime.loop import Loop, Ports
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.scheduler.allocator.slot_sharing import minimum_slots
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.driver import FakeDrivers
from airflow_adaptive.testing.fakes.job_channel import FakeChannel
from airflow_adaptive.testing.fakes.job_store import FakeStore
from airflow_adaptive.testing.fakes.virtual_time import VirtualClock, run

MEMORY_MB = 512
"""Of drivers and executors."""

BOOT_S = 8
"""From the placing of a driver until its session asks for executors."""

LATENCY_S = 0.05
"""Of a question to the cluster."""


class DistantCluster:
    """A `ClusterClient` of a fake cluster that takes its time."""

    def __init__(self, cluster: FakeCluster, clock: VirtualClock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def snapshot(self) -> ClusterSnapshot:
        """See `ClusterClient`."""
        await self._clock.sleep(LATENCY_S)
        return await self._cluster.snapshot()

    async def submit(self, submission: DriverSubmission) -> str:
        """See `ClusterClient`."""
        await self._clock.sleep(LATENCY_S)
        return await self._cluster.submit(submission)

    async def status(self, submission_id: str) -> SubmissionStatus:
        """See `ClusterClient`."""
        await self._clock.sleep(LATENCY_S)
        return await self._cluster.status(submission_id)

    async def driver_log(self, submission_id: str) -> DriverLog:
        """See `ClusterClient`."""
        return await self._cluster.driver_log(submission_id)

    async def kill(self, submission_id: str) -> None:
        """See `ClusterClient`."""
        await self._clock.sleep(LATENCY_S)
        await self._cluster.kill(submission_id)

    async def close(self) -> None:
        """See `ClusterClient`."""


class DistantChannel(FakeChannel):
    """A job directory on a storage that takes its time to write."""

    def __init__(self, job: str, clock: VirtualClock, seconds: Callable[[], float]) -> None:
        super().__init__(job)
        self._clock = clock
        self._seconds = seconds

    async def create(self, document: JournalDocument) -> bool:
        """See `JobChannel.create`."""
        await self._clock.sleep(self._seconds())
        return await super().create(document)


@dataclass(kw_only=True)
class Competitor:
    """One of the jobs.

    Attributes:
        spec: as deployed.
        triggerer: number of the triggerer that runs its loop.
        starts_s: when its loop begins, seconds.
    """

    spec: JobSpec
    triggerer: int
    starts_s: float
    channel: FakeChannel
    drivers: FakeDrivers
    store: FakeStore = field(default_factory=FakeStore)
    loop: Loop | None = None

    @property
    def state(self) -> SchedulerState:
        """Where its loop stands."""
        if self.loop is None:
            raise LookupError(f"{self.spec.graph.job!r} has not begun")
        return self.loop.state

    @property
    def minimum(self) -> int:
        """Slots that it can't run without."""
        return minimum_slots(self.spec.graph, default_requirements(self.spec.graph, self.spec.options))

    @property
    def path(self) -> list[str]:
        """States that it entered, as people saw them."""
        return [] if not self.store.views else [it["target"] for it in self.store.views[-1].history.transitions]

    @property
    def runs_on(self) -> int:
        """Slots that its queries run on, 0 if they do not run."""
        plan = None if self.loop is None else self.loop.state.plan
        return plan.slots if plan is not None and self.state.name == "Executing" else 0

    @property
    def claims(self) -> int:
        """Cores that it holds or has planned on."""
        if self.loop is None or self.loop.state.driver is None:
            return 0
        plan = self.loop.state.plan
        return 1 + (0 if plan is None else plan.slots)


class Competition:
    """A cluster and the jobs that compete for it."""

    def __init__(self, triggerers: int = 1, seed: int = 0, storage_s: float = 0.1) -> None:
        """An empty cluster and no jobs.

        Args:
            triggerers: processes, each with a ledger of its own.
            seed: of all chance.
            storage_s: seconds that writing a document may take.
        """
        self.cluster = FakeCluster()
        self.jobs: dict[str, Competitor] = {}
        self.checks: list[Callable[[], None]] = []
        """Called every second, to raise what is wrong."""
        self.clock = VirtualClock()
        self._random = Random(seed)
        self._triggerers = triggerers
        self._storage_s = storage_s
        self._strangers: list[DriverSubmission] = []
        self._planned: list[tuple[float, Callable[[], object]]] = []

    def add_job(
        self,
        name: str,
        parallelism: tuple[int, int],
        *,
        priority: int = 1,
        triggerer: int = 0,
        starts_s: float = 0.0,
        **options: object,
    ) -> Competitor:
        """One more job."""
        channel = DistantChannel(name, self.clock, lambda: self._random.uniform(0, self._storage_s))
        spec = JobSpec(
            graph=JobGraph.single(name, ParallelismRange.of(parallelism)),
            options=Options.of({"resource_wait_timeout": -1, **options}),
            directory=f"file:///jobs/{name}",
            script="file:///jobs/script.py",
            py_files=(),
            driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
            executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
            attempt="attempt-1",
            priority=priority,
        )
        drivers = FakeDrivers(self.cluster, channel)
        drivers.boots = BOOT_S
        job = Competitor(spec=spec, triggerer=triggerer, starts_s=starts_s, channel=channel, drivers=drivers)
        self.jobs[name] = job
        return job

    def ask(self, name: str, *, upper: int) -> None:
        """Somebody lowers or raises a job's upper bound."""
        job = self.jobs[name]
        job.store.asked = ControlRequests(requirements={"job": (job.minimum, upper)})

    def kill_worker(self, chance: Random) -> None:
        """One of the workers dies, unless it is the last."""
        workers = [worker.worker_id for worker in self.cluster.workers]
        if len(workers) > 1:
            self.cluster.kill_worker(chance.choice(workers))

    def submit_strange_driver(self, cores: int) -> None:
        """Somebody else submits a driver."""
        submission = DriverSubmission(name="strange", script="x.py", driver_cores=cores, driver_memory_mb=MEMORY_MB)
        self._strangers.append(submission)

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something when so many seconds have passed."""
        self._planned.append((seconds, action))

    def add_worker(self, cores: int) -> str:
        """A worker joins; returns its id."""
        return self.cluster.add_worker(cores=cores, memory_mb=cores * MEMORY_MB)

    @property
    def free(self) -> int:
        """Cores that nobody holds."""
        return sum(worker.cores_free for worker in self.cluster.workers)

    def run(self, seconds: float) -> dict[str, int]:
        """Let everything run for so long; returns the slots that each job runs on."""
        run(self._run(seconds))
        return {name: job.runs_on for name, job in self.jobs.items()}

    async def _run(self, seconds: float) -> None:
        shared = [SharedCluster(DistantCluster(self.cluster, self.clock), self.clock) for _ in range(self._triggerers)]
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(self._compete(job, shared[job.triggerer])) for job in self.jobs.values()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._work()
            for loop in loops:
                loop.cancel()

    async def _compete(self, job: Competitor, shared: SharedCluster) -> None:
        ports = Ports(cluster=shared.client, channel=job.channel, store=job.store, clock=self.clock, shared=shared)
        job.loop = Loop(job.spec, ports)
        await self.clock.sleep(job.starts_s)
        await job.loop.run()

    async def _work(self) -> None:
        """The cluster works on, second by second."""
        for second in range(1 << 30):
            for _, action in [it for it in self._planned if second <= it[0] < second + 1]:
                action()
            while self._strangers:
                await self.cluster.submit(self._strangers.pop())
            snapshot = await self.cluster.snapshot()
            states = {name: (await self.cluster.status(name)).state for name in self.cluster.submissions}
            for job in self.jobs.values():
                job.drivers.tick(snapshot, states)
            for check in self.checks:
                check()
            await self.clock.sleep(1)
