"""What *Test connection* reports about a standalone cluster."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import connection_report
from airflow_adaptive._core.ports import ClusterRefusedError, ClusterUnreachableError

WORKER = {"webuiaddress": "http://w:8081", "cores": 4, "coresfree": 3, "memory": 9, "memoryfree": 9, "state": "ALIVE"}
STATE = {"status": "ALIVE", "workers": [{**WORKER, "id": "w1"}, {**WORKER, "id": "w2"}], "activeapps": []}
STATUS = {"action": "SubmissionStatusResponse", "success": False, "serverSparkVersion": "4.3.0"}


class Master:
    """A leading master. Its responses to submissions are errors with these messages."""

    def __init__(self, small: str = "Main class is missing.", large: str = "Main class is missing.") -> None:
        self.small, self.large = small, large
        self.bodies: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/json/":
            return httpx.Response(200, json=STATE)
        if request.method == "GET":
            return httpx.Response(200, json=STATUS)
        self.bodies.append(json.loads(request.content))
        message = self.large if len(request.content) > 1 << 16 else self.small
        return httpx.Response(400, json={"action": "ErrorResponse", "message": message})


async def result(handler: Any, **options: Any) -> str:
    address = ClusterAddress(masters=(MasterAddress(host="h1"),), **options)
    return await connection_report(address, httpx.MockTransport(handler))


@pytest.mark.asyncio
async def test_report_has_version_workers_slots_and_what_the_master_accepts() -> None:
    assert await result(Master()) == (
        "Spark 4.3.0 at spark://h1:7077, 2 workers, 6 of 8 slots are free. REST submission is enabled. "
        "spark.master.rest.allowedAppResourcePatterns and spark.master.rest.maxRequestBodySize accept submissions of 64 KiB."
    )


@pytest.mark.asyncio
async def test_spark_that_drivers_do_not_support_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATUS, "serverSparkVersion", "3.5.6")
    assert (await result(Master())).startswith(
        "Every job will fail: the driver runs Spark 3.5.6, and airflow-adaptive supports Spark 4.0 and later: upgrade Spark on the master and "
        "the workers, or use a newer image. Spark 3.5.6 at spark://h1:7077, 2 workers"
    )


@pytest.mark.asyncio
async def test_submissions_of_the_test_have_no_main_class_and_can_start_no_driver() -> None:
    master = Master()
    await result(master)
    sent = [(body["action"], body.get("mainClass")) for body in master.bodies]
    assert sent == [("CreateSubmissionRequest", None)] * 2


@pytest.mark.parametrize(
    ("master", "setting"),
    [
        (Master(small="Valid application jar path is required."), "spark.master.rest.allowedAppResourcePatterns"),
        (Master(large="Exceeds spark.master.rest.maxRequestBodySize"), "spark.master.rest.maxRequestBodySize"),
    ],
)
@pytest.mark.asyncio
async def test_setting_that_refuses_submissions_is_named(master: Master, setting: str) -> None:
    with pytest.raises(
        ClusterRefusedError, match=r"^Spark 4\.3\.0 .* 6 of 8 slots are free\. Submissions are"
    ) as raised:
        await result(master)
    assert setting in str(raised.value)


@pytest.mark.asyncio
async def test_rest_server_that_is_off_is_reported_beside_the_slots() -> None:
    def without_rest(request: httpx.Request) -> httpx.Response:
        if request.url.port == 6066:
            raise httpx.ConnectError("refused")
        return Master()(request)

    with pytest.raises(
        ClusterUnreachableError, match=r"6 of 8 slots are free\. REST submission is not enabled: .*6066"
    ):
        await result(without_rest)


@pytest.mark.asyncio
async def test_leader_among_several_masters_is_tested() -> None:
    def masters(request: httpx.Request) -> httpx.Response:
        if request.url.host == "h1":
            return httpx.Response(200, json={**STATE, "status": "STANDBY", "workers": []})
        return Master()(request)

    address = ClusterAddress(masters=(MasterAddress(host="h1"), MasterAddress(host="h2")))
    assert (await connection_report(address, httpx.MockTransport(masters))).startswith("Spark 4.3.0 at spark://h2:7077")


@pytest.mark.asyncio
async def test_cluster_without_a_leader_is_an_error() -> None:
    with pytest.raises(ClusterUnreachableError, match="no master of spark://h1:7077 accepts requests"):
        await result(lambda _: httpx.Response(200, text="<html>"))
