"""Pods of drivers and executors keep what their templates declare, and add what the runtime needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.driver.properties import (
    LAST_OUTPUT,
    executor_template,
    merged_env,
    read_template,
    spark_container,
)
from airflow_adaptive._core.ports import SubmissionRefusedError

ATTRIBUTES = [
    {"name": "SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    {"name": "SPARK_EXECUTOR_ATTRIBUTE_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
]


def template(*names: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name} for name in names], **spec}}


def test_a_job_without_a_template():
    assert read_template(None) == {}


def test_spark_selects_the_first_container_or_the_named_one():
    others = [{"name": "b"}]
    assert spark_container("driver", template("a", "b"), {}) == ({"name": "a"}, others)
    conf = {"spark.kubernetes.driver.podTemplateContainerName": "b"}
    assert spark_container("driver", template("a", "b"), conf) == ({"name": "b"}, [{"name": "a"}])
    assert spark_container("driver", {}, {}) == ({}, [])


def test_a_selected_container_must_exist():
    with pytest.raises(SubmissionRefusedError, match="has no container 'c'"):
        spark_container("driver", template("a"), {"spark.kubernetes.driver.podTemplateContainerName": "c"})


def test_own_variables_replace_given_ones_and_come_last():
    given = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]
    assert merged_env(given, [{"name": "A", "value": "2"}]) == [given[1], {"name": "A", "value": "2"}]


def test_executors_without_a_template_report_their_pod_and_their_node():
    own = {"name": "spark-kubernetes-executor", "env": ATTRIBUTES, **LAST_OUTPUT}
    assert executor_template(None, {}) == {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [own]}}


def test_a_template_of_executors_keeps_everything_else():
    given = template("a", "b", tolerations=[{"operator": "Exists"}]) | {"metadata": {"labels": {"x": "y"}}}
    merged = executor_template(json.dumps(given), {})
    assert merged["metadata"] == given["metadata"]
    assert merged["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert merged["spec"]["containers"] == [
        {"name": "a", "env": ATTRIBUTES, **LAST_OUTPUT},
        {"name": "b", **LAST_OUTPUT},
    ]


def test_the_status_of_a_failed_executor_contains_its_last_output_unless_its_template_differs():
    given = template("a", initContainers=[{"name": "i"}, {"name": "j", "terminationMessagePolicy": "File"}])
    merged = executor_template(json.dumps(given), {})
    policies = [each["terminationMessagePolicy"] for each in merged["spec"]["initContainers"]]
    assert policies == ["FallbackToLogsOnError", "File"]
