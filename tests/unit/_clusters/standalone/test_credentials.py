"""The servers that receive the token of a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio

from airflow_adaptive._clusters.standalone.address import ClusterAddress, parse_address
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._clusters.standalone.credentials import Credentials
from airflow_adaptive._core.ports import ClusterUnreachableError, SubmissionState

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
