"""Executors that tier 0 adds under a running query, on real nodes: they stay while the query is idle, and a quota only delays them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_adaptive._clusters.kubernetes.driver.properties import PENDING_TIMEOUT
from airflow_adaptive._core.ports import SubmissionState
from airflow_adaptive._core.protocol.documents import Action, DriverPlan
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import TIMEOUT_S, DriverJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace

EXECUTORS = "spark-role=executor"

IDLE_S = 10 * float(PENDING_TIMEOUT.removesuffix("s"))

MOST_FAILURES = 3
"""Failures of executors after which Spark's default ends a driver of this size."""

IDLE = """
from airflow_adaptive.job import AdaptiveJob

def idle(spark, parallelism):
    rows = spark.readStream.schema("id long").json("{folder}")
    return rows.writeStream.format("console").trigger(processingTime="1 second")

AdaptiveJob(idle).run()
"""


@pytest.fixture
def team(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        created.create_service_account("spark")
        yield created


@pytest.fixture
def job(kubernetes_cluster: KubernetesCluster, tmp_path: Path) -> DriverJob:
    return DriverJob("idle", tmp_path / "jobs", kubernetes_cluster.control_plane.url)


def script(job: DriverJob) -> str:
    folder = job.root / "in"
    folder.mkdir()
    folder.chmod(0o777)
    return IDLE.format(folder=folder)


def plan(executors: int) -> DriverPlan:
    return DriverPlan(
        parallelism={"idle": executors}, executors=executors, state_partitions={"idle": 4}, query_version=1
    )


def executors(team: Namespace) -> set[str]:
    """Return the names of all executor pods that are not being deleted."""
    pods = [pod["metadata"] for pod in team.pods(EXECUTORS)]
    return {metadata["name"] for metadata in pods if "deletionTimestamp" not in metadata}


def lasting(team: Namespace, seconds: float) -> set[str]:
    """Observe the executors for this time, and return those that existed at each moment."""
    found, end = executors(team), time.monotonic() + seconds
    while time.monotonic() < end:
        found &= executors(team)
        time.sleep(1)
    return found


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_executors_stay_while_the_query_is_idle(
    kubernetes_cluster: KubernetesCluster, team: Namespace, job: DriverJob
):
    async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
        job.direct(Action.RUN, 1, plan(1))
        await client.submit(await job.submission(script(job), executors=1))
        await job.wait_status("the first plan", lambda now: now.version == 1)
        job.direct(Action.RUN, 2, plan(3))
        await job.wait_status("three executors", lambda now: now.version == 2)
        before = await asyncio.to_thread(executors, team)
        assert len(before) == 3
        assert await asyncio.to_thread(lasting, team, IDLE_S) == before


@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_refused_executors_do_not_end_the_driver(
    kubernetes_cluster: KubernetesCluster, team: Namespace, job: DriverJob
):
    await asyncio.to_thread(team.set_quota, {"pods": 2})
    async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
        job.direct(Action.RUN, 1, plan(1))
        submission_id = await client.submit(await job.submission(script(job), executors=1))
        await job.wait_status("the first plan", lambda now: now.version == 1)
        job.direct(Action.RUN, 2, plan(3))
        pod = submission_id.partition("@")[0]
        what, refusals = "refused executor pods", 3 * MOST_FAILURES
        await asyncio.to_thread(
            wait_until, lambda: team.log(pod).count("exceeded quota: quota") >= refusals, TIMEOUT_S, what
        )
        assert (await client.status(submission_id)).state is SubmissionState.RUNNING
        await asyncio.to_thread(team.set_quota, {"pods": 4})
        await job.wait_status("three executors", lambda now: now.version == 2)
        assert len(await asyncio.to_thread(executors, team)) == 3
