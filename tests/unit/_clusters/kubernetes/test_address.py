"""From the fields of a connection to a namespace of a Kubernetes cluster."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress, parse_kubernetes_address


def parse(host: str = "k8s://https://api:6443", port: int | None = None, **extra: Any) -> KubernetesAddress:
    return parse_kubernetes_address(host, port, {name.replace("_", "-"): value for name, value in extra.items()})


@pytest.mark.parametrize(
    ("host", "port", "master_url"),
    [
        ("k8s://https://api:6443", None, "k8s://https://api:6443"),
        ("k8s://https://api", 6443, "k8s://https://api:6443"),
        ("k8s://https://api:6443", 443, "k8s://https://api:6443"),
        ("k8s://api:6443", None, "k8s://https://api:6443"),
        ("k8s://http://127.0.0.1:8001", None, "k8s://http://127.0.0.1:8001"),
        ("k8s://kubernetes.default.svc", None, "k8s://https://kubernetes.default.svc"),
        ("k8s://https://[::1]:6443/", None, "k8s://https://[::1]:6443"),
        ("k8s://https://rancher/k8s/clusters/c-1", None, "k8s://https://rancher/k8s/clusters/c-1"),
    ],
)
def test_host_and_port_give_the_master(host: str, port: int | None, master_url: str) -> None:
    assert parse(host, port).master_url == master_url


@pytest.mark.parametrize(
    "host", ["k8s://", "k8s://https://", "k8s://ftp://api", "k8s://https://me:hush@api", "k8s://https://api:port?hush"]
)
def test_host_without_an_api_server_is_refused_and_not_repeated(host: str) -> None:
    with pytest.raises(AddressError, match="URL of an API server") as caught:
        parse(host)
    assert "hush" not in str(caught.value)


def test_extras_give_the_namespace_the_cap_and_the_timeout() -> None:
    address = parse(namespace="team-a", max_cores="2.5", max_memory="3g", timeout=5)
    values = (address.namespace, address.max_cpu_millicores, address.max_memory_bytes, address.timeout_s)
    assert values == ("team-a", 2500, 3 << 30, 5.0)


def test_autoscaling_of_nodes_is_a_flag() -> None:
    values = [
        parse_kubernetes_address("k8s://api", None, {"node-autoscaling": value}) for value in (True, "True", False)
    ]
    assert [address.has_node_autoscaling for address in values] == [True, True, False]


def test_address_of_logs_contains_the_namespace_and_the_pod() -> None:
    address = parse_kubernetes_address(
        "k8s://api", None, {"namespace": "team-a", "log-url": "https://logs/?q={namespace}/{pod}"}
    )
    assert address.log_page("departures-1") == "https://logs/?q=team-a/departures-1"
    assert parse().log_page("departures-1") == ""


def test_connection_without_extras_has_defaults() -> None:
    assert parse() == KubernetesAddress(server="https://api:6443")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespace", "Team_A"),
        ("namespace", "a" * 64),
        ("namespace", 7),
        ("max-cores", "many"),
        ("max-cores", 0),
        ("max-cores", 1e308),
        ("max-memory", "9" * 5000),
        ("max-memory", "3"),
        ("max-memory", "0g"),
        ("node-autoscaling", "yes"),
        ("log-url", "https://logs/departures"),
        ("log-url", "javascript:{pod}"),
        ("timeout", -1),
        ("conf", "hush"),
        ("secret-env", ["hush"]),
    ],
)
def test_invalid_field_is_named(field: str, value: object) -> None:
    with pytest.raises(AddressError, match=field) as caught:
        parse_kubernetes_address("k8s://api", None, {field: value})
    assert "hush" not in str(caught.value)


def test_secrets_are_known_and_hidden() -> None:
    address = parse(conf={"spark.my.api.key": "hush", "spark.a": "b"}, secret_env={"DB_LOGIN": "quiet"})
    assert set(address.secrets) == {"hush", "quiet"}
    assert "hush" not in repr(address)
    assert "quiet" not in repr(address)


@pytest.mark.parametrize(
    ("host", "server", "same"),
    [
        ("k8s://https://api:6443", "https://api:6443", True),
        ("k8s://https://api", "https://api:443/", True),
        ("k8s://https://kubernetes.default.svc", "https://10.0.0.1:443", True),
        ("k8s://https://api:6443", "https://api:6444", False),
        ("k8s://https://staging:6443", "https://production:6443", False),
        ("k8s://http://api:6443", "https://api:6443", False),
    ],
)
def test_server_of_the_credentials_is_compared(host: str, server: str, same: bool) -> None:
    assert parse(host).names_server(server) is same


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("spark.executor.extraJavaOptions", "-Xss4m -Djavax.net.ssl.trustStorePassword=hush", "'@/path/of/the/file'"),
        ("spark.executorEnv.DB_PASSWORD", "hush", r"spark\.kubernetes\.executor\.secretKeyRef\.DB_PASSWORD"),
    ],
)
def test_secret_that_spark_would_write_to_executor_pods_is_refused(name: str, value: str, place: str) -> None:
    with pytest.raises(AddressError, match=f"{name} contains a secret.*{place}") as refusal:
        parse(conf={name: value})
    assert "hush" not in str(refusal.value)


def test_secret_in_the_options_of_a_driver_is_known() -> None:
    conf = {"spark.driver.extraJavaOptions": "-Da=b -Djavax.net.ssl.trustStorePassword=hush"}
    assert "hush" in parse(conf=conf).secrets
