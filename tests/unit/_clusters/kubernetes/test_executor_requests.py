"""The comparison of the first executor pod with the calculated request."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.driver.manifests import driver_manifests
from airflow_adaptive._clusters.kubernetes.driver.names import EXECUTOR_REQUEST
from airflow_adaptive._clusters.kubernetes.executor_requests import request_difference, to_annotation
from airflow_adaptive._core.ports import MIB, DriverSubmission, Resources

PLANNED = to_annotation(Resources(1000, 1408 * MIB))


def driver(annotation: str | None = PLANNED) -> dict[str, Any]:
    annotations = {} if annotation is None else {EXECUTOR_REQUEST: annotation}
    return {"metadata": {"name": "copy-1-abc", "annotations": annotations}}


def pod(memory: str = "1408Mi") -> dict[str, Any]:
    requests = {"cpu": "1", "memory": memory}
    container = {"name": "spark", "resources": {"requests": requests}}
    return {"metadata": {"name": "copy-1-abc-exec-1"}, "spec": {"containers": [container]}}


def test_another_request_of_the_first_executor_is_named() -> None:
    found = request_difference(driver(), [pod("2Gi"), pod()])
    assert found.startswith(
        "an executor requests 1,000m CPU and 2,048 MiB, but the job calculates with 1,000m CPU and 1,408 MiB"
    )


def test_the_same_request_is_no_difference() -> None:
    assert request_difference(driver(), [pod()]) == ""


@pytest.mark.parametrize("annotation", [None, "changed", "[1]", "[1, 2, 3, 4, 5]"])
def test_a_driver_without_a_valid_annotation_is_not_compared(annotation: str | None) -> None:
    assert request_difference(driver(annotation), [pod("2Gi")]) == ""


def test_a_driver_without_executors_is_not_compared() -> None:
    assert request_difference(driver(), []) == ""


def test_a_driver_has_the_calculated_request() -> None:
    conf = {"spark.kubernetes.container.image": "spark:4", "spark.executor.memoryOverhead": "300m"}
    submission = DriverSubmission(
        name="copy", epoch=1, nonce="n", script="/run.py", conf=conf, executor_cores=2, executor_memory_mb=700
    )
    annotations = driver_manifests(submission, KubernetesAddress(server="https://api")).pod["metadata"]["annotations"]
    assert annotations[EXECUTOR_REQUEST] == to_annotation(planned_executor(conf, 2, 700))
    assert annotations[EXECUTOR_REQUEST] == to_annotation(Resources(2000, 1000 * MIB))
