"""A real job on a real cluster under a load that swings and has a spike: it follows, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.autoscaling.advisor import PolicyAdvisor
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.local.cluster import HOST, LocalCluster
from tests.lab.fakes.job_store import FakeStore
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

SCRIPT = """
import sys

from airflow_adaptive.job import AdaptiveJob


def slow(spark, parallelism):
    rows = spark.readStream.text(sys.argv[1]).repartition(parallelism["job"])
    slept = rows.selectExpr("concat(value, substr(reflect('java.lang.Thread', 'sleep', 100L), 1, 0)) AS value")
    return slept.writeStream.format("text").option("path", sys.argv[2]).trigger(processingTime="5 seconds")


AdaptiveJob(slow).run()
"""
"""A row takes a tenth of a second of a slot, and no CPU."""

SLOTS = 4
MEMORY_MB = 512
LOW, HIGH = 3, 25
"""Rows per second: of less than one slot, and of two and a half."""
SWINGS = 2
SPIKE = 200
"""Rows at once."""

LIMIT_S = 400.0
"""Longest wait for each reaction of the job, on a busy machine."""

POLICY = LoadPolicy(up_delay=timedelta(seconds=5), down_delay=timedelta(minutes=1))
"""A rise waits for executors and for a batch to end, half a minute in all: what saves less than that is not done."""


class Source:
    """Writes rows, each once, at a rate that a test changes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rate, self.rows = folder, LOW, count()
        folder.mkdir()
        self.written = 0

    async def run(self) -> None:
        while True:
            self.put(self.rate)
            await asyncio.sleep(1)

    def put(self, rows: int) -> None:
        part = [str(next(self.rows)) for _ in range(rows)]
        hidden = self.folder / f".part-{part[0]}"
        hidden.write_text("\n".join(part) + "\n")
        hidden.rename(self.folder / f"part-{part[0]}.txt")
        self.written += len(part)


def arrived(folder: Path) -> Counter[str]:
    return Counter(row for part in folder.glob("part-*.txt") for row in part.read_text().split())


def address(cluster: LocalCluster) -> ClusterAddress:
    port, ui_port, rest_port = (urlsplit(it).port or 0 for it in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    return ClusterAddress(masters=(MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port),))


async def deployed(root: Path, directory: FsspecJobDirectory) -> JobSpec:
    script = root / "script.py"
    script.write_text(SCRIPT)
    code = await stage(directory, script)
    options: dict[str, Any] = {
        "resource_stabilization_timeout": "2 s",
        "scaling_interval_min": "5 s",
        "executing_stabilization_timeout": "2 s",
        "deploy_timeout": "3 min",
    }
    vertex = JobVertex(name="job", parallelism=ParallelismRange(1, SLOTS), stateful=False)
    return JobSpec(
        graph=JobGraph(job="slow", vertices=(vertex,)),
        options=Options.of(options),
        directory=directory.uri,
        script=code.script,
        py_files=code.py_files,
        args=(f"file://{root}/in", f"file://{root}/out"),
        driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
        executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
        attempt="attempt-1",
    )


@pytest.mark.asyncio
async def test_job_follows_a_load_that_swings_and_loses_nothing(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    spark_cluster.add_worker(cores=SLOTS + 1, memory_mb=(SLOTS + 1) * MEMORY_MB)
    client, shared = StandaloneCluster(address(spark_cluster)), SharedCluster(SystemClock())
    directory, store = FsspecJobDirectory(Storage.at(str(tmp_path)), "slow"), FakeStore()
    source = Source(tmp_path / "in")
    ports = Ports(cluster=client, directory=directory, store=store, clock=SystemClock(), shared=shared)
    loop = Loop(await deployed(tmp_path, directory), ports, advisor=PolicyAdvisor(POLICY))
    writing, end = asyncio.create_task(source.run()), asyncio.create_task(loop.run())

    def running_on(*slots: int) -> Any:
        async def is_so() -> bool:
            current = loop.state.current
            return isinstance(current, Executing) and current.plan.parallelism["job"] in slots

        return is_so

    await wait_until_async(running_on(SLOTS), LIMIT_S, "a job that runs on all that there is")
    await wait_until_async(running_on(1, 2), LIMIT_S, "the job gives back what a small load does not take")
    for _ in range(SWINGS):
        source.rate = HIGH
        await wait_until_async(running_on(3, 4), LIMIT_S, "the job grows with the load")
        source.rate = LOW
        await wait_until_async(running_on(1, 2), LIMIT_S, "the job shrinks with the load")
    source.put(SPIKE)
    writing.cancel()

    async def all_came() -> bool:
        return len(arrived(tmp_path / "out")) == source.written

    await wait_until_async(all_came, LIMIT_S, "every row")
    store.requests = ControlRequests(desired_state=DesiredState.CANCELED)
    assert (await end).name == "Finished"
    assert set(arrived(tmp_path / "out").values()) == {1}, "no row came twice"
    reasons = [decision.reason for view in store.views for decision in view.history.decisions]
    assert any("bounds by load (query 'slow': busy for " in reason for reason in reasons)
    await client.close()
