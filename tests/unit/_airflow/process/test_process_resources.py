"""Clients of clusters that the loops of one process share."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.process.process_resources import ConnectionIds, ProcessResources, SharedReads
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._clusters.kubernetes.address import parse_kubernetes_address
from airflow_adaptive._core.ports import ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand
from airflow_adaptive._engine.cluster.shared_cluster import Participant
from tests.support.servers.fake_master import HOST, FakeMaster

Define = Callable[..., ConnectionIds]

pytestmark = pytest.mark.asyncio


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    with FakeMaster() as master:
        yield master


@pytest.fixture
def define(master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> Define:
    """Define a connection to the master by its id and its token."""

    def define(conn_id: str, token: str, **extra: Any) -> ConnectionIds:
        ports = {"ui-port": master.port, "rest-port": master.port}
        fields = {"conn_type": "spark", "host": f"spark://{HOST}", "password": token, "extra": {**ports, **extra}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
        return ConnectionIds(conn_id)

    return define


@pytest.fixture
def process() -> ProcessResources:
    return ProcessResources()


async def test_loops_with_the_same_connection_share_a_client_whatever_their_brokers_are(
    define: Define, process: ProcessResources
) -> None:
    connections = define("spark_a", "old")
    async with (
        process.cluster(connections, connections.address()) as first,
        process.cluster(replace(connections, kafka="kafka_a"), connections.address()) as second,
    ):
        assert first == second


@pytest.mark.parametrize("change", [{"token": "new"}, {"timeout": 3}, {"verify": False}, {"conf": {"spark.a": "b"}}])
async def test_loop_with_a_changed_connection_has_its_own_client(
    define: Define, process: ProcessResources, change: dict[str, Any]
) -> None:
    """A loop starts, a field of the connection changes, and a second loop starts. Both loops share the capacity of the cluster."""
    connections = define("spark_a", "old")
    async with process.cluster(connections, connections.address()) as (first, shared):
        define("spark_a", **{"token": "old", **change})
        async with process.cluster(connections, connections.address()) as (second, same):
            assert first is not second
            assert shared is same


@pytest.mark.parametrize(
    ("change", "account"),
    [({"max-cores": 8}, "team_a"), ({"node-autoscaling": True}, "team_a"), ({}, "team_b")],
    ids=["cap", "node autoscaling", "account"],
)
async def test_loops_whose_connections_show_another_capacity_of_a_namespace_do_not_share_it(
    process: ProcessResources, change: dict[str, Any], account: str
) -> None:
    first, second = ConnectionIds(spark="a", kubernetes="team_a"), ConnectionIds(spark="b", kubernetes=account)
    address = parse_kubernetes_address("k8s://https://api", None, {"max-cores": 4})
    other = parse_kubernetes_address("k8s://https://api", None, {"max-cores": 4, **change})
    async with process.cluster(first, address) as (_, shared), process.cluster(second, other) as (_, another):
        assert shared is not another
    async with (
        process.cluster(first, address) as (_, shared),
        process.cluster(replace(first, spark="b"), replace(address, conf={"spark.a": "b"})) as (_, same),
    ):
        assert shared is same


async def test_running_loops_use_the_new_token_after_a_rotation(
    define: Define, process: ProcessResources, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The masters and the connection get a new token while 20 loops run. The connection is read once for all loops."""
    reads: list[object] = []
    read = StoreAccess.read_connection

    async def counted(access: StoreAccess, name: str, work: Callable[[], Any]) -> Any:
        reads.append(work)
        return await read(access, name, work)

    monkeypatch.setattr(StoreAccess, "read_connection", counted)
    connections = define("spark_a", "old")
    master.token = "old"
    async with process.cluster(connections, connections.address()) as (client, shared):
        participants = [Participant(shared, client) for _ in range(20)]
        demand = SlotDemand(job="a")
        await participants[0].observe(demand, timedelta(0))
        master.token = "new"
        define("spark_a", "new")
        await asyncio.gather(*(participant.observe(demand, timedelta(0)) for participant in participants))
        await asyncio.gather(*(client.status("driver-1") for _ in participants))
    assert len(reads) == 1


async def test_wrong_token_is_read_again_once_and_not_with_each_request(
    define: Define, process: ProcessResources, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The masters have another token, and the connection still has the old token."""
    reads: list[object] = []

    async def counted(_: StoreAccess, name: str, work: Callable[[], Any]) -> Any:
        reads.append(work)
        return work()

    monkeypatch.setattr(StoreAccess, "read_connection", counted)
    connections = define("spark_a", "old")
    master.token = "new"
    async with process.cluster(connections, connections.address()) as (client, _):
        for _ in range(5):
            with pytest.raises(ClusterUnreachableError, match="access denied"):
                await client.snapshot()
    assert len(reads) == 1


async def test_loop_without_access_does_not_affect_the_loops_of_another_connection(
    define: Define, process: ProcessResources, master: FakeMaster
) -> None:
    """The first loop of the process uses a connection with a wrong token. The loops of another connection still poll the cluster."""
    master.token = "right"
    demand = SlotDemand(job="a")
    async with AsyncExitStack() as stack:
        loops = []
        for conn_id, token in (("spark_a", "wrong"), ("spark_b", "right")):
            connections = define(conn_id, token)
            client, shared = await stack.enter_async_context(process.cluster(connections, connections.address()))
            loops.append(Participant(shared, client))
        for _ in range(3):
            outcomes = await asyncio.gather(
                *(loop.observe(demand, timedelta(0)) for loop in loops), return_exceptions=True
            )
            assert not isinstance(outcomes[1], BaseException)
            assert isinstance(outcomes[0], ClusterUnreachableError)


async def test_end_of_a_job_during_its_poll_fails_no_loop_of_another_connection(
    define: Define, process: ProcessResources
) -> None:
    """Job A starts a poll, job B awaits the poll, job A ends, and the client of A is closed before it sends the request."""
    connections = [define(conn_id, "token") for conn_id in ("spark_a", "spark_b")]
    async with process.cluster(connections[1], connections[1].address()) as (staying, shared):
        async with process.cluster(connections[0], connections[0].address()) as (ending, _):
            polls = [asyncio.create_task(shared.poll(client, timedelta(0))) for client in (ending, staying)]
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*polls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ClusterUnreachableError, ClusterSnapshot]


async def test_connection_that_cannot_be_read_keeps_the_old_token(
    define: Define, process: ProcessResources, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The masters get a new token, and the connection does not exist any more."""
    connections = define("spark_a", "old")
    master.token = "new"
    async with process.cluster(connections, connections.address()) as (client, _):
        monkeypatch.delenv("AIRFLOW_CONN_SPARK_A")
        with pytest.raises(ClusterUnreachableError, match="access denied"):
            await client.snapshot()


async def test_read_that_fails_is_read_again_by_the_next_caller() -> None:
    results: list[Exception | str] = [ValueError("no connection"), "connection"]

    async def read() -> str:
        await asyncio.sleep(0)
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    shared = SharedReads()
    together = await asyncio.gather(*(shared.join("key", read) for _ in range(2)), return_exceptions=True)
    assert [*map(str, together), await shared.join("key", read)] == ["no connection", "no connection", "connection"]


@pytest.mark.asyncio
async def test_error_of_a_read_for_which_no_caller_waits_any_more_is_not_reported_as_unhandled() -> None:
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    shared, is_over = SharedReads(), asyncio.Event()

    async def read() -> None:
        await is_over.wait()
        raise LookupError("no such connection")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(shared.join("key", read), timeout=0.01)
    is_over.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    gc.collect()
    assert unhandled == []
