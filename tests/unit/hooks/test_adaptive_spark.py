"""From Airflow's connections to clients of a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from airflow.sdk import BaseHook
from airflow.sdk._shared.secrets_masker import redact

from airflow_adaptive._airflow.internals import AirflowSecretsBackendAccessDenied
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._clusters.kubernetes import client
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.standalone.address import ClusterAddress, parse_address
from airflow_adaptive._core.ports import ClusterRefusedError
from airflow_adaptive.hooks import adaptive_spark
from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook, report


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Define the connection `spark_test` by its fields."""

    def define(**fields: object) -> AdaptiveSparkHook:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps({"conn_type": "spark", **fields}))
        return AdaptiveSparkHook("spark_test")

    return define


def test_connection_gives_the_address(define: Any) -> None:
    address = define(
        host="spark://h1", port=7078, password="hush", extra={"ui-port": 8081, "rest-port": 6067}
    ).address()
    (master,) = address.masters
    assert (address.master_url, master.ui_url, master.rest_url) == (
        "spark://h1:7078",
        "http://h1:8081",
        "http://h1:6067",
    )
    assert address.token == "hush"


def test_both_types_of_connections_have_the_same_fields(define: Any) -> None:
    fields = {"host": "spark://h1", "extra": {"ui-port": None, "secret-conf": {"spark.region": "hush"}}}
    addresses = [define(conn_type=conn_type, **fields).address() for conn_type in ("adaptive_spark", "spark")]
    assert addresses[0] == addresses[1]
    assert addresses[0].conf == {"spark.region": "hush"}


@pytest.mark.parametrize(
    "failure", [AddressError("host: wrong hush-bearer"), ClusterRefusedError("hush-bearer refused")]
)
def test_test_of_a_connection_reports_errors_without_secrets(
    define: Any, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def fail(address: ClusterAddress) -> str:
        raise failure

    monkeypatch.setattr(adaptive_spark, "report", fail)
    hook = define(conn_type="adaptive_spark", host="spark://h1", password="hush-bearer")
    assert hook.test_connection() == (False, str(failure).replace("hush-bearer", "***"))


def test_test_of_a_connection_returns_the_report(define: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def report(address: ClusterAddress) -> str:
        return f"{address.master_url} {address.conn_id!r} hush-bearer"

    monkeypatch.setattr(adaptive_spark, "report", report)
    hook = define(conn_type="adaptive_spark", host="spark://h1", password="hush-bearer")
    assert hook.test_connection() == (True, "spark://h1:7077 '' ***")


def test_test_of_a_connection_does_not_repeat_its_random_id(define: Any) -> None:
    assert define(host="yarn").test_connection()[1].startswith("host 'yarn' is not supported")


def test_connection_uri_gives_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://h1:7078?ui-port=8081")
    address = AdaptiveSparkHook("spark_test").address()
    assert isinstance(address, ClusterAddress)
    (master,) = address.masters
    assert (master.location, master.ui_url) == ("h1:7078", "http://h1:8081")


@pytest.mark.parametrize(
    ("uri", "master"),
    [
        ("adaptive-spark://h1:7078", "spark://h1:7078"),
        ("spark://h1%3A7077%2Ch2%3A7078", "spark://h1:7077,h2:7078"),
        ("spark://h1,h2:7078", "spark://h1:7078,h2:7078"),
        ("spark://spark%3A%2F%2Fh1:7078", "spark://h1:7078"),
        ("spark://[::1]:7078?ui-port=8081", "spark://[::1]:7078"),
        ("spark://%5B%3A%3A1%5D%3A7077%2C%5B%3A%3A2%5D%3A7078", "spark://[::1]:7077,[::2]:7078"),
        ("k8s://https://api.example.com:6443?namespace=spark", "k8s://https://api.example.com:6443"),
        ("k8s://api.example.com:6443", "k8s://https://api.example.com:6443"),
        ("spark://k8s%3A%2F%2Fhttps%3A%2F%2Fapi.example.com:6443", "k8s://https://api.example.com:6443"),
    ],
)
def test_uris_that_airflow_reads_give_the_master(monkeypatch: pytest.MonkeyPatch, uri: str, master: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", uri)
    assert AdaptiveSparkHook("spark_test").address().master_url == master


@pytest.mark.parametrize(
    "uri", ["adaptive_spark://h1:7077", "spark://h1:7077,h2:7077", "spark://k8s://https://api:6443"]
)
def test_uri_that_airflow_does_not_read_is_refused_with_the_form_that_works(
    monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", uri)
    with pytest.raises(AddressError, match="'spark_test'.*adaptive-spark://host:7077.*h1%3A7077%2Ch2%3A7077"):
        AdaptiveSparkHook("spark_test").address()


def test_unknown_connection_is_named_with_the_fix() -> None:
    with pytest.raises(
        UndefinedConnectionError, match=r"'no_such_connection' is not defined: .*airflow connections add"
    ):
        AdaptiveSparkHook("no_such_connection").address()


def test_connection_that_a_secrets_backend_refuses_is_named(define: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(conn_id: str) -> None:
        raise AirflowSecretsBackendAccessDenied("403")

    hook = define()
    monkeypatch.setattr(BaseHook, "get_connection", deny)
    with pytest.raises(
        AddressError, match=r"connection 'spark_test': a secrets backend denies access \(403\)"
    ) as raised:
        hook.address()
    assert not isinstance(raised.value, UndefinedConnectionError)


def test_other_type_of_connection_is_refused(define: Any) -> None:
    with pytest.raises(
        AddressError, match="'spark_test' has type 'http': use a connection of type 'adaptive_spark' or 'spark'"
    ):
        define(conn_type="http", host="h1").address()


def test_authorities_that_can_not_be_read_are_named(define: Any) -> None:
    with pytest.raises(AddressError, match="connection 'spark_test': extra verify: .*No such file"):
        define(host="h1", extra={"verify": "/no/such/authorities.pem"}).address()


@pytest.mark.parametrize("host", ["spark://h1", "k8s://https://api"])
def test_secrets_of_a_connection_are_masked_in_the_logs(define: Any, host: str) -> None:
    """Airflow masks the text of a field whose name is secret, but not the values in the text."""
    place = host.partition(":")[0]
    extra = {
        "secret-conf": f"spark.region={place}-region\nspark.zone={place}-zone",
        "secret-env": f"OWNER={place}-owner",
    }
    define(host=host, extra=extra).address()
    assert redact(f"in {place}-region and {place}-zone of {place}-owner") == "in *** and *** of ***"


def test_host_with_k8s_gives_a_namespace_of_a_kubernetes_cluster(define: Any) -> None:
    address = define(host="k8s://https://api", port=6443, extra={"namespace": "team-a", "max-cores": 8}).address()
    assert isinstance(address, KubernetesAddress)
    assert (address.master_url, address.namespace, address.max_cpu_millicores) == (
        "k8s://https://api:6443",
        "team-a",
        8000,
    )


def test_invalid_namespace_is_named_with_its_connection(define: Any) -> None:
    with pytest.raises(
        AddressError, match="connection 'spark_test': namespace 'Team_A' is not the name of a namespace"
    ):
        define(host="k8s://https://api", extra={"namespace": "Team_A"}).address()


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

    monkeypatch.setattr(adaptive_spark, "connection_report", named)
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
