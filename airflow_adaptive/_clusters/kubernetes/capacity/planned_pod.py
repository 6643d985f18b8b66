"""The pod of a driver or an executor, as far as it decides where the pod fits. Pure.

Theory: Spark takes the pod template, replaces the requests of its own container, and adds node selectors from its properties. The other
containers of the template need capacity, too. The runtime carries the result as `placement`, a text that it does not interpret.

A container needs more memory than the heap of its JVM: the JVM's own memory, and the Python processes. Spark adds an overhead, which
is a fraction of the heap but at least a minimum, and which an explicit overhead replaces. The fraction is higher for Python than for
JVM jobs. The calculation must equal Spark's (`BasicDriverFeatureStep`, `BasicExecutorFeatureStep`, `ResourceProfile`), because capacity
for a smaller container is capacity in which the real container does not fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import millicores, pod_request
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import MIB, Request, Resources

PYTHON_OVERHEAD_FACTOR: Final = 0.4
"""Spark's factor for Python (`NON_JVM_MEMORY_OVERHEAD_FACTOR`). `spark-submit` passes the factor to the driver, so the client does the same."""

OVERHEAD_FACTOR: Final = "spark.kubernetes.memoryOverheadFactor"

MIN_OVERHEAD: Final = "384m"

_SIZE: Final = re.compile(r"(\d+)\s*([a-z]*)")

_UNITS: Final = {
    **dict.fromkeys(("b",), 1),
    **dict.fromkeys(("k", "kb"), 1024),
    **dict.fromkeys(("m", "mb"), MIB),
    **dict.fromkeys(("g", "gb"), 1024 * MIB),
    **dict.fromkeys(("t", "tb"), 1024 * 1024 * MIB),
    **dict.fromkeys(("p", "pb"), 1024 * 1024 * 1024 * MIB),
}


def driver_request(conf: Mapping[str, str], cores: int, memory_mb: int) -> Resources:
    """Return the request of the driver's container; `memory_mb` is the heap. Raises `ValueError` for an invalid property."""
    return Resources(_cpu(conf, "driver", cores), (memory_mb + _overhead_mb(conf, "driver", memory_mb)) * MIB)


def executor_request(conf: Mapping[str, str], cores: int, memory_mb: int) -> Resources:
    """Return the request of an executor's container, likewise."""
    python_mb = size_mb(conf, "spark.executor.pyspark.memory", "0")
    total_mb = memory_mb + _overhead_mb(conf, "executor", memory_mb) + python_mb + _off_heap_mb(conf)
    return Resources(_cpu(conf, "executor", cores), total_mb * MIB)


def size_mb(conf: Mapping[str, str], name: str, default: str, unit: str = "m") -> int:
    """Return a property that is a size of memory, in whole MiB; `unit` is that of a number without a unit. Raises `ValueError`."""
    text = conf.get(name, default).strip().lower()
    matched = _SIZE.fullmatch(text)
    if matched is None or (matched[2] or unit) not in _UNITS:
        raise ValueError(f"{name} {text!r} is not a memory size: use, for example, '512m' or '2g'")
    return int(matched[1]) * _UNITS[matched[2] or unit] // MIB


def _cpu(conf: Mapping[str, str], role: str, cores: int) -> int:
    name = f"spark.kubernetes.{role}.request.cores"
    text = conf.get(name, str(cores))
    try:
        return millicores(text)
    except ValueError as error:
        raise ValueError(f"{name} {text!r} is not a quantity of CPU: use, for example, '500m' or '2'") from error


def _overhead_mb(conf: Mapping[str, str], role: str, heap_mb: int) -> int:
    explicit = f"spark.{role}.memoryOverhead"
    if explicit in conf:
        return size_mb(conf, explicit, "")
    least_mb = size_mb(conf, f"spark.{role}.minMemoryOverhead", MIN_OVERHEAD)
    return max(int(_factor(conf, role) * heap_mb), least_mb)


def _factor(conf: Mapping[str, str], role: str) -> float:
    names = [name for name in (f"spark.{role}.memoryOverheadFactor", OVERHEAD_FACTOR) if name in conf]
    if not names:
        return PYTHON_OVERHEAD_FACTOR
    text = conf[names[0]]
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{names[0]} {text!r} is not a number") from error


def _off_heap_mb(conf: Mapping[str, str]) -> int:
    if conf.get("spark.memory.offHeap.enabled", "false").strip().lower() != "true":
        return 0
    return size_mb(conf, "spark.memory.offHeap.size", "0", unit="b")


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
    """Return the request of the pod of a driver; `memory_mb` is the heap. Raises `ValueError` for an invalid property or quantity."""
    return _planned(conf, DRIVER, driver_request(conf, cores, memory_mb), template or {})


def planned_executor(conf: Mapping[str, str], cores: int, memory_mb: int, template: Json | None = None) -> Request:
    """Return the request of the pod of an executor, likewise."""
    return _planned(conf, EXECUTOR, executor_request(conf, cores, memory_mb), template or {})


@lru_cache(maxsize=256)
def spec_of(placement: str) -> Json:
    """Return the pod specification of a placement; the specification of a pod without any constraint for ""."""
    spec: Json = json.loads(placement) if placement else {"containers": []}
    return spec


def _planned(conf: Mapping[str, str], role: str, own: Resources, template: Json) -> Request:
    given = template.get("spec") or {}
    spec: dict[str, Any] = {name: given[name] for name in _SPEC_FIELDS if given.get(name)}
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **node_selector(conf, role)}
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
    resources = spark_resources(conf, role, request, own.get("resources") or {})
    spark = {"name": own.get("name", role), "resources": resources}
    return [spark, *(each for each in outlines if each is not own)]


def spark_resources(conf: Mapping[str, str], role: str, request: Resources, given: Json) -> Json:
    """Return the resources of Spark's container. Its memory limit equals its request; it has a CPU limit only if a property or the template sets one."""
    cpu_limit, memory = conf.get(f"spark.kubernetes.{role}.limit.cores"), str(request.memory_bytes)
    return {
        **given,
        "requests": {**(given.get("requests") or {}), "cpu": f"{request.cpu_millicores}m", "memory": memory},
        "limits": {**(given.get("limits") or {}), "memory": memory} | ({"cpu": cpu_limit} if cpu_limit else {}),
    }


def _outline(container: Json) -> Json:
    return {"name": "", **{name: container[name] for name in _CONTAINER_FIELDS if container.get(name)}}


def node_selector(conf: Mapping[str, str], role: str) -> dict[str, str]:
    """Return the node selector that Spark's properties give the pods of a role."""
    found: dict[str, str] = {}
    for prefix in ("spark.kubernetes.node.selector.", f"spark.kubernetes.{role}.node.selector."):
        found |= {name.removeprefix(prefix): value for name, value in conf.items() if name.startswith(prefix)}
    return found


def _required_affinity(spec: Json) -> Json | None:
    affinity: Json = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
