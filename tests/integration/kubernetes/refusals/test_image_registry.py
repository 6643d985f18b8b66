"""Images of a real registry that requires credentials: the cause of a failed pull is the error of the task."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._airflow.declaration.kubernetes import IMAGE, KubernetesParameters
from tests.support.image_registry import PASSWORD, USER, ImageRegistry
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.refusals import failure_of
from tests.support.kubernetes.client.streaming_job import TIMEOUT_S, StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.asyncio

PULL_EACH_TIME = {"spark.kubernetes.container.image.pullPolicy": "Always"}
"""The kubelet contacts the registry for each pod, also if its node has the image."""

SECRET = "registry"
OUTDATED = "outdated"


@pytest.fixture(scope="module")
def registry(kubernetes_cluster: KubernetesCluster, team: Namespace) -> ImageRegistry:
    """A registry with an image of Spark, and Secrets with a valid and an invalid password. It ends with the cluster."""
    created = ImageRegistry(kubernetes_cluster.folder)
    created.start()
    kubernetes_cluster.nodes[0].push_image(SPARK, f"{created.address}/team/spark:1", f"{USER}:{PASSWORD}")
    team.create("Secret", SECRET, created.pull_secret())
    team.create("Secret", OUTDATED, created.pull_secret("old-password"))
    return created


@pytest.mark.parametrize(
    ("image", "secrets", "cause"),
    [
        ("team/absent:1", [SECRET], "not found"),
        ("team/spark:2", [SECRET], "not found"),
        ("team/spark:1", [], "401 Unauthorized"),
        ("team/spark:1", [OUTDATED], "401 Unauthorized"),
    ],
    ids=["repository", "tag", "no credentials", "wrong credentials"],
)
async def test_an_image_that_the_registry_does_not_give_fails_the_task_with_the_cause(
    kubernetes_cluster: KubernetesCluster,
    team: Namespace,
    registry: ImageRegistry,
    tmp_path: Path,
    image: str,
    secrets: list[str],
    cause: str,
) -> None:
    name = f"{registry.address}/{image}"
    parameters = KubernetesParameters(image_pull_secrets=secrets)
    conf = {**PULL_EACH_TIME, IMAGE: name}
    message = await failure_of(kubernetes_cluster.control_plane, team.name, tmp_path / "job", conf, parameters)
    assert f"the image {name!r} cannot be pulled: " in message
    assert cause in message
    assert message.endswith("correct `image`, or name the credentials of the registry in `image_pull_secrets`")


async def test_a_job_waits_for_its_registry_and_pulls_with_the_credentials_of_a_secret(
    kubernetes_cluster: KubernetesCluster, team: Namespace, registry: ImageRegistry, tmp_path: Path
) -> None:
    control_plane, root = kubernetes_cluster.control_plane, tmp_path / "job"
    conf = {**pod_properties(root, control_plane.url), **PULL_EACH_TIME, IMAGE: f"{registry.address}/team/spark:1"}
    async with cluster_client(control_plane, team.name) as client:
        job = StreamingJob(root, conf, client, parameters=KubernetesParameters(image_pull_secrets=[SECRET]))
        registry.process.kill()
        async with job.running() as loop:

            async def reports_cause() -> bool:
                return any("connection refused" in str(view.history.decisions) for view in job.store.views)

            await wait_until_async(reports_cause, TIMEOUT_S, "the cause in the timeline")
            registry.start()
            job.feed()
            await job.wait_for_state(loop, "Executing", parallelism=2)
            await job.wait_rows()
            await job.suspend(loop)
    job.outcome(recovery_s=0)
