"""A job in Real-Time Mode under a real loop, on the embedded cluster: it counts the records of a topic by their value."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from airflow_adaptive.local.cluster import HOST, LocalCluster
from airflow_adaptive.local.waiting import wait_until_async
from airflow_adaptive.ports import ControlRequests, DesiredState
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.journal.job_directory import FsspecJobDirectory
from airflow_adaptive.runtime.journal.storage import Storage
from airflow_adaptive.runtime.loop import Loop, Ports
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.runtime.staging import stage
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.spark.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive.spark.standalone.client import StandaloneCluster
from airflow_adaptive.testing.fakes.job_store import FakeStore
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import connector_jars

JOB = "counts"

MEMORY_MB = 512

TIMEOUT_S = 240.0

SCRIPT = """
import sys
from pyspark.sql import functions as F
from airflow_adaptive.job import AdaptiveJob, observe_latency

servers, source, sink = sys.argv[1:]

def counts(spark, parallelism):
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    values = records.option("startingOffsets", "earliest").load().select(F.col("value").cast("string").alias("name"), "timestamp")
    counted = values.groupBy("name").agg(F.count("*").alias("count"), F.max("timestamp").alias("timestamp"))
    times = F.unix_millis("timestamp").alias("at"), F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("bigint").alias("left")
    rows = observe_latency(counted).select(F.to_json(F.struct("name", "count", *times)).alias("value"))
    written = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", sink)
    return written.outputMode("update").trigger(realTime="5 seconds")

AdaptiveJob(counts).run()
"""

OPTIONS = {
    "resource_stabilization_timeout": "2 s",
    "executing_stabilization_timeout": "1 s",
    "scaling_interval_min": "2 s",
    "resource_wait_timeout": "10 min",
    "deploy_timeout": "3 min",
}


class RealTimeJob:
    """The job. Its topics are `<name>` and `<name>-counts`."""

    def __init__(self, cluster: LocalCluster, kafka: KafkaCluster, topic: str, root: Path, slots: int) -> None:
        """Describe a job that may have that many slots; nothing runs yet."""
        self._cluster = cluster
        self._kafka = kafka
        self._topic = topic
        self._root = root
        self._slots = slots
        self._client = StandaloneCluster(_address(cluster))
        self._directory = FsspecJobDirectory(Storage.at(str(root)), JOB)
        self._store = FakeStore()
        self.loop: Loop
        kafka.clients.create_topic(topic, 2)
        kafka.clients.create_topic(f"{topic}-counts", 1)

    @asynccontextmanager
    async def running(self, attempt: str = "1") -> AsyncIterator[RealTimeJob]:
        """Run the loop of the job, and cancel the job in the end."""
        self.loop = Loop(
            await self._spec(attempt),
            Ports(cluster=self._client, directory=self._directory, store=self._store, clock=SystemClock()),
        )
        self._store.requests = ControlRequests()
        task = asyncio.create_task(self.loop.run())
        try:
            yield self
            self._store.requests = ControlRequests(desired_state=DesiredState.CANCELED)
            await asyncio.wait_for(task, TIMEOUT_S)
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Close the connection to the cluster."""
        await self._client.close()

    async def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition. The job must not end meanwhile."""

        async def holds() -> bool:
            assert self.loop.state.name not in {"Finished", "Failing"}, self.loop.state
            return condition()

        try:
            await wait_until_async(holds, TIMEOUT_S, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self.loop.state}\n{self.status()}") from error

    async def wait_executing(self, slots: int) -> None:
        """Wait until the job runs on that many slots."""
        await self.wait(f"{slots} slots", lambda: (self.loop.state.name, self.slots) == ("Executing", slots))

    @property
    def slots(self) -> int:
        """Slots of the plan."""
        return 0 if self.loop.state.plan is None else self.loop.state.plan.slots

    def produce(self, counts: Mapping[str, int]) -> None:
        """Add records: each name as often as given."""
        self._kafka.clients.produce(self._topic, [name for name, count in counts.items() for _ in range(count)])

    def kill_executor(self) -> None:
        """Kill the JVM of an executor (SIGKILL)."""
        children = [child for worker in self._cluster.workers for child in psutil.Process(worker.pid).children()]
        alive = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        next(child for child in alive if "--executor-id" in child.cmdline()).kill()

    def executors(self) -> set[str]:
        """Return the ids of the registered executors."""
        return {executor["executor_id"] for executor in self.status().get("executors", ())}

    def request_bounds(self, lower: int, upper: int) -> None:
        """Set the bounds as a user does."""
        self._store.requests = ControlRequests(requirements={"job": (lower, upper)})

    def latency(self) -> dict[str, int] | None:
        """Return the latency of the newest batch with rows."""
        found: dict[str, int] | None = next((query["latency"] for query in self.status().get("queries", ())), None)
        return found

    def counts(self) -> dict[str, int]:
        """Return the newest count of each name in the output."""
        return {row["name"]: row["count"] for row in self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """Return the output: name, count, and when its newest record was produced (`at`) and the row `left` the query, in Unix milliseconds."""
        return list(map(json.loads, self._kafka.clients.read(f"{self._topic}-counts")))

    def status(self) -> dict[str, Any]:
        """Return the driver status."""
        file = self._root / JOB / "status.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def state_partitions(self) -> str | None:
        """Return the number of state partitions of the newest batch in the checkpoint."""
        folder = self._root / JOB / "checkpoints" / JOB / "offsets"
        newest = max((int(file.name) for file in folder.glob("[0-9]*")), default=None)
        if newest is None:
            return None
        metadata = json.loads((folder / str(newest)).read_text().splitlines()[1])
        partitions: str = metadata["conf"]["spark.sql.shuffle.partitions"]
        return partitions

    async def _spec(self, attempt: str) -> JobSpec:
        script = self._root / "counts.py"
        script.write_text(SCRIPT)
        code = await stage(self._directory, script)
        options: dict[str, Any] = OPTIONS
        return JobSpec(
            graph=JobGraph.single(JOB, ParallelismRange(1, self._slots)),
            options=Options.of(options),
            directory=self._directory.uri,
            script=code.script,
            py_files=code.py_files,
            args=(self._kafka.bootstrap_servers, self._topic, f"{self._topic}-counts"),
            conf={"spark.jars": ",".join(map(str, connector_jars()))},
            driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
            executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
            attempt=attempt,
        )


def _address(cluster: LocalCluster) -> ClusterAddress:
    port, ui_port, rest_port = (urlsplit(it).port or 0 for it in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    return ClusterAddress(masters=(MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port),))
