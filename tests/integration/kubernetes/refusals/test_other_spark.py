"""An image of the executors with another version of Spark than the image of the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.scheduler.history.failures import root_cause
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import OTHER_SPARKS, SPARK, spark_image
from tests.support.kubernetes.namespace import Namespace

pytestmark = [pytest.mark.asyncio, pytest.mark.long, pytest.mark.timeout(600)]

OTHER = "airflow-adaptive.test/other-spark:1"


async def test_executors_with_another_version_of_spark_fail_the_task_with_both_images(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
) -> None:
    """Spark's executor waits two minutes for an answer that it cannot read, and its driver does not know it."""
    kubernetes_cluster.add_image(spark_image(OTHER, OTHER_SPARKS / "4.0.5" / "pyspark"))
    control_plane, root = kubernetes_cluster.control_plane, tmp_path / "job"
    conf = {**pod_properties(root, control_plane.url), "spark.kubernetes.executor.container.image": OTHER}
    async with cluster_client(control_plane, team.name) as client:
        cause = str(root_cause(await StreamingJob(root, conf, client).run_to_end()))
    assert f"(image {OTHER}; the driver has {SPARK}): java.io.InvalidClassException: org.apache.spark." in cause
    assert "the driver and an executor have different versions: use one image for both" in cause
