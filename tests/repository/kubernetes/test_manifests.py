"""The manifests of docs/kubernetes: each can be parsed, grants no more than is necessary, and is named by the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.driver.manifests import driver_manifests
from airflow_adaptive._core.ports import DriverSubmission
from airflow_adaptive.hooks.kubernetes import KubernetesConnectionHook
from tests.support.repository import ROOT

PAGES = [page for folder in ("guides", "reference") for page in (ROOT / "docs" / folder).rglob("*.md")]
FILES = sorted((ROOT / "docs" / "kubernetes").glob("*.yaml"))
VALUES = "airflow-values.yaml"
TEMPLATE = "restricted-pod.yaml"


def documents(file: Path) -> list[Any]:
    return [*yaml.safe_load_all(file.read_text())]


def manifests() -> list[dict[str, Any]]:
    return [document for file in FILES if file.name not in (VALUES, TEMPLATE) for document in documents(file)]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {manifest["metadata"]["name"]: manifest for manifest in manifests() if manifest["kind"] == kind}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_page_names_each_file(file: Path) -> None:
    assert any(f"kubernetes/{file.name}" in page.read_text() for page in PAGES)
    assert file.read_text().startswith("# ")


def test_all_objects_are_in_one_namespace_which_a_manifest_creates() -> None:
    namespaces = {
        manifest["metadata"].get("namespace") for manifest in manifests() if "Cluster" not in manifest["kind"]
    }
    assert namespaces - {None} == {*named("Namespace")}


def test_each_binding_names_a_role_and_accounts_that_exist() -> None:
    accounts = {*named("ServiceAccount")} | {"airflow-triggerer", "airflow-worker", "airflow-api-server"}
    for kind in ("Role", "ClusterRole"):
        for binding in named(f"{kind}Binding").values():
            assert binding["roleRef"] == {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": kind,
                "name": binding["roleRef"]["name"],
            }
            assert binding["roleRef"]["name"] in named(kind)
            assert {subject["name"] for subject in binding["subjects"]} <= accounts


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_no_role_has_a_wildcard(kind: str) -> None:
    rules = [rule for role in named(kind).values() for rule in role["rules"]]
    assert all("*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]] for rule in rules)


def test_no_account_can_read_or_change_secrets() -> None:
    verbs = {
        verb
        for kind in ("Role", "ClusterRole")
        for role in named(kind).values()
        for rule in role["rules"]
        if "secrets" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert verbs == {"create", "delete"}


def test_cluster_role_only_lists() -> None:
    assert [rule["verbs"] for role in named("ClusterRole").values() for rule in role["rules"]] == [["list"]]


def test_service_of_the_spark_ui_selects_the_driver_of_its_job() -> None:
    submission = DriverSubmission(
        name="departures", epoch=1, nonce="n", script="/jobs/run.py", conf={"spark.kubernetes.container.image": "spark"}
    )
    labels = driver_manifests(submission, KubernetesAddress(server="https://api")).pod["metadata"]["labels"]
    (service,) = named("Service").values()
    assert service["spec"]["selector"].items() <= labels.items()
    (ingress,) = named("Ingress").values()
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    (port,) = service["spec"]["ports"]
    assert path["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": port["name"]}}
    assert port["targetPort"] == 4040


def test_connections_of_the_helm_values_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    (values,) = documents(ROOT / "docs" / "kubernetes" / VALUES)
    for variable in values["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    address = ConnectionIds("spark_default").address()
    assert isinstance(address, KubernetesAddress)
    assert address.namespace in named("Namespace")
    assert KubernetesConnectionHook("kubernetes_default").fields()["in_cluster"]
    accounts = {values[component]["serviceAccount"]["name"] for component in ("triggerer", "workers")}
    binding = named("RoleBinding")["airflow-adaptive-in-cluster"]
    assert accounts == {subject["name"] for subject in binding["subjects"]}
    (reader,) = named("RoleBinding")["airflow-adaptive-logs"]["subjects"]
    assert values["apiServer"]["serviceAccount"]["name"] == reader["name"]
    assert {verb for rule in named("Role")["airflow-adaptive-logs"]["rules"] for verb in rule["verbs"]} == {
        "get",
        "list",
        "watch",
    }


def test_the_pod_template_is_valid_for_drivers_and_executors() -> None:
    template = str(ROOT / "docs" / "kubernetes" / TEMPLATE)
    parameters = KubernetesParameters(driver_pod_template=template, executor_pod_template=template)
    assert [*parameters.violations({}, {}, with_image=False)] == []
