"""A real worker is decommissioned: the job gives its slots up without a failure, and the timeline names the worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.local.cluster import HOST, LocalCluster
from tests.lab.fakes.job_store import FakeStore
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SCRIPT = """
from airflow_adaptive.job import AdaptiveJob

AdaptiveJob(lambda spark, parallelism: spark.readStream.format("rate").load().writeStream.format("noop")).run()
"""

JOB = "leaves"
MEMORY_MB = 512
STEP_S = 300.0


def client_of(cluster: LocalCluster) -> StandaloneCluster:
    port, ui_port, rest_port = (urlsplit(it).port or 0 for it in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    master = MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port)
    return StandaloneCluster(ClusterAddress(masters=(master,)))


async def deployed(root: Path, client: StandaloneCluster, store: FakeStore) -> Loop:
    """The loop of a job of up to four slots."""
    script, directory = root / "script.py", FsspecJobDirectory(Storage.at(str(root)), JOB)
    script.write_text(SCRIPT)
    code = await stage(directory, script)
    spec = JobSpec(
        graph=JobGraph.single(JOB, ParallelismRange(1, 4)),
        options=Options.of({"resource_stabilization_timeout": "2 s", "deploy_timeout": "3 min"}),
        directory=directory.uri,
        script=code.script,
        py_files=code.py_files,
        driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
        executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
        attempt="attempt-1",
    )
    shared = SharedCluster(SystemClock())
    return Loop(spec, Ports(cluster=client, directory=directory, store=store, clock=SystemClock(), shared=shared))


async def until(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return condition()

    await wait_until_async(holds, STEP_S, what)


def executes(loop: Loop, slots: int) -> bool:
    current = loop.state.current
    return isinstance(current, Executing) and current.plan.slots == slots


def reports(store: FakeStore) -> list[str]:
    decisions = store.views[-1].history.decisions
    return [it.reason for it in decisions if it.reason_code is ReasonCode.EXECUTORS_DECOMMISSIONED]


@pytest.mark.asyncio
async def test_job_leaves_a_decommissioned_worker_without_a_failure(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "spark", properties={"spark.decommission.enabled": "true"}) as cluster:
        workers = [cluster.add_worker(cores=2, memory_mb=2 * MEMORY_MB) for _ in range(2)]
        client, store = client_of(cluster), FakeStore()
        loop = await deployed(tmp_path, client, store)
        end = asyncio.create_task(loop.run())
        await until(lambda: executes(loop, 3), "three slots")
        work = cluster.directory / "work"
        (without_driver,) = [it for it in workers if not list((work / it.name).glob("driver-*"))]
        os.kill(without_driver.pid, signal.SIGPWR)
        await until(lambda: executes(loop, 1) and len(reports(store)) == 2, "one slot, and the end of the decommission")
        assert without_driver.ui_url in reports(store)[0]
        store.requests = ControlRequests(desired_state=DesiredState.SUSPENDED)
        state = await end
        await client.close()
        assert (state.failures, state.epoch) == ((), 1)
