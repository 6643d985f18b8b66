"""Connections of a job, and the clients of clusters and brokers that the loops of one process share."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from airflow_adaptive._airflow.process.kafka_brokers import KafkaBrokers
from airflow_adaptive._airflow.process.process_resources import (
    ConnectionIds,
    MissingKafkaError,
    ProcessResources,
    SharedReads,
    create_client,
    kafka_brokers,
    require_kafka,
)
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import ApiSource, KubernetesAddress, parse_kubernetes_address
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import ClusterSnapshot, ClusterUnreachableError, SourceUnreachableError
from airflow_adaptive._core.protocol.sources import KafkaSource
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand
from airflow_adaptive._engine.cluster.shared_cluster import Participant
from tests.support.servers.fake_master import HOST, FakeMaster

Define = Callable[..., ConnectionIds]


@pytest_asyncio.fixture
async def process() -> AsyncIterator[ProcessResources]:
    yield ProcessResources()


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


@pytest.mark.asyncio
async def test_loops_with_the_same_connection_share_a_client_whatever_their_brokers_are(
    define: Define, process: ProcessResources
) -> None:
    connections = define("spark_a", "old")
    async with (
        process.cluster(connections, connections.address()) as first,
        process.cluster(replace(connections, kafka="kafka_a"), connections.address()) as second,
    ):
        assert first == second


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
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
async def test_error_of_a_read_without_a_waiting_caller_is_not_reported_as_unhandled() -> None:
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


Result = TypeVar("Result")

KUBERNETES = ConnectionIds("spark_k8s")


async def read(name: str, work: Callable[[], Result]) -> Result:
    return work()


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "spark", "host": "k8s://https://127.0.0.1:1", "extra": {"namespace": "team-a", "timeout": 1}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", json.dumps(fields))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://h1:7077")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("connections", "kind"), [(ConnectionIds("spark_test"), StandaloneCluster), (KUBERNETES, KubernetesCluster)]
)
async def test_host_of_the_connection_selects_the_client(connections: ConnectionIds, kind: type[Any]) -> None:
    client = create_client(connections, connections.address(), read, {})
    assert type(client) is kind
    await client.close()


@pytest.mark.asyncio
async def test_connections_with_the_same_server_and_credentials_share_their_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"conn_type": "spark", "host": "k8s://https://127.0.0.1:1", "extra": {"timeout": 1, "max-cores": 3}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CAPPED", json.dumps(fields))
    capped, others = ConnectionIds("spark_capped"), ConnectionIds("spark_capped", kubernetes="kubernetes_other")
    sources: dict[Hashable, ApiSource] = {}
    await create_client(KUBERNETES, KUBERNETES.address(), read, sources).close()
    (first,) = sources.values()
    for connections in (capped, others):
        await create_client(connections, connections.address(), read, sources).close()
    assert [source is first for source in sources.values()] == [True, False]
    assert [*sources] == [("https://127.0.0.1:1", 1.0, name) for name in ("kubernetes_default", "kubernetes_other")]


@pytest.mark.asyncio
async def test_jobs_of_one_namespace_share_a_client_and_other_namespaces_do_not(process: ProcessResources) -> None:
    other = ConnectionIds("spark_k8s", namespace="team-b")
    async with (
        process.cluster(KUBERNETES, KUBERNETES.address()) as one,
        process.cluster(KUBERNETES, KUBERNETES.address()) as same,
        process.cluster(other, other.address()) as different,
    ):
        assert one == same
        assert one[0] is not different[0]
        assert one[1] is not different[1]


REMEDY = "kafka_conn_id='kafka_test': install 'airflow-adaptive[kafka]' in all Airflow components"


@pytest.fixture(params=["confluent_kafka", "airflow.providers.apache.kafka.hooks.base"])
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hide one library of the extra."""
    monkeypatch.delitem(sys.modules, "airflow_adaptive._airflow.process.kafka_brokers", raising=False)
    monkeypatch.setitem(sys.modules, request.param, None)
    return str(request.param)


def test_missing_library_is_one_error_with_the_remedy(missing: str) -> None:
    with pytest.raises(MissingKafkaError) as raised:
        require_kafka("kafka_test")
    assert str(raised.value).startswith(REMEDY)
    assert missing in str(raised.value)


def test_triggerer_without_the_library_names_the_same_remedy(missing: str) -> None:
    resources = ProcessResources()
    with pytest.raises(MissingKafkaError, match=r"install 'airflow-adaptive\[kafka\]'"):
        kafka_brokers("kafka_test", resources.store_access, resources.clock)


def test_installed_libraries_are_accepted() -> None:
    require_kafka("kafka_test")


@pytest.mark.asyncio
async def test_loops_with_the_same_connection_share_brokers_until_the_last_of_them_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[object] = []

    async def close(brokers: object) -> None:
        closed.append(brokers)

    monkeypatch.setattr(KafkaBrokers, "close", close)
    resources = ProcessResources()
    async with resources.brokers("kafka_test") as first:
        async with resources.brokers("kafka_test") as second, resources.brokers("kafka_other") as other:
            assert isinstance(first, KafkaBrokers)
            assert second is first
            assert other is not first
        assert closed == [other]
    assert closed == [other, first]


@pytest.mark.asyncio
async def test_loop_without_a_connection_of_brokers_reads_no_connection() -> None:
    async with ProcessResources().brokers("") as brokers:
        assert brokers is None


@pytest.mark.asyncio
async def test_shared_brokers_use_the_connection_through_the_store_and_the_clock_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection does not exist: the reader of the process reads it, and the error of the topic names it."""
    resources = ProcessResources()
    works: list[object] = []

    async def read_connection(_: str, work: Callable[[], Any]) -> Any:
        works.append(work)
        return work()

    monkeypatch.setattr(resources.store_access, "read_connection", read_connection)
    async with resources.brokers("kafka_missing") as brokers:
        assert brokers is not None
        with pytest.raises(SourceUnreachableError, match="connection 'kafka_missing' is not defined"):
            await brokers.end_offsets(KafkaSource(cluster="x"), frozenset("a"))
    assert len(works) == 1


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "spark", "host": "k8s://https://api:6443", "extra": {"namespace": "team-a"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", json.dumps(fields))


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(("declared", "namespace"), [("", "team-a"), ("team-b", "team-b")])
def test_declared_namespace_overrides_the_connection(declared: str, namespace: str) -> None:
    address = ConnectionIds("spark_k8s", namespace=declared).address()
    assert isinstance(address, KubernetesAddress)
    assert address.namespace == namespace


@pytest.mark.usefixtures("kubernetes")
def test_invalid_namespace_is_refused() -> None:
    with pytest.raises(AddressError, match="'Team_B' is not the name of a namespace"):
        ConnectionIds("spark_k8s", namespace="Team_B").address()


def test_namespace_on_a_standalone_cluster_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://h1:7077")
    with pytest.raises(
        AddressError, match="connection 'spark_test' names a standalone cluster: leave it out, or use .*k8s://"
    ):
        ConnectionIds("spark_test", namespace="team-a").address()


def test_namespaces_of_a_cluster_are_different_places() -> None:
    here, there = (KubernetesAddress(server="https://api", namespace=name) for name in ("a", "b"))
    assert here.place != there.place
