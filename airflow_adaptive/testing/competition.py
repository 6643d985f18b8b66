"""Several jobs on one fake cluster, under as many triggerers as wanted, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from airflow_adaptive.ports import (
    ClusterSnapshot,
    DriverLog,
    DriverSubmission,
    SubmissionState,
    SubmissionStatus,
)
from airflow_adaptive.runtime.loop import Loop, Ports
from airflow_adaptive.runtime.shared_cluster import SharedCluster
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.options import Options
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.testing.fake_channel import FakeChannel
from airflow_adaptive.testing.fake_cluster import FakeCluster
from airflow_adaptive.testing.fake_driver import FakeDrivers
from airflow_adaptive.testing.fake_store import FakeStore
from airflow_adaptive.testing.virtual_time import VirtualClock, run

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
            raise LookupError(f"{self.spec.graph.job} has not begun")
        return self.loop.state

    @property
    def runs_on(self) -> int:
        """Slots that its queries run on, 0 if they do not run."""
        plan = self.state.plan
        return plan.slots if plan is not None and self.state.name == "Executing" else 0


class Competition:
    """A cluster and the jobs that compete for it."""

    def __init__(self, triggerers: int = 1, seed: int = 0) -> None:
        """An empty cluster and no jobs.

        Args:
            triggerers: processes, each with a ledger of its own.
            seed: of all chance.
        """
        self.cluster = FakeCluster()
        self.jobs: dict[str, Competitor] = {}
        self.checks: list[Callable[[], None]] = []
        """Called every second, to raise what is wrong."""
        self.clock = VirtualClock()
        self._random = Random(seed)
        self._triggerers = triggerers
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
        channel = FakeChannel(name)
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

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something when so many seconds have passed."""
        self._planned.append((seconds, action))

    def add_worker(self, cores: int) -> str:
        """A worker joins; returns its id."""
        return self.cluster.add_worker(cores=cores, memory_mb=cores * MEMORY_MB)

    def run(self, seconds: float) -> None:
        """Let everything run for so long."""
        run(self._run(seconds))

    async def _run(self, seconds: float) -> None:
        shared = [
            SharedCluster(DistantCluster(self.cluster, self.clock), self.clock) for _ in range(self._triggerers)
        ]
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(self._compete(job, shared[job.triggerer])) for job in self.jobs.values()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._work()
            for loop in loops:
                loop.cancel()

    async def _compete(self, job: Competitor, shared: SharedCluster) -> None:
        ports = Ports(cluster=shared.client, channel=job.channel, store=job.store, clock=self.clock, shared=shared)
        job.loop = Loop(job.spec, ports, self._random.random)
        await self.clock.sleep(job.starts_s)
        await job.loop.run()

    async def _work(self) -> None:
        """The cluster works on, second by second."""
        for second in range(1 << 30):
            for _, action in [it for it in self._planned if second <= it[0] < second + 1]:
                action()
            snapshot = await self.cluster.snapshot()
            states = {name: (await self.cluster.status(name)).state for name in self.cluster.submissions}
            for job in self.jobs.values():
                job.drivers.tick(snapshot, states)
            for check in self.checks:
                check()
            await self.clock.sleep(1)

