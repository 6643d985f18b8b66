"""The drivers and executors among pods that others have created, and executors with another request than the calculated one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.driver.manifests import driver_manifests
from airflow_adaptive._clusters.kubernetes.driver.status import driver_status
from airflow_adaptive._clusters.kubernetes.job_pods import (
    driver_identity,
    job_pods,
    kept,
    request_difference,
)
from airflow_adaptive._clusters.kubernetes.names import EXECUTOR_REQUEST, to_annotation
from airflow_adaptive._core.ports import MIB, DriverSubmission, Resources
from tests.support.kubernetes.client.pods import DRIVER, driver_pod, executor_pod


def changed(pod: dict[str, Any], part: str, **values: Any) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], part: {**pod["metadata"].get(part, {}), **values}}}


def labelled(pod: dict[str, Any], **labels: str) -> dict[str, Any]:
    return changed(pod, "labels", **labels)


def test_executors_belong_to_the_driver_that_owns_them() -> None:
    pods = [driver_pod(), executor_pod(1, cores="2"), executor_pod(2, node="node-2"), executor_pod(3, node=None)]
    [driver] = job_pods(pods).drivers.values()
    assert driver.identity == DRIVER
    assert (driver.total_cores(with_node=True), driver.total_cores(with_node=False)) == (3, 1)
    assert driver.workers(str.upper) == {"1": "NODE-1", "2": "NODE-2"}
    assert not job_pods(pods).ignored


def test_an_executor_that_does_not_state_its_cores_has_one() -> None:
    executor = executor_pod(1)
    executor["spec"]["containers"] = [{"name": "sidecar"}, {"name": "executor"}]
    assert job_pods([driver_pod(), executor]).drivers["driver"].cores == {"1": 1}


def test_executors_that_have_ended_or_are_being_deleted_do_not_count() -> None:
    deleted = executor_pod(2)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = job_pods([driver_pod(), executor_pod(1, {"terminated": {"exitCode": 1}}), deleted])
    assert (found.drivers["driver"].executors, found.ignored) == ({}, {})


FOREIGN_DRIVERS = {
    "without an epoch": {"airflow-adaptive/epoch": ""},
    "with a word as its epoch": {"airflow-adaptive/epoch": "latest"},
    "with another epoch": {"airflow-adaptive/epoch": "2"},
    "with the number of a hostile user": {"airflow-adaptive/epoch": "9" * 63},
    "of another manager": {"app.kubernetes.io/managed-by": "Helm"},
    "without a role": {"spark-role": ""},
}


@pytest.mark.parametrize("labels", FOREIGN_DRIVERS.values(), ids=FOREIGN_DRIVERS.keys())
def test_a_pod_with_labels_of_a_driver_is_no_driver(labels: dict[str, str]) -> None:
    found = job_pods([labelled(driver_pod(), **labels)])
    assert (found.drivers, [*found.ignored]) == ({}, ["driver"])


@pytest.mark.parametrize("annotations", [{"airflow-adaptive/job": "other"}, {"airflow-adaptive/nonce": "other"}])
def test_the_name_of_a_driver_follows_from_its_job_and_its_nonce(annotations: dict[str, str]) -> None:
    assert driver_identity(driver_pod()) == DRIVER
    assert driver_identity(changed(driver_pod(), "annotations", **annotations)) is None
    assert driver_identity({"metadata": {"name": "x", "uid": "1"}}) is None


FOREIGN_EXECUTORS = {
    "no driver owns it": executor_pod("debug", owner=None),
    "its id is a word": executor_pod("debug"),
    "its id is empty": labelled(executor_pod(1), **{"spark-exec-id": ""}),
    "its cores are a reference": executor_pod(1, cores="$(X)"),
    "its cores are empty": executor_pod(1, cores=""),
    "its cores are a number of a hostile user": executor_pod(1, cores="9" * 5000),
}


@pytest.mark.parametrize("pod", FOREIGN_EXECUTORS.values(), ids=FOREIGN_EXECUTORS.keys())
def test_a_pod_with_labels_of_an_executor_is_no_executor(pod: dict[str, Any]) -> None:
    found = job_pods([driver_pod(), pod])
    assert (found.drivers["driver"].executors, [*found.ignored]) == ({}, [pod["metadata"]["uid"]])


def test_an_executor_whose_driver_is_gone_is_not_unusual() -> None:
    found = job_pods([driver_pod(), executor_pod(1, owner="gone")])
    assert (found.drivers["driver"].executors, found.ignored) == ({}, {})


def test_the_kept_part_of_a_pod_has_the_same_meaning() -> None:
    ended = driver_pod({"terminated": {"exitCode": 1, "reason": "OOMKilled", "message": "killed"}})
    ended["metadata"] |= {"managedFields": [{"fieldsV1": {"f": "x" * 10_000}}], "deletionTimestamp": "now"}
    ended["metadata"]["annotations"] |= {"spark.exit-exception": "no flights", "other": "x" * 10_000}
    ended["metadata"]["labels"]["other"] = "x"
    ended["spec"] |= {"initContainers": [{"name": "i", "image": "y" * 10_000}], "volumes": [{"name": "x" * 10_000}]}
    ended["spec"]["tolerations"] = [{"key": "pool", "operator": "Exists"}]
    ended["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 60}}}
    assert driver_status(kept(ended)) == driver_status(ended)
    assert driver_status(ended).leaves
    assert [*job_pods([kept(ended)]).drivers] == ["driver"]
    assert len(json.dumps(kept(ended))) < 1000
    executor = executor_pod(1)
    executor["spec"]["tolerations"] = ended["spec"]["tolerations"]
    assert "tolerations" not in kept(executor)["spec"]
    pods = [driver_pod(), executor, executor_pod(2, node=None)]
    assert job_pods(map(kept, pods)).drivers["driver"].cores == {"1": 1, "2": 1}


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
