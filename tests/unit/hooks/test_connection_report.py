"""What *Test connection* reports, by cluster manager."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes import client
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.standalone import connection_report
from airflow_adaptive._clusters.standalone.address import ClusterAddress, parse_address
from airflow_adaptive._core.ports import ClusterRefusedError
from airflow_adaptive.hooks.adaptive_spark import report

NAMESPACE = KubernetesAddress(server="https://api:6443", namespace="team-a")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A connection of type `kubernetes`. The test closes its client."""
    closed = []
    close = client.KubernetesCluster.close

    async def close_and_note(cluster: client.KubernetesCluster) -> None:
        closed.append(cluster)
        await close(cluster)

    monkeypatch.setattr(client.KubernetesCluster, "close", close_and_note)
    fields = {"conn_type": "kubernetes", "extra": {"in_cluster": True}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(fields))
    yield
    assert len(closed) == 1


def check_with(monkeypatch: pytest.MonkeyPatch, check: Callable[[client.KubernetesCluster], Awaitable[None]]) -> None:
    monkeypatch.setattr(client.KubernetesCluster, "check", check)


@pytest.mark.asyncio
async def test_standalone_cluster_is_tested_at_its_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    async def named(address: ClusterAddress) -> str:
        return address.master_url

    monkeypatch.setattr(connection_report, "report", named)
    assert await report(parse_address("spark://h1", None, None, {})) == "spark://h1:7077"


@pytest.mark.asyncio
async def test_namespace_is_checked_with_the_default_credentials(
    credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []

    async def check(cluster: client.KubernetesCluster) -> None:
        checked.append(repr(cluster))

    check_with(monkeypatch, check)
    assert await report(NAMESPACE) == (
        "The account of connection 'kubernetes_default' may run jobs in namespace 'team-a' of https://api:6443, and the free resources are known."
    )
    assert checked == ["KubernetesCluster('k8s://https://api:6443', 'team-a')"]


@pytest.mark.asyncio
async def test_namespace_that_accepts_no_driver_is_an_error(credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_: client.KubernetesCluster) -> None:
        raise ClusterRefusedError("may not create pods")

    check_with(monkeypatch, check)
    with pytest.raises(ClusterRefusedError, match="may not create pods"):
        await report(NAMESPACE)


@pytest.mark.asyncio
async def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow_adaptive._clusters.kubernetes.client", None)
    with pytest.raises(AddressError, match=r"install 'airflow-adaptive\[kubernetes\]'"):
        await report(NAMESPACE)
