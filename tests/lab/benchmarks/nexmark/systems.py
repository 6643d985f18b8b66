"""The systems: Spark under airflow-adaptive, with fixed and with adaptive parallelism, and Flink with its adaptive scheduler."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.benchmarks.rescale.flink.installation import Flink, find
from tests.support.jars import Packages
from tests.support.kafka.looped_job import MEMORY_MB, LoopedJob

SLOTS: Final = 2

CONNECTOR: Final = Packages("Flink", ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",))
"""The newest published version; none is published for Flink 2.3."""

SPARK_SCRIPT: Final = Path(__file__).with_name("spark_job.py")

FLINK_SCRIPT: Final = Path(__file__).with_name("flink_job.py")


@dataclass(frozen=True, slots=True)
class Topics:
    """What a job reads and writes.

    Attributes:
        servers: addresses of the brokers.
        events: topic of the events.
        results: topic of the results.
    """

    servers: str
    events: str
    results: str


class RunningJob(ABC):
    """A job that runs with all slots."""

    @abstractmethod
    async def rescale(self, slots: int) -> None:
        """Request a parallelism, and wait until the job runs with it."""


class System(ABC):
    """A system that runs the queries.

    Attributes:
        name: name of the system, for the table.
    """

    name: str

    @abstractmethod
    def running(self, query: str, topics: Topics, root: Path) -> AbstractAsyncContextManager[RunningJob]:
        """Run a query with all slots for the duration of a block. The folder `root` is empty."""


class SparkJob(RunningJob):
    """A job under a real loop."""

    def __init__(self, job: LoopedJob, *, is_adaptive: bool) -> None:
        """Refer to a job. A job with fixed parallelism keeps its bounds."""
        self._job = job
        self._is_adaptive = is_adaptive

    async def rescale(self, slots: int) -> None:
        """See `RunningJob`."""
        if self._is_adaptive:
            self._job.request_bounds(1, slots)
            await self._job.wait_executing(slots)


class Spark(System):
    """Spark under airflow-adaptive, on a cluster of its own."""

    def __init__(self, name: str, bounds: ParallelismRange) -> None:
        """Describe the system; nothing is started."""
        self.name = name
        self._bounds = bounds

    @asynccontextmanager
    async def running(self, query: str, topics: Topics, root: Path) -> AsyncIterator[RunningJob]:
        """See `System`."""
        with LocalCluster() as cluster:
            cluster.add_worker(cores=SLOTS + 1, memory_mb=(SLOTS + 1) * MEMORY_MB)  # one for the driver
            args = (topics.servers, topics.events, topics.results, query)
            job = LoopedJob(cluster, root, SPARK_SCRIPT.read_text(), args, self._bounds)
            async with job.running():
                await job.wait_executing(SLOTS)
                yield SparkJob(job, is_adaptive=self._bounds.lower < self._bounds.upper)
            await job.close()


class FlinkJob(RunningJob):
    """A job of Flink's adaptive scheduler."""

    def __init__(self, flink: Flink) -> None:
        """Refer to a cluster with one job."""
        self._flink = flink

    async def rescale(self, slots: int) -> None:
        """See `RunningJob`."""
        await asyncio.to_thread(self._flink.request, slots)
        await asyncio.to_thread(self._flink.wait_running, slots)


class FlinkSystem(System):
    """Flink with its adaptive scheduler."""

    name = "Flink, adaptive"

    def __init__(self, environment: Path) -> None:
        """Describe the system. `environment` is the virtual environment that contains Flink."""
        self._environment = environment

    @asynccontextmanager
    async def running(self, query: str, topics: Topics, root: Path) -> AsyncIterator[RunningJob]:
        """See `System`."""
        (connector,) = CONNECTOR.jars
        with Flink(find(self._environment), root / "flink") as flink:
            await asyncio.to_thread(flink.start)
            arguments = (str(connector), topics.servers, topics.events, topics.results, query)
            await asyncio.to_thread(flink.submit, FLINK_SCRIPT, *arguments)
            yield FlinkJob(flink)


def systems(flink: Path) -> tuple[System, ...]:
    """Return the systems. The first one is the one with which the others are compared."""
    return (
        Spark(f"Spark, {SLOTS} slots", ParallelismRange(SLOTS, SLOTS)),
        Spark(f"Spark, 1 to {SLOTS} slots", ParallelismRange(1, SLOTS)),
        FlinkSystem(flink),
    )
