"""Two real jobs that want all of one real cluster, under the loops of one process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.local.cluster import HOST, LocalCluster
from airflow_adaptive.local.waiting import wait_until_async
from tests.lab.fakes.job_store import FakeStore

pytestmark = pytest.mark.long

SCRIPT = """
from airflow_adaptive.job import AdaptiveJob

AdaptiveJob(lambda spark, parallelism: spark.readStream.format("rate").load().writeStream.format("noop")).run()
"""

CORES = 5
MEMORY_MB = 512
TIMEOUT_S = 240.0


class Job:
    """One of the two."""

    def __init__(self, spec: JobSpec, ports: Ports, store: FakeStore) -> None:
        self.store = store
        self.loop = Loop(spec, ports)

    @property
    def slots(self) -> int:
        plan = self.loop.state.plan
        return 0 if plan is None else plan.slots

    @property
    def claims(self) -> int:
        """Cores that it holds or has planned on."""
        return 0 if self.loop.state.driver is None else 1 + self.slots


async def job(name: str, priority: int, root: Path, client: StandaloneCluster, shared: SharedCluster) -> Job:
    script, directory, store = root / "script.py", FsspecJobDirectory(Storage.at(str(root)), name), FakeStore()
    script.write_text(SCRIPT)
    code = await stage(directory, script)
    options: dict[str, Any] = {"resource_stabilization_timeout": "2 s", "deploy_timeout": "3 min"}
    spec = JobSpec(
        graph=JobGraph.single(name, ParallelismRange(1, 4)),
        options=Options.of(options),
        directory=directory.uri,
        script=code.script,
        py_files=code.py_files,
        driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
        executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
        attempt="attempt-1",
        priority=priority,
    )
    ports = Ports(cluster=client, directory=directory, store=store, clock=SystemClock(), shared=shared)
    return Job(spec, ports, store)


def address(cluster: LocalCluster) -> ClusterAddress:
    port, ui_port, rest_port = (urlsplit(it).port or 0 for it in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    return ClusterAddress(masters=(MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port),))


@pytest.mark.asyncio
async def test_two_jobs_that_start_at_once_plan_on_what_there_is(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    spark_cluster.add_worker(cores=CORES, memory_mb=CORES * MEMORY_MB)
    client, shared = StandaloneCluster(address(spark_cluster)), SharedCluster(SystemClock())
    jobs = [await job("low", 1, tmp_path, client, shared), await job("high", 2, tmp_path, client, shared)]
    ends = [asyncio.create_task(it.loop.run()) for it in jobs]

    async def both_run() -> bool:
        assert sum(it.claims for it in jobs) <= CORES
        return all(it.loop.state.name == "Executing" for it in jobs)

    await wait_until_async(both_run, TIMEOUT_S, "two jobs that run")
    assert [it.slots for it in jobs] == [1, 2]
    assert sum((await client.snapshot()).granted.values()) == 3
    for it in jobs:
        it.store.requests = ControlRequests(desired_state=DesiredState.CANCELED)
    assert [(await end).name for end in ends] == ["Finished", "Finished"]
    await client.close()
