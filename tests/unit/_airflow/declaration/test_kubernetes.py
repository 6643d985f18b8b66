"""Kubernetes parameters and pod templates: what a cluster would refuse is reported before, and the rest reaches Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import V1LocalObjectReference, V1Toleration

from airflow_adaptive._airflow.declaration.kubernetes import (
    KubernetesParameters,
    TemplateError,
    read_template,
    secret_variables,
)

IMAGE = {"spark.kubernetes.container.image": "spark:4.2"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TOLERATION = {"key": "dedicated", "operator": "Exists"}


def violations(**parameters: Any) -> list[str]:
    return [*KubernetesParameters(**parameters).violations({}, IMAGE)]


def test_parameters_become_properties_of_spark() -> None:
    parameters = KubernetesParameters(
        image="spark:4.2",
        service_account_name="driver",
        node_selector={"pool": "spark"},
        labels={"team": "a"},
        annotations={"example.com/note": "b"},
    )
    assert parameters.conf() == {
        "spark.kubernetes.container.image": "spark:4.2",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "driver",
        "spark.kubernetes.node.selector.pool": "spark",
        "spark.kubernetes.driver.label.team": "a",
        "spark.kubernetes.executor.label.team": "a",
        "spark.kubernetes.driver.annotation.example.com/note": "b",
        "spark.kubernetes.executor.annotation.example.com/note": "b",
    }
    assert parameters.given == ("image", "service_account_name", "node_selector", "labels", "annotations")


def test_job_without_parameters_has_no_properties_and_no_templates() -> None:
    parameters = KubernetesParameters()
    assert (parameters.conf(), parameters.given) == ({}, ())
    assert (parameters.driver_template(), parameters.executor_template()) == (None, None)


def test_parameters_without_a_property_are_added_to_both_templates() -> None:
    own = {"spec": {"tolerations": [{"key": "own"}], "imagePullSecrets": [{"name": "own"}]}}
    parameters = KubernetesParameters(
        driver_pod_template=own,
        tolerations=[TOLERATION],
        priority_class_name="high",
        image_pull_secrets=["registry", {"name": "other"}],
    )
    pull, tolerations = [{"name": "registry"}, {"name": "other"}], [TOLERATION]
    driver, executor = (
        json.loads(text or "") for text in (parameters.driver_template(), parameters.executor_template())
    )
    assert executor == {"spec": {"tolerations": tolerations, "imagePullSecrets": pull, "priorityClassName": "high"}}
    assert driver["spec"]["tolerations"] == [{"key": "own"}, *tolerations]
    assert driver["spec"]["imagePullSecrets"] == [{"name": "own"}, *pull]
    assert own["spec"]["tolerations"] == [{"key": "own"}]


def test_driver_and_not_the_executors_avoids_each_spot_node() -> None:
    parameters = KubernetesParameters(spot_nodes={"lifecycle": "spot", "example.com/capacity": "SPOT"})
    spot = [
        {"key": "lifecycle", "operator": "NotIn", "values": ["spot"]},
        {"key": "example.com/capacity", "operator": "NotIn", "values": ["SPOT"]},
    ]
    assert terms(parameters) == [{"matchExpressions": spot}]
    assert parameters.executor_template() is None
    zone, name = (
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
    )
    own = {"nodeSelectorTerms": [{"matchExpressions": [zone]}, name]}
    node = {"preferredDuringSchedulingIgnoredDuringExecution": [], REQUIRED: own}
    template = {"spec": {"affinity": {"podAffinity": {}, "nodeAffinity": node}}}
    both = replace(parameters, driver_pod_template=template)
    assert terms(both) == [{"matchExpressions": [zone, *spot]}, {**name, "matchExpressions": spot}]
    assert own["nodeSelectorTerms"] == [{"matchExpressions": [zone]}, name]


def terms(parameters: KubernetesParameters) -> list[dict[str, Any]]:
    """Terms of the required node affinity of the driver."""
    affinity = json.loads(parameters.driver_template() or "")["spec"]["affinity"]
    found: list[dict[str, Any]] = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def test_objects_of_the_kubernetes_client_are_accepted() -> None:
    parameters = KubernetesParameters(
        tolerations=[V1Toleration(key="a", operator="Exists", toleration_seconds=5)],
        image_pull_secrets=[V1LocalObjectReference(name="registry")],
    )
    assert violations(tolerations=parameters.tolerations, image_pull_secrets=parameters.image_pull_secrets) == []
    assert json.loads(parameters.executor_template() or "")["spec"] == {
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
        "imagePullSecrets": [{"name": "registry"}],
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"labels": {"team/a/b": "x"}}, "labels: 'team/a/b' is not a valid key of Kubernetes"),
        ({"labels": {"": "x"}}, "labels: '' is not a valid key of Kubernetes"),
        ({"labels": {"a" * 64: "x"}}, "is not a valid key of Kubernetes"),
        ({"labels": {"team": "with space"}}, "labels: the value 'with space' of 'team' is not valid: use at most 63"),
        ({"labels": {"team": "a" * 64}}, "is not valid: use at most 63"),
        ({"labels": {"spark-role": "driver"}}, "labels: 'spark-role' is reserved: leave it out"),
        ({"labels": {"airflow-adaptive/job": "x"}}, "labels: 'airflow-adaptive/job' is reserved: leave it out"),
        ({"node_selector": {"-pool": "x"}}, "node_selector: '-pool' is not a valid key of Kubernetes"),
        ({"spot_nodes": "spot"}, "spot_nodes must be a mapping, as {'name': 'value'}"),
        (
            {"spot_nodes": {"spot": True}},
            "spot_nodes['spot'] must be text, such as 'true': no label has the value True",
        ),
        ({"annotations": {"Example.com/a": "x"}}, "annotations: 'Example.com/a' is not a valid key of Kubernetes"),
        ({"labels": ["x"]}, "labels must be a mapping, as {'name': 'value'}"),
        ({"tolerations": "x"}, "tolerations must be a list"),
        ({"tolerations": ["x"]}, "tolerations: 'x' is not a mapping, for example"),
        ({"tolerations": 5}, "tolerations must be a list"),
        ({"image_pull_secrets": "registry"}, "image_pull_secrets must be a list"),
        ({"image_pull_secrets": [{"secret": "x"}]}, "image_pull_secrets: {'secret': 'x'} is not the name of a Secret"),
        (
            {"service_account_name": "Driver"},
            "service_account_name 'Driver' is not the name of an object of Kubernetes",
        ),
        ({"priority_class_name": 5}, "priority_class_name 5 must be text"),
        (
            {"driver_pod_template": "/nowhere.yaml"},
            "driver_pod_template '/nowhere.yaml' cannot be read where Airflow runs",
        ),
        ({"executor_pod_template": {"kind": "Job"}}, "executor_pod_template has kind 'Job': use 'Pod'"),
        ({"executor_pod_template": 5}, "executor_pod_template is not a pod template"),
        (
            {"priority_class_name": "high", "driver_pod_template": {"spec": {"priorityClassName": "low"}}},
            "priority_class_name 'high' contradicts 'low' in driver_pod_template: leave one of them out",
        ),
    ],
)
def test_invalid_parameter_is_named(parameters: dict[str, Any], message: str) -> None:
    (violation,) = violations(**parameters)
    assert message in violation


@pytest.mark.parametrize(
    "parameters",
    [
        {"labels": {"example.com/team": "a_b.c-1", "x": ""}},
        {"labels": {"Z" * 63: "A" + "Z_.-" * 15 + "A9", "example.com/Y": "Z"}},
        {"annotations": {"note": "any text, of any length"}},
        {"node_selector": {"kubernetes.io/arch": "amd64"}},
        {"tolerations": [TOLERATION], "image_pull_secrets": ("registry.example",)},
        {"priority_class_name": "high", "driver_pod_template": {"spec": {"priorityClassName": "high"}}},
    ],
)
def test_valid_parameters_are_accepted(parameters: dict[str, Any]) -> None:
    assert violations(**parameters) == []


def test_secret_in_a_template_is_named_and_not_displayed() -> None:
    container = {"name": "spark", "env": [{"name": "DB_PASSWORD", "value": "hush"}]}
    (violation,) = violations(driver_pod_template={"spec": {"containers": [container]}})
    assert "the secret value of the variable 'DB_PASSWORD' in clear text" in violation
    assert "hush" not in violation


def test_all_violations_are_reported() -> None:
    assert (
        len(violations(labels={"spark-role": "x"}, driver_pod_template={"kind": "Job"}, service_account_name="A")) == 3
    )


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


def test_all_violations_of_a_template_are_reported() -> None:
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
