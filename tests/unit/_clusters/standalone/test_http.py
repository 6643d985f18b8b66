"""Requests to servers that do not end their responses, requests of many loops at once, and the servers that receive the token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from airflow_adaptive._clusters.standalone import http
from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress, parse_address
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._clusters.standalone.http import (
    MAX_CONNECTIONS,
    Credentials,
    Http,
    NoAnswerError,
    NotConnectedError,
)
from airflow_adaptive._core.ports import ClusterUnreachableError, DriverSubmission, NotSubmittedError, SubmissionState
from tests.support.servers.fake_master import FakeMaster
from tests.support.servers.tls_server import TlsServer


@pytest.mark.asyncio
@pytest.mark.parametrize("pause_s", [0.0, 0.001])
async def test_response_that_does_not_end_is_no_answer(pause_s: float) -> None:
    """Each read of the response is quick, so that no single read times out. One poll that hangs would stop all loops of a process."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(pause_s)
            yield b" "

    address = ClusterAddress(masters=(MasterAddress(host="h1"),), timeout_s=0.05)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    client = Http(address, Credentials(address), transport)
    with pytest.raises(NoAnswerError, match=r"http://h1:8080/json/: no complete answer within 0\.15 s: is it up\?"):
        await client.request("GET", "http://h1:8080/json/", lambda decoded: decoded, "is it up?")
    await client.close()


def of_jobs(count: int) -> list[DriverSubmission]:
    return [DriverSubmission(name=f"job-{number}", epoch=1, nonce="n", script="job.py") for number in range(count)]


@pytest.mark.asyncio
async def test_requests_of_many_loops_do_not_exceed_the_connections_that_a_server_accepts() -> None:
    """All jobs of a process submit their drivers at once."""
    with FakeMaster() as master:
        master.delay_s = 0.5
        client = StandaloneCluster(master.address)
        submissions = await asyncio.gather(*(client.submit(submission) for submission in of_jobs(60)))
        await client.close()
    assert len(set(submissions)) == 60
    assert master.most_at_once <= MAX_CONNECTIONS


@pytest.mark.asyncio
@pytest.mark.long
async def test_submission_waits_for_a_connection_longer_than_for_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master answers slowly, and so many jobs submit their drivers over one connection that the last one waits for three timeouts."""
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    with FakeMaster() as master:
        master.delay_s = 0.5
        client = StandaloneCluster(replace(master.address, timeout_s=3))
        assert len(await asyncio.gather(*(client.submit(submission) for submission in of_jobs(20)))) == 20
        await client.close()


@pytest.mark.asyncio
async def test_submission_that_gets_no_connection_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may send it again, or to another master."""
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(http, "POST_QUEUE_TIMEOUT_S", 0.1)
    with FakeMaster() as master:
        master.delay_s = 2
        client = StandaloneCluster(replace(master.address, timeout_s=60))
        results = await asyncio.gather(*map(client.submit, of_jobs(2)), return_exceptions=True)
        await client.close()
    assert sorted(map(type, results), key=str) == [NotSubmittedError, str]


async def answer_over_tls(server: TlsServer, address: ClusterAddress) -> Any:
    client = Http(address, Credentials(address))
    try:
        return await client.request("GET", f"https://127.0.0.1:{server.port}/", lambda decoded: decoded, "is it up?")
    finally:
        await client.close()


def connection(**extra: Any) -> ClusterAddress:
    return parse_address("spark://127.0.0.1", None, None, extra)


@pytest.mark.asyncio
async def test_certificate_of_an_unknown_issuer_is_refused_by_default(tmp_path: Path) -> None:
    unconfigured = ClusterAddress(masters=(MasterAddress(host="127.0.0.1"),))
    with TlsServer(tmp_path) as server:
        for address in (unconfigured, connection(), connection(verify=True)):
            with pytest.raises(NotConnectedError, match="certificate"):
                await answer_over_tls(server, address)


@pytest.mark.asyncio
async def test_certificate_is_accepted_if_its_issuer_is_configured_or_the_check_is_off(tmp_path: Path) -> None:
    with TlsServer(tmp_path) as server:
        assert await answer_over_tls(server, connection(verify=str(server.certificate))) == {}
        assert await answer_over_tls(server, connection(verify=False)) == {}


@pytest.mark.asyncio
async def test_certificate_of_another_issuer_than_the_configured_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with TlsServer(tmp_path) as server, TlsServer(tmp_path / "other") as other:
        address = connection(verify=str(other.certificate))
        with pytest.raises(NotConnectedError, match="certificate"):
            await answer_over_tls(server, address)


LOG = "/log/?driverId=driver-1&logType=stdout"


def address(token: str | None = "hush", **extra: Any) -> ClusterAddress:
    return parse_address("spark://h1", None, token, {name.replace("_", "-"): value for name, value in extra.items()})


@pytest.mark.parametrize(
    ("extra", "url", "is_covered"),
    [
        ({}, "http://h1:8080/json/", True),
        ({}, "http://h1:6066/v1/submissions/create", True),
        ({}, f"http://worker-1:8081{LOG}", False),
        ({}, f"http://h1:9999{LOG}", False),
        ({}, f"https://h1:8080{LOG}", False),
        ({}, f"http://h1:8080@evil{LOG}", False),
        ({"token_hosts": "worker-1,*.spark.example.com"}, f"http://worker-1:8081{LOG}", True),
        ({"token_hosts": "worker-1,*.spark.example.com"}, f"http://w9.spark.example.com:8081{LOG}", True),
        ({"token_hosts": "worker-1,*.spark.example.com"}, f"http://spark.example.com.evil:8081{LOG}", False),
        ({"token_hosts": ["Worker-1 "]}, f"http://WORKER-1:8081{LOG}", True),
        ({"ui_scheme": "https"}, "https://h1:8080/json/", True),
        ({"ui_scheme": "https", "token_hosts": "worker-1"}, f"https://worker-1:8081{LOG}", True),
        ({"ui_scheme": "https", "token_hosts": "worker-1"}, f"http://worker-1:8081{LOG}", False),
        ({"rest_scheme": "https"}, "http://h1:8080/json/", False),
    ],
)
def test_token_is_sent_only_to_configured_servers(extra: dict[str, Any], url: str, is_covered: bool) -> None:
    expected = {"Authorization": "Bearer hush"} if is_covered else {}
    assert Credentials(address(**extra)).headers(url) == expected


def test_request_without_a_token_has_no_header() -> None:
    assert Credentials(address(token=None)).headers("http://h1:8080/json/") == {}


# ---- the client -----------------------------------------------------------------------------------------------------


class Master:
    """A master that requires a token, and that names a worker at an address of its choice.

    Attributes:
        token: required token.
        output: output of the driver on the web UI of the worker.
        requests: host and token of each request.
    """

    def __init__(self, worker: str = "http://worker-1:8081", token: str = "hush") -> None:
        self.worker = worker
        self.token = token
        self.output = ""
        self.requests: list[tuple[str, str | None]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        given = request.headers.get("authorization")
        self.requests.append((request.url.host, given))
        if given != f"Bearer {self.token}":
            return httpx.Response(401)
        if request.url.path == "/log/":
            return httpx.Response(200, text=f"==== Bytes 0-99 of 99 of /log ====\n{self.output}")
        answers: dict[str, Any] = {
            "/json/": {
                "status": "ALIVE",
                "workers": [
                    {
                        "id": "w",
                        "webuiaddress": self.worker,
                        "cores": 1,
                        "coresfree": 1,
                        "memory": 9,
                        "memoryfree": 9,
                        "state": "ALIVE",
                    }
                ],
                "activeapps": [],
                "completeddrivers": [{"id": "driver-1", "worker": "w"}],
            },
            "/v1/submissions/status/driver-1": {
                "action": "SubmissionStatusResponse",
                "success": True,
                "driverState": "RUNNING",
            },
        }
        return httpx.Response(200, json=answers[request.url.path])


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Callable[..., StandaloneCluster]]:
    clients: list[StandaloneCluster] = []

    def create(master: Master, renewed: list[ClusterAddress | None] | None = None, **extra: Any) -> StandaloneCluster:
        async def renew() -> ClusterAddress | None:
            return None if renewed is None else renewed.pop()

        transport = httpx.MockTransport(master)
        clients.append(StandaloneCluster(address(**extra), renew=renew, transport=transport))
        return clients[-1]

    yield create
    for cluster in clients:
        await cluster.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_worker_that_the_master_names_does_not_receive_the_token(
    client: Callable[..., StandaloneCluster], scheme: str
) -> None:
    """A driver fails, and the client reads its log from the address that the master names."""
    master = Master("http://evil:8081")
    with pytest.raises(ClusterUnreachableError, match="token-hosts"):
        await client(master, ui_scheme=scheme, rest_scheme=scheme).driver_log("driver-1")
    assert master.requests == [("h1", "Bearer hush"), ("evil", None)]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "worker", ["ftp://evil", "javascript:alert(1)//", "http://evil/x?y=", "http://me@evil", "//evil", "http://evil#"]
)
async def test_worker_without_a_web_address_is_not_linked_and_not_read(
    client: Callable[..., StandaloneCluster], worker: str
) -> None:
    master = Master(worker)
    cluster = client(master)
    assert (await cluster.snapshot()).log_pages == {}
    assert (await cluster.driver_log("driver-1")).stdout == ""
    assert {host for host, _ in master.requests} == {"h1"}


@pytest.mark.asyncio
async def test_request_is_repeated_with_the_new_token_of_the_connection(
    client: Callable[..., StandaloneCluster],
) -> None:
    """The masters get a new token while a loop runs."""
    master = Master(token="new")
    cluster = client(master, [address(token="new")])
    await cluster.snapshot()
    assert (await cluster.status("driver-1")).state is SubmissionState.RUNNING
    assert [token for _, token in master.requests] == ["Bearer hush", "Bearer new", "Bearer new"]


@pytest.mark.asyncio
async def test_log_shows_neither_the_refused_token_nor_its_replacement(
    client: Callable[..., StandaloneCluster],
) -> None:
    """The masters get a new token while a loop runs, and the driver prints both."""
    master = Master(token="new-token")
    master.output = "was: old-token, is: new-token"
    cluster = client(master, [address("new-token")], token="old-token", token_hosts="worker-1")
    assert (await cluster.driver_log("driver-1")).stdout == "was: ***, is: ***"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "renewed", [None, address(), parse_address("spark://h2", None, "new", {})], ids=["none", "same", "other masters"]
)
async def test_refused_token_is_kept_without_another_token_for_the_same_masters(
    client: Callable[..., StandaloneCluster], renewed: ClusterAddress | None
) -> None:
    """The connection cannot be read, has the same token, or describes another cluster than the cluster of the driver."""
    master = Master(token="new")
    cluster = client(master, [renewed])
    for _ in range(2):
        with pytest.raises(ClusterUnreachableError, match="access denied"):
            await cluster.snapshot()
    assert [token for _, token in master.requests] == ["Bearer hush", "Bearer hush"]


@pytest.mark.asyncio
async def test_new_token_of_the_same_masters_in_another_order_is_used() -> None:
    async def renew() -> ClusterAddress:
        return parse_address("spark://h2,h1", None, "new", {})

    credentials = Credentials(parse_address("spark://h1,h2", None, "old", {}), renew)
    assert await credentials.renew("old")
    assert (credentials.token, credentials.used) == ("new", ["old", "new"])
    assert not await credentials.renew("new")
