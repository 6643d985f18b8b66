"""The transport enforces the timeouts of httpx in virtual time, and a master executes requests regardless of their clients."""

from __future__ import annotations

import httpx
import pytest

from airflow_adaptive.spark.standalone.http import MAX_CONNECTIONS
from tests.lab.fleet.cluster.cluster import SimulatedCluster
from tests.lab.fleet.cluster.masters import MasterFault, SimulatedMasters
from tests.lab.fleet.cluster.transport import installed
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess

REST = "http://master-1:6066/v1/submissions"
UI = "http://master-1:8080/json/"
FOREIGN = {
    "appArgs": ["--name", "foreign", "foreign.py"],
    "sparkProperties": {"spark.driver.cores": "1", "spark.driver.memory": "512m"},
    "environmentVariables": {},
}


class Client:
    """An httpx client in a process. `ends` has the outcome of each request and its time, in the order of the ends."""

    def __init__(self, token: str | None = None) -> None:
        self.kernel = Kernel()
        entropy = Entropy(1)
        self.cluster = SimulatedCluster(self.kernel, entropy, lambda text: None, lambda submission_id: None)
        self.masters = SimulatedMasters(self.kernel, entropy, lambda text: None, self.cluster, token=token)
        with installed(self.kernel, lambda host: self.masters) as transports:
            self.client = httpx.AsyncClient()
        (self.transport,) = transports
        self.transport.client = "triggerer-1"
        self.process = SimulatedProcess(self.kernel, "triggerer-1")
        self.loop = SimulatedEventLoop(self.process)  # type: ignore[abstract]  # it has no methods for networks
        self.ends: list[tuple[str, float]] = []

    def send(self, method: str = "GET", url: str = UI, **options: object) -> None:
        self.process.soon(lambda: self.loop.create_task(self._send(method, url, options)))

    async def _send(self, method, url, options):
        timeout = httpx.Timeout(10.0, pool=8.0)
        try:
            response = await self.client.request(method, url, timeout=timeout, **options)
        except httpx.RequestError as error:
            outcome = type(error).__name__
        else:
            outcome = str(response.status_code)
        self.ends.append((outcome, round(self.kernel.now)))


@pytest.fixture
def client():
    return Client()


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        (MasterFault("refuse"), ("ConnectError", 0)),
        (MasterFault("disconnect"), ("ConnectTimeout", 10)),
        (MasterFault("hang"), ("ReadTimeout", 10)),
        (MasterFault("slow", delay_s=4.0), ("200", 4)),
        (MasterFault("slow", delay_s=14.0), ("ReadTimeout", 10)),
        (MasterFault("fail"), ("500", 0)),
        (MasterFault("lose"), ("ReadError", 0)),
        (MasterFault("lose", clients="triggerer-2"), ("200", 0)),
        (MasterFault("lose", hosts="master-2"), ("200", 0)),
        (MasterFault("lose", kinds="create"), ("200", 0)),
    ],
    ids=lambda value: value.effect if isinstance(value, MasterFault) else value[0],
)
def test_a_fault_ends_a_request_as_httpx_reports_it(client, fault, end):
    client.masters.begin(fault)
    client.send()
    client.kernel.run(until=60)
    assert client.ends == [end]
    assert client.transport.open_requests == 0


def test_a_request_of_a_killed_client_is_executed(client):
    client.masters.begin(MasterFault("slow", delay_s=4.0))
    client.send("POST", f"{REST}/create", json=FOREIGN)
    client.kernel.at(1.0, client.process.kill)
    client.kernel.run(until=10)
    assert [it.name for it in client.cluster.submissions.values()] == ["foreign"]
    assert client.ends == []


def test_a_request_that_hangs_is_executed_when_the_master_resumes(client):
    end = client.masters.begin(MasterFault("hang"))
    client.send("POST", f"{REST}/create", json=FOREIGN)
    client.kernel.run(until=20)
    assert client.cluster.submissions == {}
    end()
    client.kernel.run(until=30)
    assert len(client.cluster.submissions) == 1


def test_a_request_waits_for_a_free_connection(client):
    end = client.masters.begin(MasterFault("slow", delay_s=6.0))
    for _ in range(MAX_CONNECTIONS + 1):
        client.send()
    client.kernel.run(until=3)
    assert client.transport.open_requests == MAX_CONNECTIONS
    end()
    client.kernel.run(until=60)
    assert client.ends == [("200", 6)] * (MAX_CONNECTIONS + 1)


def test_a_request_without_a_free_connection_is_not_sent(client):
    client.masters.begin(MasterFault("slow", delay_s=9.0))
    for _ in range(MAX_CONNECTIONS + 1):
        client.send()
    client.kernel.run(until=60)
    assert client.ends == [("PoolTimeout", 8)] + [("200", 9)] * MAX_CONNECTIONS


def test_masters_require_their_token():
    client = Client(token="secret")
    client.send()
    client.send(headers={"Authorization": "Bearer secret"})
    client.kernel.run(until=1)
    assert sorted(outcome for outcome, _ in client.ends) == ["200", "401"]


def test_a_closed_client_has_released_its_connections(client):
    client.process.soon(lambda: client.loop.create_task(client.client.aclose()))
    assert not client.transport.is_closed
    client.kernel.run(until=1)
    assert client.transport.is_closed


def test_workers_require_no_token():
    client = Client(token="secret")
    client.cluster.add_worker(cores=1, memory_mb=512)
    client.send("POST", f"{REST}/create", json=FOREIGN, headers={"Authorization": "Bearer secret"})
    client.kernel.run(until=1)
    (submission_id,) = client.cluster.submissions
    client.send(url=f"http://worker-1:8081/log/?driverId={submission_id}&logType=stdout")
    client.kernel.run(until=2)
    assert client.ends == [("200", 0), ("200", 1)]
