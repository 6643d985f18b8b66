"""The contract of `ClusterClient`, with the real client and real nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from airflow_adaptive._clusters.kubernetes.capacity import reader
from airflow_adaptive._core.ports import SubmissionState
from tests.lab.contracts.cluster_client import (
    ClusterClientContract,
    Script,
    submission_of,
    wait_for,
)
from tests.support.kubernetes.client.cluster_under_test import ClusterUnderTest
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import created_namespace

ABSENT = "s3a://no-such-bucket/code/0a"

SCRIPT = """
from pyspark import SparkFiles
from pyspark.sql import SparkSession

def twice(number):
    from doubling import double
    return double(number)

def first_line(name):
    with open(SparkFiles.get(name)) as file:
        return file.readline()

session = SparkSession.builder.getOrCreate()
print("the executors return", session.sparkContext.parallelize([21]).map(twice).collect(), flush=True)
print("the executors read", session.sparkContext.parallelize(["routes.csv"]).map(first_line).collect(), flush=True)
session.stop()
"""

CODE = {f"{ABSENT}/run.py": SCRIPT.encode(), f"{ABSENT}/doubling.py": b"def double(number):\n    return 2 * number\n"}


class TestKubernetesCluster(ClusterClientContract):
    @pytest_asyncio.fixture
    async def cluster(
        self, kubernetes_cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[ClusterUnderTest]:
        monkeypatch.setattr(reader, "INTERVAL_S", 0.5)
        control_plane = kubernetes_cluster.control_plane
        with control_plane.api(control_plane.admin) as api, created_namespace(api) as team:
            team.create_service_account("spark")
            under_test = ClusterUnderTest(kubernetes_cluster, team, tmp_path / "scripts")
            try:
                yield under_test
            finally:
                under_test.repair()
                await under_test.client.close()

    @pytest.mark.asyncio
    async def test_driver_and_executors_run_the_code_of_the_config_map(
        self, cluster: ClusterUnderTest, tmp_path: Path
    ) -> None:
        """Nothing is at the URIs of the code. Another file of the job is in a folder that the pods mount."""

        async def read_code(_most_bytes: int) -> Mapping[str, bytes]:
            return CODE

        cluster.add_worker(cores=2, memory_mb=2 * cluster.memory_mb)
        script, module = CODE
        of_contract = submission_of(cluster, Script.FINISHES)
        routes = tmp_path / "scripts" / "routes.csv"
        routes.write_text("LHR-JFK")
        conf = {**of_contract.conf, "spark.files": routes.as_uri()}
        submission = replace(of_contract, script=script, py_files=[module], read_code=read_code, conf=conf)
        submission_id = await cluster.client.submit(submission)
        await wait_for(cluster, submission_id, SubmissionState.FINISHED)
        output = (await cluster.client.driver_log(submission_id)).stdout
        assert "the executors return [42]" in output
        assert "the executors read ['LHR-JFK']" in output
