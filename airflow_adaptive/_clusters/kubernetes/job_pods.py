"""The drivers and the executors of adaptive jobs among the pods of a namespace, and what the client keeps of a pod. Pure.

Theory: everyone who may create pods can give them any labels, and a webhook can change the labels of a pod. So labels only select candidates. A
driver is a pod whose name follows from its job, its epoch and its nonce. An executor is a pod that the uid of a driver owns, because Spark
creates its executors with the driver as their owner. Other candidates take room from the cluster, like all pods, and have no other effect.

Theory: a job requests executors for which it has calculated room. A LimitRange, an admission webhook or a version of Spark can change the
requests of pods, and then the calculation is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import is_terminal, pod_request
from airflow_adaptive._clusters.kubernetes.driver.status import EXIT_EXCEPTION
from airflow_adaptive._clusters.kubernetes.names import (
    EPOCH,
    EXECUTOR_REQUEST,
    JOB,
    MANAGED_BY,
    MANAGER,
    NONCE,
    ROLE,
    DriverIdentity,
    Json,
    annotated_request,
)
from airflow_adaptive._core.ports import MIB, Resources

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"

EXECUTOR_ID: Final = "spark-exec-id"
CORES_VARIABLE: Final = "SPARK_EXECUTOR_CORES"
"""Label and environment variable that Spark gives each executor pod."""

LABELS: Final = (MANAGED_BY, ROLE, JOB, EPOCH, EXECUTOR_ID)
ANNOTATIONS: Final = (JOB, NONCE, EXECUTOR_REQUEST, EXIT_EXCEPTION)
STATUS_FIELDS: Final = ("name", "image", "state", "resources", "allocatedResources")
"""What the client uses of a pod, and of the status of a container."""

LONGEST_NUMBER: Final = 18
"""Digits of a number in a label or a variable."""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A driver.

    Attributes:
        identity: job, epoch and nonce of the driver.
        pod: its pod.
        executors: executor id -> pod of an executor that has not ended and is not being deleted.
        cores: executor id -> cores of the executor.
    """

    identity: DriverIdentity
    pod: Json
    executors: dict[str, Json] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)

    def total_cores(self, *, with_node: bool) -> int:
        """Return the cores of the executors that have a node, or of those that wait for one."""
        return sum(self.cores[executor] for executor, pod in self.executors.items() if bool(_node_of(pod)) is with_node)

    def workers(self, worker_of: Callable[[str], str]) -> Mapping[str, str]:
        """Return the workers of the executors that have a node, by executor id; `worker_of` returns the worker of a node."""
        return {executor: worker_of(_node_of(pod)) for executor, pod in self.executors.items() if _node_of(pod)}


@dataclass(frozen=True, slots=True)
class JobPods:
    """The drivers in a namespace, with their executors.

    Attributes:
        drivers: uid -> driver.
        ignored: uid of a pod that has the labels of a driver or an executor, and is none -> why.
    """

    drivers: Mapping[str, DriverPod]
    ignored: Mapping[str, str]


def kept(pod: Json) -> Json:
    """Return the part of a pod that the client uses. The rest, such as `managedFields`, is ten times as large."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    # Only the end of a driver is announced (`driver_status`, `departure`), and most pods are executors.
    is_driver = (metadata.get("labels") or {}).get(ROLE) == DRIVER
    container_fields = ("name", "resources", "restartPolicy", *(("lifecycle",) if is_driver else ()))
    reduced: dict[str, Any] = {
        "metadata": {
            **_only(metadata, ("name", "uid", "deletionTimestamp", "ownerReferences")),
            "labels": _only(metadata.get("labels") or {}, LABELS),
            "annotations": _only(metadata.get("annotations") or {}, ANNOTATIONS),
        },
        "spec": _only(
            spec, ("nodeName", "overhead", "readinessGates", "resources", *(("tolerations",) if is_driver else ()))
        ),
        "status": _only(status, ("phase", "reason", "message", "conditions")),
    }
    for field_name in ("containers", "initContainers"):
        reduced["spec"][field_name] = [_kept_container(each, container_fields) for each in spec.get(field_name) or ()]
    for field_name in ("containerStatuses", "initContainerStatuses"):
        reduced["status"][field_name] = [_only(each, STATUS_FIELDS) for each in status.get(field_name) or ()]
    return reduced


def _kept_container(container: Json, names: Iterable[str]) -> Json:
    env = [each for each in container.get("env") or () if each.get("name") == CORES_VARIABLE]
    return {**_only(container, names), **({"env": env} if env else {})}


def _only(fields: Json, names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def job_pods(pods: Iterable[Json]) -> JobPods:
    """Return the drivers and executors among the pods that have the label `MANAGED_BY`."""
    drivers: dict[str, DriverPod] = {}
    ignored: dict[str, str] = {}
    others: list[Json] = []
    for pod in pods:
        identity = driver_identity(pod)
        if identity is not None:
            drivers[_uid(pod)] = DriverPod(identity, pod)
        elif _labels(pod).get(ROLE) == EXECUTOR:
            others.append(pod)
        else:
            ignored[_uid(pod)] = (
                "its name does not follow from its labels and annotations, as the name of a driver does"
            )
    for pod in others:
        why = _add_executor(drivers, pod)
        if why:
            ignored[_uid(pod)] = why
    return JobPods(drivers, ignored)


def driver_identity(pod: Json) -> DriverIdentity | None:
    """Return the identity of the driver in a pod, None if the pod is no driver."""
    labels, annotations = _labels(pod), pod["metadata"].get("annotations") or {}
    epoch = _number(labels.get(EPOCH, ""))
    if (labels.get(MANAGED_BY), labels.get(ROLE)) != (MANAGER, DRIVER) or epoch is None:
        return None
    identity = DriverIdentity(annotations.get(JOB, ""), epoch, annotations.get(NONCE, ""))
    return identity if identity.pod == pod["metadata"]["name"] else None


def _add_executor(drivers: Mapping[str, DriverPod], pod: Json) -> str:
    """Add an executor to its driver. Return why the pod is no executor, "" if it is one or its driver is gone."""
    owners = [str(owner.get("uid")) for owner in pod["metadata"].get("ownerReferences") or ()]
    if not owners:
        return "no driver owns it"
    driver = next((drivers[owner] for owner in owners if owner in drivers), None)
    executor, cores = _labels(pod).get(EXECUTOR_ID, ""), _cores(pod)
    if driver is None or is_terminal(pod) or pod["metadata"].get("deletionTimestamp"):
        return ""
    if _number(executor) is None or cores is None:
        return f"its label {EXECUTOR_ID} {executor!r} or its variable {CORES_VARIABLE} is not a number"
    driver.executors[executor] = pod
    driver.cores[executor] = cores
    return ""


def _cores(pod: Json) -> int | None:
    """Return the cores of an executor, 1 without the variable; None if they cannot be read."""
    variables = (each for container in pod["spec"]["containers"] for each in container.get("env") or ())
    text = next((str(each.get("value") or "") for each in variables if each.get("name") == CORES_VARIABLE), "1")
    return _number(text)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else None


def _node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _labels(pod: Json) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def _uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def request_difference(driver: Json, executors: Iterable[Json]) -> str:
    """Return how the request of the first executor of a driver differs from the calculated request, "" if it does not differ.

    A job requests executors for which it has calculated room. A LimitRange, an admission webhook or a version of Spark can change the requests.
    """
    planned, executor = annotated_request(driver), next(iter(executors), None)
    if planned is None or executor is None:
        return ""
    found = pod_request(executor)
    if (found.cpu_millicores, found.memory_bytes) == (planned.cpu_millicores, planned.memory_bytes):
        return ""
    return (
        f"an executor requests {_text(found)}, but the job calculates with {_text(planned)}, so it may request executors that do not fit: a "
        "LimitRange, an admission webhook or a sidecar may have changed the request"
    )


def _text(request: Resources) -> str:
    return f"{request.cpu_millicores:,}m CPU and {request.memory_bytes // MIB:,} MiB"
