"""The contract of `ClusterClient`, with the real client and a real Spark standalone cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import ClusterClient
from airflow_adaptive.local.cluster import HOST, LocalCluster, free_port
from tests.lab.contracts.cluster_client import MEMORY_MB, Script
from tests.lab.contracts.standalone_cluster import StandaloneClusterContract
from tests.support.servers.reverse_proxy import ReverseProxy

SCRIPTS = {
    Script.RUNS: "import threading\nthreading.Event().wait()\n",
    Script.FINISHES: "",
    Script.FAILS: "raise RuntimeError('no flights today')\n",
    Script.COMPUTES: """
import threading
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
threading.Event().wait()
""",
}


class StandaloneUnderTest:
    """The real thing."""

    memory_mb = MEMORY_MB
    needs_clean_up = False
    unknown_driver = "driver-20130101000000-9999"

    def __init__(
        self, local: LocalCluster, scripts: Path, ui_url: str | None = None, rest_url: str | None = None
    ) -> None:
        self._local = local
        self._scripts = scripts
        urls = (local.master_url, ui_url or local.ui_url, rest_url or local.rest_url)
        self.client = _client(*(urlsplit(url).port for url in urls))

    @property
    def stranded_client(self) -> ClusterClient:
        return _client(free_port(), free_port(), free_port())

    def uri(self, script: Script) -> str:
        file = self._scripts / script
        file.write_text(SCRIPTS[script])
        return str(file)

    def add_worker(self, cores: int, memory_mb: int) -> str:
        return self._local.add_worker(cores, memory_mb).worker_id

    def kill_worker(self, worker_id: str) -> None:
        self._local.kill_worker(next(worker for worker in self._local.workers if worker.worker_id == worker_id))

    def kill_driver(self, submission_id: str) -> None:
        self._local.kill_driver(submission_id)


def _client(port: int | None, ui_port: int | None, rest_port: int | None) -> StandaloneCluster:
    assert port is not None
    assert ui_port is not None
    assert rest_port is not None
    master = MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port)
    return StandaloneCluster(ClusterAddress(masters=(master,)))


@pytest.mark.long
class TestStandaloneCluster(StandaloneClusterContract):
    @pytest_asyncio.fixture
    async def cluster(self, spark_cluster: LocalCluster, tmp_path: Path) -> AsyncIterator[StandaloneUnderTest]:
        under_test = StandaloneUnderTest(spark_cluster, tmp_path)
        yield under_test
        await under_test.client.close()


@pytest.mark.asyncio
async def test_contract_holds_behind_a_reverse_proxy(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    """As in Kubernetes, an Ingress is in front of the master of a `SparkCluster`."""
    with ReverseProxy(spark_cluster.ui_url) as ui, ReverseProxy(spark_cluster.rest_url) as rest:
        under_test = StandaloneUnderTest(spark_cluster, tmp_path, ui.url, rest.url)
        await TestStandaloneCluster().test_driver_takes_cores_and_memory_until_it_is_killed(under_test)
        await under_test.client.close()
    assert set(ui.requests) == {"GET /json/"}
    assert "POST /v1/submissions/create" in rest.requests
