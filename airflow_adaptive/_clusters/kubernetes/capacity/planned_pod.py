"""The pod of a driver or an executor, as far as it decides where the pod fits. Pure.

Theory: Spark takes the pod template, replaces the requests of its own container, and adds node selectors from its properties. The other
containers of the template need capacity, too. The runtime carries the result as `placement`, a text that it does not interpret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import pod_request
from airflow_adaptive._clusters.kubernetes.capacity.quantities import Json
from airflow_adaptive._clusters.kubernetes.capacity.requests import driver_request, executor_request
from airflow_adaptive._core.ports import Request, Resources

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"

_CONTAINER_FIELDS: Final = ("name", "resources", "restartPolicy")

_SPEC_FIELDS: Final = (
    "activeDeadlineSeconds",
    "nodeName",
    "nodeSelector",
    "overhead",
    "priorityClassName",
    "resources",
    "tolerations",
)


def planned_driver(conf: Mapping[str, str], cores: int, memory_mb: int, template: Json | None = None) -> Request:
    """Return the request of the pod of a driver.

    Args:
        conf: Spark properties of the job.
        cores: cores of the driver.
        memory_mb: heap of the driver, MiB.
        template: pod template of the driver, None without one.

    Raises:
        ValueError: the value of a property, or a quantity of the template, is not valid.
    """
    return _planned(conf, DRIVER, driver_request(conf, cores, memory_mb), template or {})


def planned_executor(conf: Mapping[str, str], cores: int, memory_mb: int, template: Json | None = None) -> Request:
    """Return the request of the pod of an executor. Arguments and errors as `planned_driver`."""
    return _planned(conf, EXECUTOR, executor_request(conf, cores, memory_mb), template or {})


@lru_cache(maxsize=256)
def spec_of(placement: str) -> Json:
    """Return the pod specification of a placement; the specification of a pod without any constraint for ""."""
    spec: Json = json.loads(placement) if placement else {"containers": []}
    return spec


def _planned(conf: Mapping[str, str], role: str, own: Resources, template: Json) -> Request:
    given = template.get("spec") or {}
    spec: dict[str, Any] = {name: given[name] for name in _SPEC_FIELDS if given.get(name)}
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **_selector(conf, role)}
    spec["requiredNodeAffinity"] = _required_affinity(given)
    spec["containers"] = _containers(conf, role, own, given.get("containers") or ())
    spec["initContainers"] = [_outline(container) for container in given.get("initContainers") or ()]
    present = {name: value for name, value in spec.items() if value}
    total = pod_request({"spec": present})
    return Request(total.cpu_millicores, total.memory_bytes, json.dumps(present, sort_keys=True))


def _containers(conf: Mapping[str, str], role: str, request: Resources, given: Any) -> list[Json]:
    """Return all containers; the first one is Spark's."""
    wanted = conf.get(f"spark.kubernetes.{role}.podTemplateContainerName")
    outlines = [_outline(container) for container in given]
    own = next((each for each in outlines if each["name"] == wanted), outlines[0] if outlines else {})
    return [_of_spark(conf, role, request, own), *(each for each in outlines if each is not own)]


def _of_spark(conf: Mapping[str, str], role: str, request: Resources, own: Json) -> Json:
    """Return Spark's container. Its memory limit equals its request; it has a CPU limit only if a property or the template sets one."""
    given = own.get("resources") or {}
    cpu_limit = conf.get(f"spark.kubernetes.{role}.limit.cores")
    memory = str(request.memory_bytes)
    requests = {**(given.get("requests") or {}), "cpu": f"{request.cpu_millicores}m", "memory": memory}
    limits = {**(given.get("limits") or {}), "memory": memory} | ({"cpu": cpu_limit} if cpu_limit else {})
    return {"name": own.get("name", role), "resources": {"requests": requests, "limits": limits}}


def _outline(container: Json) -> Json:
    return {"name": "", **{name: container[name] for name in _CONTAINER_FIELDS if container.get(name)}}


def _selector(conf: Mapping[str, str], role: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for prefix in ("spark.kubernetes.node.selector.", f"spark.kubernetes.{role}.node.selector."):
        found |= {name.removeprefix(prefix): value for name, value in conf.items() if name.startswith(prefix)}
    return found


def _required_affinity(spec: Json) -> Json | None:
    affinity: Json = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
