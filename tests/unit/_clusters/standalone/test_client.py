"""The client of a standalone cluster, with servers that are down, foreign, protected or standing by."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import (
    ClusterUnreachableError,
    DriverSubmission,
    SubmissionRefusedError,
    SubmissionState,
)
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE
from airflow_adaptive.local.cluster import HOST, free_port

SUBMISSION = DriverSubmission(name="departures", epoch=1, nonce="n", script="/jobs/departures.py")

Handler = Callable[[httpx.Request], httpx.Response]


class Masters:
    """Masters h1 and h2 with given responses, and the requests that they received."""

    def __init__(self, **answers: Handler | httpx.Response | Exception) -> None:
        self.answers = answers
        self.requests: list[str] = []
        self.headers: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url}")
        self.headers.append(request.headers.get("authorization"))
        answer = self.answers[request.url.host]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)


@asynccontextmanager
async def client(masters: Masters, **options: Any) -> AsyncIterator[StandaloneCluster]:
    address = ClusterAddress(masters=tuple(MasterAddress(host=host) for host in masters.answers), **options)
    cluster = StandaloneCluster(address, transport=httpx.MockTransport(masters))
    yield cluster
    await cluster.close()


def master(status: str = "ALIVE") -> Handler:
    """A master of that status, with one worker and one driver."""
    leads = status == "ALIVE"
    worker = {"id": "w", "webuiaddress": "http://w:8081", "cores": 1, "coresfree": 1, "memory": 9, "memoryfree": 9}
    answers: dict[str, dict[str, Any]] = {
        "/json/": {"status": status, "workers": [{**worker, "state": "ALIVE"}], "activeapps": []},
        "/v1/submissions/create": {"action": "CreateSubmissionResponse", "submissionId": "driver-1"},
        "/v1/submissions/status/driver-1": {"action": "SubmissionStatusResponse", "driverState": "RUNNING"},
        "/v1/submissions/kill/driver-1": {"action": "KillSubmissionResponse"},
    }
    standby = {} if leads else {"message": f"Current state is not alive: {status}."}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"success": leads, **answers[request.url.path], **standby})

    return answer


async def every_error(cluster: StandaloneCluster) -> list[str]:
    """The message of each call that fails."""
    errors = []
    for call in (cluster.snapshot(), cluster.submit(SUBMISSION), cluster.status("driver-1"), cluster.kill("driver-1")):
        with pytest.raises((ClusterUnreachableError, SubmissionRefusedError)) as caught:
            await call
        errors.append(str(caught.value))
    return errors


@pytest.mark.asyncio
async def test_calls_go_to_the_leader_wherever_it_is() -> None:
    masters = Masters(h1=master("STANDBY"), h2=master())
    async with client(masters) as cluster:
        snapshot = await cluster.snapshot()
        assert (snapshot.master_url, snapshot.ui_url) == ("spark://h2:7077", "http://h2:8080")
        assert await cluster.submit(SUBMISSION) == "driver-1"
        assert (await cluster.status("driver-1")).state is SubmissionState.RUNNING
        await cluster.kill("driver-1")
    assert [request for request in masters.requests if "h1" in request] == ["GET http://h1:8080/json/"]


@pytest.mark.asyncio
@pytest.mark.parametrize("gone", [httpx.ConnectError("refused"), httpx.Response(200, text="<html>"), master("STANDBY")])
async def test_next_master_is_queried_when_the_leader_is_gone(gone: Any) -> None:
    masters = Masters(h1=master(), h2=master("STANDBY"))
    async with client(masters) as cluster:
        await cluster.snapshot()
        masters.answers = {"h1": gone, "h2": master()}
        assert (await cluster.snapshot()).master_url == "spark://h2:7077"
        assert (await cluster.status("driver-1")).state is SubmissionState.RUNNING


async def submitted(submission: DriverSubmission = SUBMISSION, hosts: tuple[str, ...] = ("h1",), **options: Any) -> Any:
    """Return the body of the request for a driver."""
    bodies: list[Any] = []

    def create(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return master()(request)

    async with client(Masters(**dict.fromkeys(hosts, create)), **options) as cluster:
        await cluster.submit(submission)
    (body,) = bodies
    return body


@pytest.mark.asyncio
async def test_application_is_given_all_masters() -> None:
    body = await submitted(hosts=("h1", "h2"))
    assert body["appArgs"][:2] == ["--master", "spark://h1:7077,h2:7077"]


@pytest.mark.asyncio
async def test_driver_has_the_secret_variables_of_the_connection_unless_the_job_sets_them() -> None:
    body = await submitted(replace(SUBMISSION, env={"REGION": "eu"}), secret_env={"DB_LOGIN": "hush", "REGION": "us"})
    environment = body["environmentVariables"]
    assert (environment["DB_LOGIN"], environment["REGION"]) == ("hush", "eu")
    assert environment[SECRET_ENV_VARIABLE] == '["DB_LOGIN"]'


@pytest.mark.asyncio
async def test_secret_properties_of_the_connection_are_in_the_environment_only() -> None:
    body = await submitted(conf={"spark.region": "hush"}, secret_names=frozenset({"spark.region"}))
    assert json.loads(body.pop("environmentVariables")[SECRET_CONF_VARIABLE]) == {"spark.region": "hush"}
    assert "hush" not in json.dumps(body)


@pytest.mark.asyncio
async def test_submission_is_forgotten_when_its_job_has_ended() -> None:
    masters = Masters(h1=master())
    async with client(masters) as cluster:
        for job in ("arrivals", SUBMISSION.name):
            await cluster.submit(SUBMISSION)
            await cluster.clean_up(job)
        assert len(masters.requests) == 1
        await cluster.submit(SUBMISSION)
    assert len(masters.requests) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("status", ["STANDBY", "RECOVERING", "COMPLETING_RECOVERY"])
async def test_cluster_without_leader_is_unreachable(status: str) -> None:
    async with client(Masters(h1=master(status), h2=master(status))) as cluster:
        for error in await every_error(cluster):
            assert "no master of spark://h1:7077,h2:7077 accepts requests" in error
            assert status in error


@pytest.mark.asyncio
@pytest.mark.parametrize("failure", [httpx.ReadTimeout("too slow"), httpx.Response(500, json={"message": "oops"})])
async def test_submission_of_unknown_outcome_is_not_sent_to_another_master(failure: Any) -> None:
    masters = Masters(h1=failure, h2=master())
    async with client(masters) as cluster:
        with pytest.raises(ClusterUnreachableError, match=r"no answer|the server failed \(500\)"):
            await cluster.submit(SUBMISSION)
    assert masters.requests == ["POST http://h1:6066/v1/submissions/create"]


@pytest.mark.asyncio
async def test_refusal_is_not_sent_to_another_master() -> None:
    refusal = {"action": "ErrorResponse", "message": "Malformed request: spark.cores.max\n\tat org.Some"}
    masters = Masters(h1=httpx.Response(400, json=refusal), h2=master())
    async with client(masters) as cluster:
        with pytest.raises(SubmissionRefusedError, match=r"Malformed request: spark\.cores\.max$"):
            await cluster.submit(SUBMISSION)
    assert len(masters.requests) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("code", [401, 403])
async def test_denied_access_names_the_url_and_the_fix(code: int) -> None:
    async with client(
        Masters(h1=httpx.Response(code, text="JWT Validate Fail")), token="hush", conn_id="spark_test"
    ) as cluster:
        for error in await every_error(cluster):
            assert "http://h1:" in error
            assert "as the password of connection 'spark_test'" in error
            assert "hush" not in error


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>some other server</html>"),
        httpx.Response(502, text=""),
        httpx.Response(200, text='{"workers": ['),
        httpx.Response(200, json=["not", "a", "master"]),
        httpx.Response(200, json={"status": "ok"}),
        httpx.Response(302, headers={"location": "https://h1:8480/"}),
    ],
)
async def test_foreign_server_names_the_url_and_the_extra(answer: httpx.Response) -> None:
    async with client(Masters(h1=answer)) as cluster:
        ui_error, *rest_errors = await every_error(cluster)
    assert "http://h1:8080/json/" in ui_error
    assert "ui-port" in ui_error
    for error in rest_errors:
        assert "http://h1:6066/v1/submissions/" in error
        assert "rest-port" in error


@pytest.mark.asyncio
async def test_other_protocol_is_reported_in_the_servers_words() -> None:
    answer = {"action": "ErrorResponse", "message": "Unknown protocol version 'v1'", "highestProtocolVersion": "v9"}
    async with client(Masters(h1=httpx.Response(468, json=answer))) as cluster:
        with pytest.raises(SubmissionRefusedError, match="Unknown protocol version 'v1'"):
            await cluster.submit(SUBMISSION)


@pytest.mark.asyncio
async def test_submission_id_can_not_leave_its_place_in_the_path() -> None:
    masters = Masters(h1=httpx.Response(200, json={"action": "SubmissionStatusResponse", "success": False}))
    async with client(masters) as cluster:
        await cluster.status("../create?x=/")
    assert masters.requests == ["GET http://h1:6066/v1/submissions/status/..%2Fcreate%3Fx%3D%2F"]


@pytest.mark.asyncio
async def test_closed_port_is_a_refused_connection() -> None:
    port = free_port()
    down = MasterAddress(host=HOST, port=port, ui_port=port, rest_port=port)
    cluster = StandaloneCluster(ClusterAddress(masters=(down,)))
    ui_error, *rest_errors = await every_error(cluster)
    assert f"http://{HOST}:{port}/json/: connection refused" in ui_error
    for error in rest_errors:
        assert "connection refused" in error
        assert "spark.master.rest.enabled=true" in error
    await cluster.close()


@pytest.mark.asyncio
async def test_host_with_several_addresses_refuses_on_each() -> None:
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = ExceptionGroup("multiple connection attempts failed", [ConnectionRefusedError(), OSError()])
    async with client(Masters(h1=error)) as cluster:
        with pytest.raises(ClusterUnreachableError, match="connection refused"):
            await cluster.snapshot()


@pytest.mark.asyncio
async def test_unknown_host_is_named() -> None:
    cluster = StandaloneCluster(ClusterAddress(masters=(MasterAddress(host="no-such-host.invalid"),)))
    with pytest.raises(ClusterUnreachableError, match=r"no-such-host\.invalid.*unknown host"):
        await cluster.snapshot()
    await cluster.close()
