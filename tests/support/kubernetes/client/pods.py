"""Pods of a driver and of its executors, as the API server returns them."""

from __future__ import annotations

from typing import Any

from airflow_adaptive._clusters.kubernetes.driver.properties import EXECUTOR_CONTAINER
from airflow_adaptive._clusters.kubernetes.driver.status import CONTAINER
from airflow_adaptive._clusters.kubernetes.job_pods import CORES_VARIABLE, EXECUTOR_ID
from airflow_adaptive._clusters.kubernetes.names import EXECUTOR_REQUEST, ROLE, DriverIdentity, to_annotation
from airflow_adaptive._core.ports import Resources

RUNNING: dict[str, Any] = {"running": {}}

DRIVER = DriverIdentity("copy", 1, "n")


def driver_pod(
    state: dict[str, Any] = RUNNING, *, identity: DriverIdentity = DRIVER, uid: str = "driver", node: str = "node-1"
) -> dict[str, Any]:
    """A driver whose container has this state."""
    created = _pod(identity.pod, uid, CONTAINER, state, node)
    request = to_annotation(Resources(1000, 1 << 30))
    created["metadata"]["labels"] = {**identity.labels, ROLE: "driver"}
    created["metadata"]["annotations"] = {**identity.annotations, EXECUTOR_REQUEST: request}
    return created


def executor_pod(
    number: int | str,
    state: dict[str, Any] = RUNNING,
    *,
    owner: str | None = "driver",
    node: str | None = "node-1",
    cores: str = "1",
) -> dict[str, Any]:
    """An executor that a driver owns."""
    created = _pod(f"{DRIVER.pod}-exec-{number}", f"executor-{number}", EXECUTOR_CONTAINER, state, node)
    created["metadata"]["labels"] = {**DRIVER.labels, ROLE: "executor", EXECUTOR_ID: str(number)}
    created["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": DRIVER.pod, "uid": owner}] if owner else []
    created["spec"]["containers"][0]["env"] = [{"name": CORES_VARIABLE, "value": cores}]
    return created


def _pod(name: str, uid: str, container: str, state: dict[str, Any], node: str | None) -> dict[str, Any]:
    started = {"running": "Running", "terminated": "Failed"}
    phase = next((started[name] for name in state if name in started), "Pending") if node else "Pending"
    return {
        "metadata": {"name": name, "uid": uid},
        "spec": {"containers": [{"name": container}], **({"nodeName": node} if node else {})},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": container, "image": "spark:9", "state": state}] if node else [],
        },
    }
