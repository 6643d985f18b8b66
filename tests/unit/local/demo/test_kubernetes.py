"""The namespace of the demo on Kubernetes: its objects, its quota and its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_adaptive.local.demo import kubernetes
from airflow_adaptive.local.demo.cluster import DemoEnvironmentError, KubernetesOptions
from airflow_adaptive.local.demo.kubernetes import RULES, KubernetesDemo
from tests.support.repository import ROOT


class FakeApi:
    """An API server that stores objects by their path. A deleted object is gone at the second request."""

    server = "https://127.0.0.1:6443"

    def __init__(self, kubeconfigs: Sequence[Path], context: str) -> None:
        self.kubeconfig = kubeconfigs[0]
        self.objects: dict[str, Mapping[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.refused: str | None = None

    def get(self, path: str) -> Mapping[str, Any] | None:
        collection, _, selector = path.partition("?labelSelector=spark-role%3D")
        if selector:
            assert collection.endswith("/pods")
            return {"items": [pod for pod in self.pods if pod["role"] == selector]}
        return self.objects.pop(path, None) if path in self.deleted else self.objects.get(path)

    def create(self, path: str, manifest: Mapping[str, Any]) -> None:
        if self.refused == manifest["kind"]:
            raise DemoEnvironmentError("forbidden")
        self.objects[f"{path}/{manifest['metadata']['name']}"] = manifest

    def replace(self, path: str, manifest: Mapping[str, Any]) -> None:
        assert path in self.objects
        self.objects[path] = manifest

    def delete(self, path: str) -> None:
        self.deleted.append(path)


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KubernetesDemo:
    monkeypatch.setattr(kubernetes, "DemoKubernetesApi", FakeApi)
    options = KubernetesOptions(
        kubeconfigs=[Path("/kubeconfig")], context="kind", image="spark:4", conf={"spark.a": "b"}
    )
    return KubernetesDemo(options, tmp_path)


def api(demo: KubernetesDemo) -> FakeApi:
    found: Any = demo._api
    assert isinstance(found, FakeApi)
    return found


def pods_allowed(demo: KubernetesDemo) -> str:
    (quota,) = [item for item in api(demo).objects.values() if item["kind"] == "ResourceQuota"]
    return str(quota["spec"]["hard"]["pods"])


def test_a_namespace_without_slots_is_created_and_deleted(demo: KubernetesDemo) -> None:
    with demo:
        kinds = [item["kind"] for item in api(demo).objects.values()]
        assert kinds == ["Namespace", "ServiceAccount", "Role", "RoleBinding", "ResourceQuota"]
        assert pods_allowed(demo) == "0"
        (namespace,) = [path for path, item in api(demo).objects.items() if item["kind"] == "Namespace"]
        assert f"namespace {namespace.rpartition('/')[2]} of https://127.0.0.1:6443" in demo.description
    assert api(demo).deleted == [namespace]
    assert namespace not in api(demo).objects


def test_a_namespace_whose_objects_are_refused_is_deleted(demo: KubernetesDemo) -> None:
    api(demo).refused = "Role"
    with pytest.raises(DemoEnvironmentError, match="forbidden"), demo:
        raise AssertionError("the demo must not begin")
    assert [path.rpartition("/")[0] for path in api(demo).deleted] == ["/api/v1/namespaces"]


def test_the_changes_give_and_take_slots_and_delete_the_newest_pods(demo: KubernetesDemo) -> None:
    api(demo).pods = [
        {"role": role, "metadata": {"name": f"{role}-{second}", "creationTimestamp": f"2026-01-01T00:00:0{second}Z"}}
        for role in ("driver", "executor")
        for second in (2, 1)
    ]
    with demo:
        steps = []
        for change in demo.changes():
            change.apply()
            steps.append((pods_allowed(demo), change.slots, [path.rpartition("/")[2] for path in api(demo).deleted]))
        assert steps == [
            ("2", 1, []),
            ("3", 2, []),
            ("2", 1, ["executor-2"]),
            ("2", 1, ["executor-2", "driver-2"]),
        ]
        demo.add_two_slots()
        assert pods_allowed(demo) == "4"


def test_a_pod_that_does_not_exist_is_an_error(demo: KubernetesDemo) -> None:
    with demo, pytest.raises(DemoEnvironmentError, match="has no executor pod"):
        demo.changes()[2].apply()


def test_airflow_uses_the_context_and_the_properties_of_the_user(demo: KubernetesDemo) -> None:
    spark = json.loads(demo.airflow_environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert spark["host"] == "k8s://https://127.0.0.1:6443"
    assert spark["extra"]["conf"] == {"spark.a": "b"}
    credentials = json.loads(demo.airflow_environment["AIRFLOW_CONN_KUBERNETES_DEFAULT"])
    assert credentials["extra"] == {"kube_config_path": "/kubeconfig", "cluster_context": "kind"}


def test_pods_write_as_the_user_of_the_demo(
    demo: KubernetesDemo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1234)
    parameters = demo.parameters(tmp_path / "flights")
    assert parameters["image"] == "spark:4"
    template = json.loads(Path(parameters["pod_template"]).read_text())
    assert template["spec"]["securityContext"]["runAsUser"] == 1234


def test_the_account_has_the_permissions_of_the_documented_account() -> None:
    (role,) = [
        document
        for document in yaml.safe_load_all((ROOT / "docs" / "kubernetes" / "driver-account.yaml").read_text())
        if document["kind"] == "Role"
    ]
    assert role["rules"] == [*RULES]
