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


GONE = {"is_gone": True, "is_deleted": True}
WITHOUT_NODE = pod(None, "Pending", spec={"nodeName": None})
SIDECAR_RUNS, SIDECAR_ENDED = pod(terminated(0)), pod(RUNNING)
SIDECAR_RUNS["status"]["containerStatuses"].append({"name": "proxy", "state": RUNNING})
SIDECAR_ENDED["status"]["containerStatuses"].insert(0, {"name": "proxy", "state": terminated(1)})
EXCEPTION = {"annotations": {"spark.exit-exception": "java.lang.IllegalStateException:\n\tno flights"}}
EVICTION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
LOST = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]


DELETED = {"deletionTimestamp": "2026"}
UNREADY = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]
UNCONFIRMED = ", and its node has not confirmed the end of the driver"


@pytest.mark.parametrize(
    ("object_", "known", "state", "message"),
    [
        (pod(RUNNING), {}, "RUNNING", ""),
        (pod(RUNNING, conditions=UNREADY), {}, "RUNNING", ""),
        (pod(RUNNING, conditions=LOST, spec={"readinessGates": [{}]}), {}, "RUNNING", ""),
        (SIDECAR_ENDED, {}, "RUNNING", ""),
        (pod(RUNNING, conditions=LOST), {}, "UNKNOWN", "node node-1 is not ready: the driver may still run"),
        ({"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}, {}, "SUBMITTED", ""),
        (pod(terminated(0), "Succeeded"), {}, "FINISHED", ""),
        (pod(terminated(0), "Succeeded"), {"is_killed": True}, "FINISHED", ""),
        (pod(terminated(0)), {"is_gone": True}, "FINISHED", ""),
        (SIDECAR_RUNS, {}, "FINISHED", ""),
        (pod(terminated(143), "Failed"), {"is_killed": True}, "KILLED", ""),
        (WITHOUT_NODE, GONE, "KILLED", "driver pod p was deleted before it had a node"),
        (WITHOUT_NODE, {"is_gone": True}, "UNKNOWN", f"driver pod p was deleted{UNCONFIRMED}"),
        (pod(RUNNING), GONE, "UNKNOWN", f"driver pod p was deleted{UNCONFIRMED}"),
        (pod(RUNNING, metadata=DELETED), {}, "UNKNOWN", "driver pod p is being deleted"),
        (
            pod(RUNNING, metadata=DELETED, conditions=[*LOST, EVICTION]),
            {},
            "UNKNOWN",
            "driver pod p is being deleted (EvictionByEvictionAPI: evicting; its node node-1 is not ready)",
        ),
        (
            pod(None, "Failed", reason="NodeLost", message="node is gone"),
            {},
            "UNKNOWN",
            f"driver pod p is Failed (NodeLost: node is gone){UNCONFIRMED}",
        ),
        (pod(RUNNING, "Failed"), {}, "UNKNOWN", f"driver pod p is Failed{UNCONFIRMED}"),
        (pod(None, "Succeeded"), {}, "UNKNOWN", f"driver pod p is Succeeded{UNCONFIRMED}"),
        (pod(RUNNING, "Unknown"), {}, "UNKNOWN", f"driver pod p is Unknown{UNCONFIRMED}"),
        (
            pod(terminated(1, reason="Error"), "Failed", metadata=EXCEPTION),
            {},
            "FAILED",
            "exit code 1: java.lang.IllegalStateException: no flights",
        ),
        (
            pod(terminated(137, reason="OOMKilled"), "Failed"),
            {},
            "FAILED",
            "exit code 137: it needed more memory than its container has (OOMKilled): raise spark.driver.memoryOverhead",
        ),
        (
            pod(terminated(143, reason="Error"), metadata=DELETED),
            {},
            "FAILED",
            "exit code 143: driver pod p was deleted",
        ),
        (
            pod(terminated(143), metadata=DELETED, conditions=[EVICTION]),
            {},
            "FAILED",
            "exit code 143: driver pod p was deleted (EvictionByEvictionAPI: evicting)",
        ),
        (
            pod(terminated(137), "Failed", reason="Evicted", message="The node was low\non memory."),
            {},
            "FAILED",
            "exit code 137: driver pod p was ended (Evicted: The node was low on memory.)",
        ),
    ],
)
def test_only_a_terminated_container_of_the_driver_proves_its_end(
    object_: dict[str, Any], known: dict[str, bool], state: str, message: str
):
    status = driver_status(object_, **known)
    assert (status.state, status.message) == (state, message)
    assert status.worker_address == (object_["spec"].get("nodeName") or "")


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


def test_pod_that_is_deleted_announces_the_end_of_its_driver_while_its_hook_runs():
    hook = {
        "containers": [{"name": "proxy"}, {"name": CONTAINER, "lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}]
    }
    deleted = pod(RUNNING, metadata=DELETED, spec=hook)
    assert driver_status(deleted).leaves == "driver pod p is being deleted"
    assert driver_status(deleted, is_killed=True).leaves is None
    assert driver_status(pod(RUNNING, spec=hook)).leaves is None
    assert driver_status(pod(RUNNING, metadata=DELETED)).leaves is None


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


def conditions(**statuses: str) -> list[dict[str, str]]:
    return [{"type": name, "status": status} for name, status in statuses.items()]


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
