"""Parameters of Kubernetes: their Spark properties, their pod templates, and their violations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes.client import V1LocalObjectReference, V1Toleration

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters

IMAGE = {"spark.kubernetes.container.image": "spark:4.2"}
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
