"""The contract of `ClusterClient`, with the real client and real nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from airflow_adaptive.spark.kubernetes.capacity import cluster_reader
from airflow_adaptive.testing.contracts.cluster_client import ClusterClientContract
from tests.support.kubernetes.client.cluster_under_test import ClusterUnderTest
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import created_namespace


@pytest.mark.timeout(240)
class TestKubernetesCluster(ClusterClientContract):
    @pytest_asyncio.fixture
    async def cluster(
        self, kubernetes_cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[ClusterUnderTest]:
        monkeypatch.setattr(cluster_reader, "INTERVAL_S", 0.5)
        control_plane = kubernetes_cluster.control_plane
        with control_plane.api(control_plane.admin) as api, created_namespace(api) as team:
            team.create_service_account("spark")
            under_test = ClusterUnderTest(kubernetes_cluster, team, tmp_path / "scripts")
            try:
                yield under_test
            finally:
                under_test.repair()
                await under_test.client.close()
