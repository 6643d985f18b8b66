"""Airflow connections of a job, and the address to which they lead."""

from __future__ import annotations

import json

import pytest

from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress


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
