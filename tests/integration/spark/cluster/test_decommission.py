"""A real worker is decommissioned: the job gives its slots up without a failure, and the timeline names the worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until_async
from tests.integration.spark.cluster.test_two_jobs import MEMORY_MB, Job, address, job

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

STEP_S = 300.0


async def until(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return condition()

    await wait_until_async(holds, STEP_S, what)


def executes(own: Job, slots: int) -> bool:
    return own.slots == slots and isinstance(own.loop.state.current, Executing)


def reports(own: Job) -> list[str]:
    decisions = own.store.views[-1].history.decisions
    return [it.reason for it in decisions if it.reason_code is ReasonCode.EXECUTORS_DECOMMISSIONED]


@pytest.mark.asyncio
async def test_job_leaves_a_decommissioned_worker_without_a_failure(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "spark", properties={"spark.decommission.enabled": "true"}) as cluster:
        workers = [cluster.add_worker(cores=2, memory_mb=2 * MEMORY_MB) for _ in range(2)]
        client = StandaloneCluster(address(cluster))
        own = await job("leaves", 1, tmp_path, client, SharedCluster(SystemClock()))
        end = asyncio.create_task(own.loop.run())
        await until(lambda: executes(own, 3), "three slots")
        work = cluster.directory / "work"
        (without_driver,) = [it for it in workers if not list((work / it.name).glob("driver-*"))]
        os.kill(without_driver.pid, signal.SIGPWR)
        await until(lambda: executes(own, 1) and len(reports(own)) == 2, "one slot, and the end of the decommission")
        assert without_driver.ui_url in reports(own)[0]
        own.store.requests = ControlRequests(desired_state=DesiredState.SUSPENDED)
        state = await end
        await client.close()
        assert (state.failures, state.epoch) == ((), 1)
