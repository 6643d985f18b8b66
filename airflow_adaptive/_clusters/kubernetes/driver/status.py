"""The state of a driver, from the object of its pod. Pure.

Only a `terminated` state that the kubelet reports proves the end of a driver: the one of the driver's container, or that of an init container
that failed, because the driver's container then never starts. None of these is a proof: the phase Failed, which controllers set for a pod on a
lost node; a deletion, which only requests the end; the absence of the object, because a deletion by force removes it while the processes
run. Other containers of the pod do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import SubmissionState, SubmissionStatus

CONTAINER: Final = "spark-kubernetes-driver"
"""Name of the driver's container."""

CONTAINERS: Final = "containerStatuses"
INIT_CONTAINERS: Final = "initContainerStatuses"

EXIT_EXCEPTION: Final = "spark.exit-exception"
"""Annotation in which Spark writes the exception that ended the driver (`spark.kubernetes.driver.annotateExitException`)."""

OUT_OF_MEMORY: Final = "OOMKilled"

DISRUPTION: Final = "DisruptionTarget"
"""Condition of a pod that is evicted, preempted, or deleted because of its node."""

NORMAL_WAITS: Final = ("ContainerCreating", "PodInitializing")
"""Reasons for which each container waits when it starts."""

INVALID_IMAGES: Final = ("InvalidImageName", "ErrImageNeverPull")
"""Reasons for which a container waits that cannot start with its image."""

FAILED_PULLS: Final = ("ErrImagePull", "ImagePullBackOff")
"""Reasons for which a container waits for its image. An image that the registry does not have or refuses does not come by itself."""

REFUSED_PULL: Final = re.compile(
    r"not found|manifest unknown|does not exist|no match for platform|no such host|denied|unauthorized|forbidden",
    re.IGNORECASE,
)
"""Answers of a registry, and of the DNS about its name. A DNS server that fails gives other answers, such as `server misbehaving`."""

INTERRUPTED_PULL: Final = re.compile(r"content digest", re.IGNORECASE)
"""A part of the image is lost on the node. The next pull may succeed."""

INVALID_CONFIGURATION: Final = "CreateContainerConfigError"
"""Reason for which a container waits whose configuration is not complete or not permitted, or not known to the kubelet yet."""

WRONG_CONFIGURATION: Final = re.compile(
    r'(configmap|secret) "[^"]*" not found|couldn\'t find key|references non-existent|runAsNonRoot', re.IGNORECASE
)
"""Causes of `INVALID_CONFIGURATION` that do not end by themselves."""

MISSING_CLAIM: Final = re.compile(r'persistentvolumeclaim "[^"]*" not found')
"""Part of the reason for which a pod has no node."""

NOT_CONFIRMED: Final = "its node has not confirmed the end of the driver"

VOLUME_ADVICE: Final = "create what is missing, or correct the volumes of the pod template and of `conf`"


def driver_status(
    pod: Json, *, is_gone: bool = False, is_deleted: bool = False, is_killed: bool = False
) -> SubmissionStatus:
    """Return the state of a driver.

    Args:
        pod: newest known object of the driver's pod.
        is_gone: whether the API server has no object of this pod any more.
        is_deleted: whether `pod` is the object that the API server had when it removed the pod.
        is_killed: whether the scheduler has killed the driver.
    """
    node = str(pod["spec"].get("nodeName") or "")
    state, message = _state(pod, is_gone, is_deleted, is_killed)
    error = start_error(pod) if state is SubmissionState.SUBMITTED else ""
    ended_by = "" if is_killed else _ended_by(pod)
    # The hook runs before the driver gets SIGTERM.
    containers = pod["spec"].get("containers") or ()
    has_hook = any("preStop" in (it.get("lifecycle") or {}) for it in containers if it.get("name") == CONTAINER)
    return SubmissionStatus(
        state=state,
        message=error or message,
        worker_address=node,
        can_start=not error,
        ended_by=ended_by,
        leaves=ended_by if ended_by and has_hook else None,
    )


def _state(pod: Json, is_gone: bool, is_deleted: bool, is_killed: bool) -> tuple[SubmissionState, str]:
    terminated = _container(pod).get("terminated")
    if terminated is not None:
        return _end(pod, terminated, is_killed)
    if failed := failed_init_container(pod):
        state, message = _end(pod, failed["state"]["terminated"], is_killed)
        return state, message and f"the init container {failed['name']!r} failed: {message}"
    if is_deleted and not pod["spec"].get("nodeName"):
        return SubmissionState.KILLED, f"{_described(pod, 'was deleted')} before it had a node"
    if is_gone:
        return SubmissionState.UNKNOWN, f"{_described(pod, 'was deleted')}, and {NOT_CONFIRMED}"
    if pod["metadata"].get("deletionTimestamp"):
        return SubmissionState.UNKNOWN, _ended_by(pod)
    return _live_state(pod)


def _end(pod: Json, terminated: Json, is_killed: bool) -> tuple[SubmissionState, str]:
    code = int(terminated["exitCode"])
    if code == 0:
        return SubmissionState.FINISHED, ""
    if is_killed:
        return SubmissionState.KILLED, ""
    return SubmissionState.FAILED, ": ".join([f"exit code {code}", *_causes(pod, terminated)])


def failed_init_container(pod: Json) -> Json:
    """Return the status of the init container because of whose end the driver never starts, empty without one.

    Sidecars are init containers that the kubelet restarts. It restarts no container of a pod with the phase Failed.
    """
    sidecars = [each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy")]
    if pod.get("status", {}).get("phase") != "Failed" or "running" in _container(pod):
        return {}
    return next((each for each in failed_containers(pod, INIT_CONTAINERS) if each["name"] not in sidecars), {})


def failed_containers(pod: Json, field: str) -> list[Json]:
    """Return the statuses of the containers, or of the init containers, that ended with an error."""
    statuses = pod.get("status", {}).get(field) or ()
    return [each for each in statuses if ((each.get("state") or {}).get("terminated") or {}).get("exitCode")]


def _causes(pod: Json, terminated: Json) -> Iterator[str]:
    if terminated.get("reason") == OUT_OF_MEMORY:
        remedy = (
            "the memory limit of the init container" if failed_init_container(pod) else "spark.driver.memoryOverhead"
        )
        yield f"it needed more memory than its container has (OOMKilled): raise {remedy}"
    elif terminated.get("reason") not in (None, "Error"):
        yield str(terminated["reason"])
    if ended_by := _ended_by(pod):
        yield ended_by
    texts = [(pod["metadata"].get("annotations") or {}).get(EXIT_EXCEPTION), terminated.get("message")]
    yield from (" ".join(str(text).split()) for text in texts if text)


def _ended_by(pod: Json) -> str:
    """Return how others end or have ended the pod of a driver, "" if nothing is known."""
    status = pod.get("status", {})
    has_ended = "terminated" in _container(pod) or status.get("phase") == "Failed"
    if pod["metadata"].get("deletionTimestamp"):
        return _described(pod, "was deleted" if has_ended else "is being deleted")
    is_disrupted = any(each["type"] == DISRUPTION for each in status.get("conditions") or ())
    if is_disrupted or (has_ended and disruptions(pod)):
        return _described(pod, "was ended" if has_ended else "is being ended")
    return ""


def _described(pod: Json, end: str) -> str:
    """Return what became of a pod, with the cause that Kubernetes names."""
    causes = disruptions(pod)
    return f"driver pod {pod['metadata']['name']} {end}{f' ({causes})' if causes else ''}"


def disruptions(pod: Json) -> str:
    """Return what Kubernetes reports about the end of a pod: an eviction, a drain, a preemption, or a lost node; "" if nothing."""
    status = pod.get("status", {})
    causes = [each for each in status.get("conditions") or () if each["type"] == DISRUPTION]
    texts = [_text(cause) for cause in (*causes, status)]
    if is_node_lost(pod):
        texts.append(f"its node {pod['spec'].get('nodeName')} is not ready")
    return "; ".join(" ".join(text.split()) for text in dict.fromkeys(texts) if text)


def _live_state(pod: Json) -> tuple[SubmissionState, str]:
    phase = pod.get("status", {}).get("phase")
    if phase not in ("Pending", "Running"):
        return SubmissionState.UNKNOWN, f"{_described(pod, f'is {phase}')}, and {NOT_CONFIRMED}"
    if "running" not in _container(pod):
        return SubmissionState.SUBMITTED, waiting_reason(pod)
    if is_node_lost(pod):
        return SubmissionState.UNKNOWN, f"node {pod['spec']['nodeName']} is not ready: the driver may still run"
    return SubmissionState.RUNNING, ""


def is_node_lost(pod: Json) -> bool:
    """Return whether the node of a running pod is not ready.

    The node controller then sets the condition Ready of the pod to False. The kubelet alone sets this condition only together with the
    condition ContainersReady, or for a readiness gate.
    """
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions") or ()}
    is_gated = bool(pod["spec"].get("readinessGates"))
    return conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True" and not is_gated


def waiting_reason(pod: Json) -> str:
    """Return why a driver has not started, "" if nothing is unusual."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _text(condition)
    statuses = [*(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())]
    waits = [each["state"]["waiting"] for each in statuses if "waiting" in (each.get("state") or {})]
    return "; ".join(_text(wait) for wait in waits if wait.get("reason") not in NORMAL_WAITS)


def start_error(pod: Json) -> str:
    """Return why a driver that waits cannot start, and what to do; "" if it may start. Sidecars that start beside the driver do not matter."""
    reason = waiting_reason(pod)
    if MISSING_CLAIM.search(reason):
        return f"{reason}: {VOLUME_ADVICE}"
    return container_error(pod, CONTAINER)


def container_error(pod: Json, container: str) -> str:
    """Return why a container of a pod, or an init container, cannot be created, and what to do; "" if they may start."""
    statuses = pod["status"].get("containerStatuses") or ()
    relevant = [
        *(pod["status"].get("initContainerStatuses") or ()),
        *(status for status in statuses if status["name"] == container),
    ]
    waits = [(status.get("image"), (status.get("state") or {}).get("waiting")) for status in relevant]
    errors = [_wait_error(pod, image or "", wait) for image, wait in waits if wait]
    return next((error for error in errors if error), "")


def _wait_error(pod: Json, image: str, wait: Json) -> str:
    reason, message = wait.get("reason"), wait.get("message") or ""
    is_refused = REFUSED_PULL.search(message) and not INTERRUPTED_PULL.search(message)
    if reason in INVALID_IMAGES or (reason in FAILED_PULLS and is_refused):
        advice = "correct `image`, or name the credentials of the registry in `image_pull_secrets`"
        return f"the image {image!r} cannot be pulled: {_text(wait)}: {advice}"
    # The client creates the pod before the ConfigMap and the Secret of the driver, which have the name of the pod.
    is_wrong = WRONG_CONFIGURATION.search(message) and f'"{pod["metadata"]["name"]}" not found' not in message
    if reason == INVALID_CONFIGURATION and is_wrong:
        advice = "create what is missing, or correct the pod template and the properties that refer to it"
        return f"the container with the image {image!r} cannot be created: {_text(wait)}: {advice}"
    return ""


def _text(cause: Json) -> str:
    return ": ".join(str(cause[field]) for field in ("reason", "message") if cause.get(field))


def _container(pod: Json) -> Json:
    """Return the state of the driver's container, as the kubelet reported it."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    state: Json = next((each.get("state") or {} for each in statuses if each["name"] == CONTAINER), {})
    return state
