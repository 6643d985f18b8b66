"""What real drivers leave behind that end before they can report."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import DriverSubmission, SubmissionState
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._engine.observation.driver_log_diagnosis import explain
from airflow_adaptive.local.cluster import HOST, LocalCluster
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.long

TIMEOUT_S = 240.0
MEMORY_MB = 512

CASES = {
    "does_not_import": ({}, "ModuleNotFoundError: No module named 'airports' (does_not_import.py:1): install the"),
    "no_python": ({"PYSPARK_PYTHON": "/no/python3"}, "Python is missing on worker 127.0.0.1:"),
    "no_java": ({"JAVA_HOME": "/no/java"}, "Java is missing on worker 127.0.0.1:"),
}
"""Script -> environment of its driver, and what the failure must tell."""


@pytest.mark.asyncio
async def test_driver_that_ends_before_it_reports_leaves_the_cause(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    spark_cluster.add_worker(cores=len(CASES), memory_mb=len(CASES) * MEMORY_MB)
    client = _client(spark_cluster)
    drivers = {}
    for name, (env, _) in CASES.items():
        script = tmp_path / f"{name}.py"
        script.write_text("import airports\n")
        submission = DriverSubmission(
            name=name, epoch=1, nonce="n", script=str(script), env=env, driver_memory_mb=MEMORY_MB
        )
        drivers[name] = await client.submit(submission)
    for name, (_, expected) in CASES.items():
        assert expected in await _diagnosis(client, drivers[name])
    await client.close()


async def _diagnosis(client: StandaloneCluster, driver: str) -> str:
    async def is_over() -> bool:
        return (await client.status(driver)).state.over

    await wait_until_async(is_over, TIMEOUT_S, f"end of {driver}")
    status = await client.status(driver)
    assert status.state is SubmissionState.FAILED
    failure = Failure(error_class=FailureCode.DRIVER_LOST, message=status.message)
    return explain(failure, await client.driver_log(driver), status.worker_address, reported=False).summary


def _client(cluster: LocalCluster) -> StandaloneCluster:
    port, ui_port, rest_port = (urlsplit(url).port for url in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    assert port is not None
    assert ui_port is not None
    assert rest_port is not None
    address = MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port)
    return StandaloneCluster(ClusterAddress(masters=(address,)))
