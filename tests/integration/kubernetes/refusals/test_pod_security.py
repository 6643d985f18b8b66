"""Jobs in a namespace that enforces the level `restricted` of the Pod Security Standards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._core.scheduler.history.failures import root_cause
from tests.integration.kubernetes.test_job_directories import CLAIM, lose_a_driver, shared_volume
from tests.support.kubernetes.accounts.manifests import FOLDER
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.refusals import TIMEOUT_S
from tests.support.kubernetes.client.streaming_job import StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(600)]

TEMPLATE: Final = str(FOLDER / "restricted-pod.yaml")


@pytest.fixture
def team(kubernetes_cluster: KubernetesCluster, tmp_path: Path) -> Iterator[Namespace]:
    """A restricted namespace with the account of drivers and a volume."""
    control_plane = kubernetes_cluster.control_plane
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        api.patch(f"/api/v1/namespaces/{created.name}", {"metadata": {"labels": labels}})
        created.create_service_account("spark")
        with shared_volume(created, tmp_path / "job"):
            yield created


async def test_a_job_with_the_documented_template_runs(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
) -> None:
    parameters = KubernetesParameters(driver_pod_template=TEMPLATE, executor_pod_template=TEMPLATE)
    conf = pod_properties(tmp_path / "job", kubernetes_cluster.control_plane.url, CLAIM)
    async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
        await lose_a_driver(StreamingJob(tmp_path / "job", conf, client, parameters=parameters), team)


async def test_executors_that_the_admission_refuses_fail_the_task_with_the_cause(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
) -> None:
    parameters = KubernetesParameters(driver_pod_template=TEMPLATE)
    conf = pod_properties(tmp_path / "job", kubernetes_cluster.control_plane.url, CLAIM)
    async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
        job = StreamingJob(tmp_path / "job", conf, client, parameters=parameters)
        message = str(root_cause(await asyncio.wait_for(job.run_to_end(), TIMEOUT_S)))
    assert 'violates PodSecurity "restricted:' in message
    assert "use docs/kubernetes/restricted-pod.yaml as `executor_pod_template`" in message
