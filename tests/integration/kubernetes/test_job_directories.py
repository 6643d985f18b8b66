"""The job directory on a ReadWriteMany volume, and on S3: a job runs, loses its driver, and processes each record once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import TIMEOUT_S, StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.s3.gateway import S3Gateway
from tests.support.s3.image import SPARK_S3, s3_image
from tests.support.waiting import wait_until_async

ACCOUNT = ["Role spark", "RoleBinding spark", "ServiceAccount spark"]

CLAIM = "jobs"

BUCKET = "jobs"


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_jobs_on_a_shared_volume_and_on_s3_survive_the_loss_of_a_driver(
    kubernetes_cluster: KubernetesCluster, tmp_path: Path
):
    async with asyncio.TaskGroup() as both:  # Both jobs wait most of the time.
        both.create_task(run_on_volume(kubernetes_cluster, tmp_path / "volume"))
        both.create_task(run_on_s3(kubernetes_cluster, tmp_path / "s3"))


async def run_on_volume(cluster: KubernetesCluster, root: Path) -> None:
    """Run a job whose pods mount a claim."""
    conf = pod_properties(root, cluster.control_plane.url, CLAIM)
    with team_of(cluster) as team, shared_volume(team, root):
        async with cluster_client(cluster.control_plane, team.name) as client:
            await lose_a_driver(StreamingJob(root, conf, client), team)
        await asyncio.to_thread(wait_for_objects, team, [f"PersistentVolumeClaim {CLAIM}", *ACCOUNT])


async def run_on_s3(cluster: KubernetesCluster, root: Path) -> None:
    """Run a job whose driver has credentials of its own, in the connection of the cluster."""
    root.mkdir()
    cluster.add_image(s3_image())
    gateway = S3Gateway(cluster.folder, root, cluster.network.gateway)
    gateway.start()
    files, driver = gateway.filesystem(gateway.admin), gateway.create_user("driver")
    files.call_s3("create_bucket", Bucket=BUCKET)
    conf = {**pod_properties(root, cluster.control_plane.url), "spark.kubernetes.container.image": SPARK_S3}
    secrets = gateway.spark_properties(driver)
    with team_of(cluster) as team:
        async with cluster_client(cluster.control_plane, team.name, conf=secrets) as client:
            await lose_a_driver(StreamingJob(root, conf, client, storage=Storage(files, BUCKET)), team)
        await asyncio.to_thread(wait_for_objects, team, ACCOUNT)
    gateway.kill()


@contextmanager
def team_of(cluster: KubernetesCluster) -> Iterator[Namespace]:
    """A namespace with the account of drivers."""
    control_plane = cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        created.create_service_account("spark")
        yield created


async def lose_a_driver(job: StreamingJob, team: Namespace) -> None:
    """Run the job, delete the pod of its driver, let the next driver process more, and check the output."""
    async with job.running() as loop:
        job.feed()
        await job.wait_for_state(loop, "Executing")
        await job.wait_rows()
        first = driver_pod(loop)
        await asyncio.to_thread(team.api.delete, team.path("pods", first))
        await wait_until_async(lambda: has_other_driver(loop, first), TIMEOUT_S, "the next driver")
        job.feed()
        await job.wait_rows()
        await job.suspend(loop)
    job.outcome(recovery_s=0).check()


def driver_pod(loop: Loop) -> str:
    driver = loop.state.driver
    return ((driver and driver.submission_id) or "").partition("@")[0]


async def has_other_driver(loop: Loop, pod: str) -> bool:
    return driver_pod(loop) not in {"", pod}


@contextmanager
def shared_volume(team: Namespace, folder: Path) -> Iterator[None]:
    """Create a claim for a volume that all nodes mount: a folder of this machine."""
    name = f"{team.name}-{CLAIM}"
    access = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        **access,
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": team.name, "name": CLAIM},
        "hostPath": {"path": str(folder)},
    }
    metadata = {"name": name}
    volumes = "/api/v1/persistentvolumes"
    team.api.create(volumes, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume})
    request = {**access, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    team.create("PersistentVolumeClaim", CLAIM, {"spec": request})
    try:
        yield
    finally:
        team.api.delete(f"{volumes}/{name}")


def wait_for_objects(team: Namespace, expected: list[str]) -> None:
    wait_until(lambda: team.remaining_objects() == expected, TIMEOUT_S, f"only {expected}")
