"""The client of the cluster manager that a connection names."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from airflow_adaptive._airflow.process.process_resources import ConnectionIds, ProcessResources, create_client
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import ApiSource
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import ClusterUnreachableError

Result = TypeVar("Result")

KUBERNETES = ConnectionIds("spark_k8s")


async def read(name: str, work: Callable[[], Result]) -> Result:
    return work()


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"conn_type": "spark", "host": "k8s://https://127.0.0.1:1", "extra": {"namespace": "team-a", "timeout": 1}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", json.dumps(fields))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://h1:7077")


@pytest_asyncio.fixture
async def process() -> AsyncIterator[ProcessResources]:
    yield ProcessResources()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("connections", "kind"), [(ConnectionIds("spark_test"), StandaloneCluster), (KUBERNETES, KubernetesCluster)]
)
async def test_host_of_the_connection_selects_the_client(connections: ConnectionIds, kind: type[Any]) -> None:
    client = create_client(connections, connections.address(), read, {})
    assert type(client) is kind
    await client.close()


def test_missing_libraries_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "airflow_adaptive._airflow.kubernetes_api", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes_asyncio", None)
    with pytest.raises(AddressError, match="connection 'spark_k8s' .*install 'airflow-adaptive.kubernetes.'"):
        create_client(KUBERNETES, KUBERNETES.address(), read, {})


@pytest.mark.asyncio
async def test_missing_credentials_are_named_and_never_replaced_by_the_default_kubeconfig(
    process: ProcessResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is removed after the task was deferred, and the triggerer has a default kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", "/production")
    monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", raising=False)
    async with process.cluster(KUBERNETES, KUBERNETES.address()) as (client, _):
        with pytest.raises(ClusterUnreachableError, match="connection 'kubernetes_default' is not defined: add it"):
            await client.kill("departures-1-00000000@uid")


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
