"""Only a `terminated` state of the driver's container proves the end of a driver."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.driver.status import CONTAINER, driver_status
from airflow_adaptive._core.ports import SubmissionState

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def pod(state: dict[str, Any] | None = None, phase: str = "Running", **parts: Any) -> dict[str, Any]:
    statuses = [] if state is None else [{"name": CONTAINER, "state": state}]
    return {
        "metadata": {"name": "p", **parts.pop("metadata", {})},
        "spec": {"nodeName": "node-1", **parts.pop("spec", {})},
        "status": {"phase": phase, "containerStatuses": statuses, **parts},
    }


def terminated(code: int, **parts: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **parts}}


def test_a_running_driver_names_its_node():
    status = driver_status(pod(RUNNING))
    assert (status.state, status.message, status.worker_address) == (SubmissionState.RUNNING, "", "node-1")


def test_exit_code_0_is_a_finished_driver():
    assert driver_status(pod(terminated(0), "Succeeded")).state is SubmissionState.FINISHED
    assert driver_status(pod(terminated(0), "Succeeded"), is_killed=True).state is SubmissionState.FINISHED


def test_a_killed_driver_is_killed():
    assert driver_status(pod(terminated(143), "Failed"), is_killed=True).state is SubmissionState.KILLED


def test_another_exit_code_is_a_failed_driver_with_its_exception():
    annotations = {"spark.exit-exception": "java.lang.IllegalStateException:\n\tno flights"}
    status = driver_status(pod(terminated(1, reason="Error"), "Failed", metadata={"annotations": annotations}))
    assert (status.state, status.message) == (
        SubmissionState.FAILED,
        "exit code 1: java.lang.IllegalStateException: no flights",
    )


def test_too_little_memory_is_named_with_its_fix():
    status = driver_status(pod(terminated(137, reason="OOMKilled"), "Failed"))
    assert status.state is SubmissionState.FAILED
    assert "raise spark.driver.memoryOverhead" in status.message


def test_a_deletion_by_others_is_named():
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    status = driver_status(pod(terminated(143, reason="Error"), metadata=metadata))
    assert (status.state, status.message) == (SubmissionState.FAILED, "exit code 143: driver pod p was deleted")


EVICTION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
LOST = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]


@pytest.mark.parametrize(
    ("object_", "message"),
    [
        (
            pod(terminated(143), metadata={"deletionTimestamp": "2026"}, conditions=[EVICTION]),
            "exit code 143: driver pod p was deleted (EvictionByEvictionAPI: evicting)",
        ),
        (
            pod(terminated(137), "Failed", reason="Evicted", message="The node was low\non memory."),
            "exit code 137: driver pod p was ended (Evicted: The node was low on memory.)",
        ),
        (
            pod(RUNNING, metadata={"deletionTimestamp": "2026"}, conditions=[*LOST, EVICTION]),
            "driver pod p is being deleted (EvictionByEvictionAPI: evicting; its node node-1 is not ready)",
        ),
    ],
    ids=["drained", "evicted by the kubelet", "on a lost node"],
)
def test_the_end_of_a_pod_names_the_disruption(object_: dict[str, Any], message: str):
    assert driver_status(object_).message == message


DELETED = {"deletionTimestamp": "2026"}


@pytest.mark.parametrize(
    ("object_", "ended_by"),
    [
        (pod(RUNNING), ""),
        (pod(terminated(1)), ""),
        (pod(RUNNING, metadata=DELETED), "driver pod p is being deleted"),
        (pod(terminated(143), metadata=DELETED), "driver pod p was deleted"),
        (pod(RUNNING, conditions=[EVICTION]), "driver pod p is being ended (EvictionByEvictionAPI: evicting)"),
        (pod(None, "Failed", reason="DeadlineExceeded"), "driver pod p was ended (DeadlineExceeded)"),
        (pod(RUNNING, conditions=LOST), ""),
    ],
    ids=["runs", "ended by itself", "is deleted", "was deleted", "is evicted", "deadline", "its node is lost"],
)
def test_who_ends_a_driver_is_known_if_kubernetes_reports_it(object_: dict[str, Any], ended_by: str):
    assert driver_status(object_).ended_by == ended_by
    assert driver_status(object_, is_killed=True).ended_by == ""


def test_a_terminated_container_proves_the_end_also_of_a_pod_that_is_gone():
    assert driver_status(pod(terminated(0)), is_gone=True).state is SubmissionState.FINISHED


@pytest.mark.parametrize(
    ("unproven", "message"),
    [
        (pod(RUNNING, metadata={"deletionTimestamp": "2026"}), "driver pod p is being deleted"),
        (
            pod(None, "Failed", reason="NodeLost", message="node is gone"),
            "driver pod p is Failed (NodeLost: node is gone), and its node has not confirmed",
        ),
        (pod(RUNNING, "Failed"), "has not confirmed the end"),
        (pod(None, "Succeeded"), "has not confirmed the end"),
        (pod(RUNNING, "Unknown"), "has not confirmed the end"),
    ],
)
def test_nothing_else_proves_the_end(unproven: dict[str, Any], message: str):
    status = driver_status(unproven)
    assert status.state is SubmissionState.UNKNOWN
    assert message in status.message


def with_init(init: dict[str, Any], state: dict[str, Any], phase: str = "Failed", **spec: Any) -> dict[str, Any]:
    container = {"name": "wait-for-db", **spec}
    statuses = [{"name": "wait-for-db", "state": init}]
    return pod(state, phase, spec={"initContainers": [container]}, initContainerStatuses=statuses)


NOT_INITIALIZED = {"waiting": {"reason": "PodInitializing"}}


def test_an_init_container_that_failed_ends_the_driver_and_is_named():
    failed = with_init(terminated(3, reason="Error", message="no\ndatabase"), NOT_INITIALIZED)
    status = driver_status(failed)
    expected = "the init container 'wait-for-db' failed: exit code 3: no database"
    assert (status.state, status.message) == (SubmissionState.FAILED, expected)
    assert driver_status(failed, is_gone=True).state is SubmissionState.FAILED
    assert driver_status(failed, is_killed=True).state is SubmissionState.KILLED
    without_memory = with_init(terminated(137, reason="OOMKilled"), NOT_INITIALIZED)
    assert "raise the memory limit of the init container" in driver_status(without_memory).message


@pytest.mark.parametrize(
    "unproven",
    [
        with_init(terminated(3), NOT_INITIALIZED, "Pending"),
        with_init(terminated(3), NOT_INITIALIZED, restartPolicy="Always"),
        with_init(terminated(0), NOT_INITIALIZED),
        with_init(terminated(3), RUNNING),
    ],
    ids=["the kubelet may start it again", "a sidecar", "it succeeded", "the driver has started"],
)
def test_other_ends_of_init_containers_prove_nothing(unproven: dict[str, Any]):
    assert driver_status(unproven).state in (SubmissionState.SUBMITTED, SubmissionState.UNKNOWN)


def test_a_pod_that_is_gone_proves_nothing():
    status = driver_status(pod(RUNNING), is_gone=True, is_deleted=True)
    assert (status.state, status.message) == (
        SubmissionState.UNKNOWN,
        "driver pod p was deleted, and its node has not confirmed the end of the driver",
    )


def test_a_pod_that_was_deleted_without_a_node_never_ran():
    waiting = pod(None, "Pending", spec={"nodeName": None})
    assert driver_status(waiting, is_gone=True, is_deleted=True).state is SubmissionState.KILLED
    assert driver_status(waiting, is_gone=True).state is SubmissionState.UNKNOWN


def conditions(**statuses: str) -> list[dict[str, str]]:
    return [{"type": name, "status": status} for name, status in statuses.items()]


def test_a_driver_on_a_node_that_is_not_ready_may_still_run():
    status = driver_status(pod(RUNNING, conditions=conditions(Ready="False", ContainersReady="True")))
    assert (status.state, status.message) == (
        SubmissionState.UNKNOWN,
        "node node-1 is not ready: the driver may still run",
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"conditions": conditions(Ready="False", ContainersReady="False")},
        {"conditions": conditions(Ready="False", ContainersReady="True"), "spec": {"readinessGates": [{}]}},
    ],
    ids=["a sidecar is not ready", "a readiness gate is closed"],
)
def test_a_driver_that_is_not_ready_runs(parts: dict[str, Any]):
    assert driver_status(pod(RUNNING, **parts)).state is SubmissionState.RUNNING


def test_sidecars_do_not_matter():
    running = pod(terminated(0))
    running["status"]["containerStatuses"].append({"name": "proxy", "state": RUNNING})
    assert driver_status(running).state is SubmissionState.FINISHED
    ended = pod(RUNNING)
    ended["status"]["containerStatuses"].insert(0, {"name": "proxy", "state": terminated(1)})
    assert driver_status(ended).state is SubmissionState.RUNNING


@pytest.mark.parametrize(
    ("waiting", "message"),
    [
        (pod({"waiting": {"reason": "ContainerCreating"}}, "Pending"), ""),
        (pod(None, "Pending"), ""),
        (
            pod({"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "spark:9"'}}, "Pending"),
            'ImagePullBackOff: Back-off pulling image "spark:9"',
        ),
        (
            pod(
                None,
                "Pending",
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
                ],
            ),
            "Unschedulable: 0/2 nodes",
        ),
        (
            pod(
                None,
                "Pending",
                initContainerStatuses=[{"name": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            ),
            "CrashLoopBackOff",
        ),
    ],
)
def test_a_waiting_driver_has_a_reason(waiting: dict[str, Any], message: str):
    status = driver_status(waiting)
    assert (status.state, status.message) == (SubmissionState.SUBMITTED, message)


def test_a_new_pod_has_no_status():
    assert driver_status({"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}).state is (
        SubmissionState.SUBMITTED
    )


NOT_FOUND = 'failed to pull and unpack image "spark:9": docker.io/library/spark:9: not found'
DENIED = "failed to authorize: pull access denied, repository does not exist or may require authorization"


def waits(reason: str, message: str = "", name: str = CONTAINER) -> dict[str, Any]:
    status = {"name": name, "image": "spark:9", "state": {"waiting": {"reason": reason, "message": message}}}
    return {"metadata": {"name": "p-1-0f"}, "spec": {}, "status": {"phase": "Pending", "containerStatuses": [status]}}


@pytest.mark.parametrize(
    ("reason", "message", "advice"),
    [
        ("InvalidImageName", "couldn't parse image name", "correct `image`"),
        ("ErrImageNeverPull", "not present with pull policy of Never", "correct `image`"),
        ("ErrImagePull", NOT_FOUND, "correct `image`"),
        ("ErrImagePull", "dial tcp: lookup registry.invalid: no such host", "correct `image`"),
        ("ImagePullBackOff", f'Back-off pulling image "spark:9": ErrImagePull: {DENIED}', "`image_pull_secrets`"),
        ("CreateContainerConfigError", 'secret "token" not found', "create what is missing"),
        ("CreateContainerConfigError", "couldn't find key login in Secret team-a/db", "create what is missing"),
        (
            "CreateContainerConfigError",
            'container has runAsNonRoot and image will run as root (pod: "p-1-0f_team-a(0d1f)", container: spark)',
            "correct the pod",
        ),
    ],
)
def test_a_driver_that_cannot_start_names_its_image_and_the_remedy(reason: str, message: str, advice: str):
    status = driver_status(waits(reason, message))
    assert (status.state, status.can_start) == (SubmissionState.SUBMITTED, False)
    for part in ("'spark:9'", f"{reason}: {message}", advice):
        assert part in status.message


def test_an_init_container_that_cannot_start_keeps_the_driver_from_its_start():
    blocked = waits("ErrImagePull", NOT_FOUND, "init")
    blocked["status"]["initContainerStatuses"] = blocked["status"].pop("containerStatuses")
    assert not driver_status(blocked).can_start


@pytest.mark.parametrize(
    "waiting",
    [
        waits("ErrImagePull", "dial tcp: i/o timeout"),
        waits("ImagePullBackOff", 'Back-off pulling image "spark:9"'),
        waits("ErrImagePull", NOT_FOUND, "sidecar"),
        waits("CreateContainerConfigError", 'secret "p-1-0f" not found'),
        waits("ErrImagePull", "lookup registry on 10.0.0.10:53: server misbehaving"),
        waits("ErrImagePull", "failed to copy: content digest sha256:0f1: not found"),
        waits("CreateContainerConfigError", "services have not yet been read at least once, cannot construct envvars"),
        waits("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition"),
        waits("ContainerCreating"),
    ],
    ids=[
        "registry is down",
        "cause is unknown",
        "sidecar",
        "submission is not complete",
        "DNS is down",
        "node has lost a part of the image",
        "node has started just now",
        "node has no connection to the API server",
        "normal start",
    ],
)
def test_a_driver_that_may_start_waits(waiting: dict[str, Any]):
    status = driver_status(waiting)
    assert (status.state, status.can_start) == (SubmissionState.SUBMITTED, True)


def test_a_driver_whose_claim_does_not_exist_cannot_start():
    message = '0/2 nodes are available: persistentvolumeclaim "no-such-claim" not found. preemption: not helpful.'
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status = driver_status(pod(None, "Pending", conditions=[condition]))
    assert (status.state, status.can_start) == (SubmissionState.SUBMITTED, False)
    assert (
        status.message
        == f"Unschedulable: {message}: create what is missing, or correct the volumes of the pod template and of `conf`"
    )


def test_a_driver_that_runs_or_has_ended_can_start():
    assert driver_status(pod(RUNNING)).can_start
    assert driver_status(pod(terminated(1))).can_start
