"""Pod templates, as mappings and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration.kubernetes import TemplateError, read_template, secret_variables

TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "spark"}]}}


def container(**fields: object) -> dict[str, Any]:
    """Return a template of one container."""
    return {"spec": {"containers": [{"name": "spark", **fields}]}}


def affinity(required: object) -> dict[str, Any]:
    """Return a template with a required node affinity."""
    return {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}}


@pytest.mark.parametrize(
    "template", [TEMPLATE, {}, {"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": "Never"}}]
)
def test_valid_template_is_returned(template: dict[str, Any]) -> None:
    assert read_template("driver_pod_template", template) == template


def test_template_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "driver.yaml"
    file.write_text("kind: Pod\nspec:\n  containers:\n  - name: spark\n")
    assert read_template("driver_pod_template", str(file)) == {
        "kind": "Pod",
        "spec": {"containers": [{"name": "spark"}]},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read where Airflow runs (No such file or directory)"),
        ("a: [", "does not contain one YAML document"),
        ("kind: Pod\n---\nkind: Pod\n", "does not contain one YAML document"),
        ("", "is not a pod template"),
        ("text", "is not a pod template"),
    ],
)
def test_file_without_a_template_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "driver.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TemplateError, match="^driver_pod_template ") as caught:
        read_template("driver_pod_template", str(file))
    assert message in str(caught.value)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", None])
def test_restart_policy_other_than_never_is_refused(policy: str | None) -> None:
    """A container that the kubelet starts again would be a second driver."""
    with pytest.raises(TemplateError, match="has spec.restartPolicy .*: use 'Never', because the scheduler restarts"):
        read_template("driver_pod_template", {"spec": {"restartPolicy": policy}})


@pytest.mark.parametrize("field", ["restartPolicy", "restartPolicyRules"])
def test_container_that_the_kubelet_restarts_is_refused(field: str) -> None:
    container = {"name": "spark", field: "Always"}
    with pytest.raises(TemplateError, match="has restartPolicy or restartPolicyRules in spec.containers: remove it"):
        read_template("driver_pod_template", {"spec": {"containers": [container]}})
    assert read_template("driver_pod_template", {"spec": {"initContainers": [container]}})


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"kind": "Deployment"}, "has kind 'Deployment': use 'Pod'"),
        ({"apiVersion": "apps/v1"}, "has apiVersion 'apps/v1': use 'v1'"),
        (
            {"containers": []},
            "has unknown fields containers: a pod template has the fields apiVersion, kind, metadata, spec",
        ),
        ({"spec": []}, None),
        ({"spec": ["x"]}, "has spec that is not a mapping"),
        ({"metadata": "x"}, "has metadata that is not a mapping"),
        ({"spec": {"containers": {}}}, None),
        ({"spec": {"containers": {"name": "spark"}}}, "has spec.containers that is not a list of mappings"),
        ({"spec": {"volumes": ["x"]}}, "has spec.volumes that is not a list of mappings"),
        ({"spec": {"tolerations": "x"}}, "has spec.tolerations that is not a list of mappings"),
        ({"spec": {"imagePullSecrets": ["x"]}}, "has spec.imagePullSecrets that is not a list of mappings"),
        ({"spec": {"initContainers": [{"image": "x"}]}}, "has spec.initContainers without name"),
        ({"metadata": {"labels": ["team=a"]}}, "has metadata.labels that is not a mapping"),
        (
            {"metadata": {"annotations": {"a": 1}}},
            r"has metadata.annotations\['a'\] that is not text: write it in quotes",
        ),
        (container(env={"A": "b"}), r"has spec.containers\[0\].env that is not a list of mappings"),
        (container(env=[{"value": "b"}]), r"has spec.containers\[0\].env without name"),
        (container(env=[{"name": "A", "value": 1}]), r"has spec.containers\[0\].env\[0\].value that is not text"),
        (container(volumeMounts=[{"name": "v"}]), r"has spec.containers\[0\].volumeMounts without name and mountPath"),
        (container(resources=["x"]), r"has spec.containers\[0\].resources that is not a mapping"),
        (
            container(resources={"requests": ["x"]}),
            r"has spec.containers\[0\].resources.requests that is not a mapping",
        ),
        (container(resources={"limits": {"cpu": "x"}}), r"limits\['cpu'\] that is not a quantity such as 500m or 1Gi"),
        (container(resources={"limits": {"memory": True}}), r"limits\['memory'\] that is not a quantity"),
        (container(image=["x"]), r"has spec.containers\[0\].image that is not text"),
        (container(args="x"), r"has spec.containers\[0\].args that is not a list of text"),
        ({"spec": {"nodeSelector": "x"}}, "has spec.nodeSelector that is not a mapping"),
        ({"spec": {"overhead": [1]}}, "has spec.overhead that is not a mapping"),
        ({"spec": {"affinity": ["x"]}}, "has spec.affinity that is not a mapping"),
        (
            affinity(["x"]),
            "has spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution that is not a mapping",
        ),
        (affinity({"nodeSelectorTerms": ["x"]}), "nodeSelectorTerms that is not a list of mappings"),
        (
            affinity({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a"}]}]}),
            r"nodeSelectorTerms\[0\].matchExpressions without key and operator",
        ),
        (
            affinity({"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "Is"}]}]}),
            "operator that is not one of In, NotIn, Exists, DoesNotExist, Gt and Lt",
        ),
        ({"spec": {"activeDeadlineSeconds": "soon"}}, "has spec.activeDeadlineSeconds that is not a whole number"),
    ],
)
def test_template_that_is_no_pod_is_refused(template: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert read_template("t", template) == template
        return
    with pytest.raises(TemplateError, match=f"^t .*{message}") as caught:
        read_template("t", template)
    assert len(caught.value.violations) == 1


@pytest.mark.parametrize("quantity", ["500m", "0.5", "1", "1Gi", "512Mi", "1e3", "1.5G", ".5", 2, 0.5])
def test_quantity_of_kubernetes_is_accepted(quantity: object) -> None:
    template = container(resources={"requests": {"cpu": quantity}})
    assert read_template("t", template) == template


def test_affinity_and_tolerations_are_accepted() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    template = affinity({"nodeSelectorTerms": [term]})
    template["spec"]["tolerations"] = [{"key": "spark", "operator": "Exists"}]
    assert read_template("t", template) == template


def test_all_violations_are_reported() -> None:
    with pytest.raises(TemplateError) as caught:
        read_template("t", {"kind": "Job", "spec": {"restartPolicy": "Always", "volumes": 1}})
    assert len(caught.value.violations) == 3


def test_variables_with_secret_values_are_found() -> None:
    env = [
        {"name": "DB_PASSWORD", "value": "hush"},
        {"name": "API_TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
        {"name": "LEVEL", "value": "INFO"},
    ]
    spec = {"containers": [{"name": "spark", "env": env}], "initContainers": [{"name": "i", "env": env}]}
    assert [*secret_variables({"spec": spec})] == ["DB_PASSWORD", "DB_PASSWORD"]
