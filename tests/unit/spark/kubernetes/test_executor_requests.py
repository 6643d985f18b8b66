"""The comparison of the first executor pod with the calculated request."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive.ports import MIB, DriverSubmission, Resources
from airflow_adaptive.spark.kubernetes import executor_requests
from airflow_adaptive.spark.kubernetes.address import KubernetesAddress
from airflow_adaptive.spark.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive.spark.kubernetes.driver.manifests import driver_manifests
from airflow_adaptive.spark.kubernetes.driver.names import EXECUTOR_REQUEST
from airflow_adaptive.spark.kubernetes.executor_requests import ExecutorRequests, to_annotation

PLANNED = to_annotation(Resources(1000, 1408 * MIB))


def driver(uid: str = "u1", annotation: str | None = PLANNED) -> dict[str, Any]:
    annotations = {} if annotation is None else {EXECUTOR_REQUEST: annotation}
    return {"metadata": {"name": "copy-1-abc", "uid": uid, "annotations": annotations}}


def pod(memory: str = "1408Mi", application: str = "copy-1-abc", role: str = "executor") -> dict[str, Any]:
    labels = {"spark-role": role, "spark-app-selector": application}
    requests = {"cpu": "1", "memory": memory}
    container = {"name": "spark", "resources": {"requests": requests}}
    return {"metadata": {"name": "copy-1-abc-exec-1", "labels": labels}, "spec": {"containers": [container]}}


def test_another_request_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    requests = ExecutorRequests()
    for _ in range(2):
        requests.compare(driver(), [pod(role="driver"), pod("9Gi", "other"), pod("2Gi")])
    [message] = caplog.messages
    assert (
        "Executor copy-1-abc-exec-1 requests 1,000m CPU and 2,048 MiB, but the job calculates with 1,000m CPU and 1,408 MiB"
        in message
    )


def test_the_same_request_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    ExecutorRequests().compare(driver(), [pod()])
    assert caplog.messages == []


@pytest.mark.parametrize("annotation", [None, "changed", "[1]", "[1, 2, 3, 4, 5]"])
def test_a_driver_without_the_annotation_is_not_compared(
    annotation: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    ExecutorRequests().compare(driver(annotation=annotation), [pod("2Gi")])
    assert [message for message in caplog.messages if "calculates" in message and annotation is None] == []


def test_the_comparison_waits_for_the_first_executor(caplog: pytest.LogCaptureFixture) -> None:
    requests = ExecutorRequests()
    requests.compare(driver(), [])
    requests.compare(driver(), [pod("2Gi")])
    assert len(caplog.messages) == 1


def test_only_the_newest_drivers_are_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor_requests, "MOST_DRIVERS", 1)
    requests = ExecutorRequests()
    for uid in ("u1", "u2", "u1"):
        requests.compare(driver(uid), [pod("2Gi")])
    assert len(caplog.messages) == 3


def test_a_driver_has_the_calculated_request() -> None:
    conf = {"spark.kubernetes.container.image": "spark:4", "spark.executor.memoryOverhead": "300m"}
    submission = DriverSubmission(
        name="copy", epoch=1, nonce="n", script="/run.py", conf=conf, executor_cores=2, executor_memory_mb=700
    )
    annotations = driver_manifests(submission, KubernetesAddress(server="https://api")).pod["metadata"]["annotations"]
    assert annotations[EXECUTOR_REQUEST] == to_annotation(planned_executor(conf, 2, 700))
    assert annotations[EXECUTOR_REQUEST] == to_annotation(Resources(2000, 1000 * MIB))
