"""From Airflow's connections of type `kubernetes` to credentials."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from airflow.sdk._shared.secrets_masker import redact

from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive.hooks.kubernetes import KubernetesConnectionHook

Define = Callable[..., KubernetesConnectionHook]

KUBECONFIG = {"users": [{"name": "a", "user": {"token": "quiet-token", "client-key-data": "quiet-private"}}, "broken"]}


@pytest.fixture(autouse=True)
def _default_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """The environment names a kubeconfig, as that of many users does."""
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/production")


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Define:
    """Define the connection `kubernetes_test` by its extra fields."""

    def define(conn_type: str = "kubernetes", **extra: object) -> KubernetesConnectionHook:
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_TEST", json.dumps({"conn_type": conn_type, "extra": extra}))
        return KubernetesConnectionHook("kubernetes_test")

    return define


@pytest.mark.parametrize("conn_id", ["kubernetes_default", "no_such_connection"])
def test_missing_connection_is_an_error_and_never_the_default_kubeconfig(
    conn_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", raising=False)
    with pytest.raises(AddressError, match=f"'{conn_id}' is not defined: .*airflow connections add {conn_id}"):
        KubernetesConnectionHook(conn_id).fields()


@pytest.mark.parametrize("extra", [{}, {"namespace": "a", "in_cluster": False}, {"cluster_context": "production"}])
def test_connection_without_credentials_is_an_error_and_never_the_default_kubeconfig(
    define: Define, extra: dict[str, object]
) -> None:
    with pytest.raises(AddressError, match="connection 'kubernetes_test': selects no credentials: set exactly one"):
        define(**extra).fields()


def test_two_kinds_of_credentials_are_refused(define: Define) -> None:
    with pytest.raises(AddressError, match="in_cluster and kube_config_path exclude each other: set exactly one"):
        define(in_cluster=True, kube_config_path="/k").fields()


def test_other_type_of_connection_is_refused(define: Define) -> None:
    with pytest.raises(AddressError, match="'kubernetes_test' has type 'spark': use a connection of type 'kubernetes'"):
        define(conn_type="spark", in_cluster=True).fields()


@pytest.mark.parametrize(
    ("extra", "name", "value"),
    [
        ({"in_cluster": True}, "in_cluster", True),
        ({"in_cluster": "True"}, "in_cluster", True),
        ({"in_cluster": "False", "kube_config_path": "/k"}, "in_cluster", False),
        ({"kube_config_path": "/k"}, "disable_verify_ssl", False),
        ({"extra__kubernetes__kube_config_path": "/k"}, "kube_config_path", "/k"),
        ({"kube_config_path": "/k", "cluster_context": "staging"}, "cluster_context", "staging"),
        ({"kube_config": KUBECONFIG}, "kube_config", KUBECONFIG),
        ({"kube_config": json.dumps(KUBECONFIG)}, "kube_config", KUBECONFIG),
        ({"kube_config": "users: []"}, "kube_config", {"users": []}),
    ],
)
def test_fields_of_airflow_are_read(define: Define, extra: dict[str, object], name: str, value: object) -> None:
    assert define(**extra).fields()[name] == value


@pytest.mark.parametrize("text", ["hush: [", "hush", "- hush", "2013-02-30", "9" * 5000, "[" * 2000])
def test_text_that_is_no_kubeconfig_is_refused_and_not_repeated(define: Define, text: str) -> None:
    with pytest.raises(AddressError, match="extra kube_config is not a kubeconfig in JSON or YAML") as caught:
        define(kube_config=text).fields()
    assert "hush" not in str(caught.value)


def test_secrets_of_a_kubeconfig_are_masked_in_the_logs(define: Define) -> None:
    define(kube_config=json.dumps(KUBECONFIG)).fields()
    assert redact("with quiet-token and quiet-private") == "with *** and ***"
