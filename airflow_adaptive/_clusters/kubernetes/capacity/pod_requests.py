"""The CPU and the memory that the scheduler reserves for a pod. Pure.

Theory: the containers of a pod run at the same time, so their requests add up. Init containers run one after the other before the
containers, so only the largest counts. A sidecar is an init container that continues to run: it counts together with the containers, and
together with each init container that starts after it. Requests of the pod itself replace the sum, and the overhead of its runtime class
is added (`PodRequests` in k8s.io/component-helpers/resource).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

from kubernetes.utils.quantity import parse_quantity

from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import Resources

MUCH: Final = 1 << 60
"""Millicores, or bytes, of what has no limit. No cluster has as many."""


@lru_cache(maxsize=4096)
def amount(quantity: str | int | float) -> Decimal:
    """Return the number that a quantity ("500m", "2Gi") stands for. Raises `ValueError`."""
    number: Decimal = parse_quantity(quantity)
    return number


def millicores(quantity: str | int | float) -> int:
    """Return CPU in millicores. As the scheduler does, round up."""
    return math.ceil(amount(quantity) * 1000)


def whole(quantity: str | int | float) -> int:
    """Return a number of bytes or objects, likewise."""
    return math.ceil(amount(quantity))


def resources(quantities: Json) -> Resources:
    """Return CPU and memory of a list of resources, such as the requests of a container. A missing one counts as 0."""
    return Resources(millicores(quantities.get("cpu", 0)), whole(quantities.get("memory", 0)))


def largest(*several: Resources) -> Resources:
    """Return the greatest CPU and the greatest memory of several resources."""
    return Resources(max(each.cpu_millicores for each in several), max(each.memory_bytes for each in several))


def containers_of(spec: Json) -> list[Json]:
    """Return all containers of a pod, including the init containers."""
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


TERMINAL_PHASES = ("Succeeded", "Failed")
"""Phases in which a pod holds no resources any more."""


def is_terminal(pod: Json) -> bool:
    """Return whether all containers of a pod have ended."""
    return pod.get("status", {}).get("phase") in TERMINAL_PHASES


def pod_request(pod: Json) -> Resources:
    """Return the CPU and the memory that the scheduler reserves for a pod."""
    return _of_pod(pod, "requests")


def pod_limit(pod: Json) -> Resources:
    """Return the sum of the limits of a pod, as a quota of limits counts them. A container without a limit counts as 0."""
    return _of_pod(pod, "limits")


def _of_pod(pod: Json, field: str) -> Resources:
    spec, status = pod["spec"], pod.get("status") or {}
    containers = [_of_container(each, field, _by_name(status, "containerStatuses")) for each in spec["containers"]]
    total = _with_init_containers(sum(containers, Resources()), spec, field, _by_name(status, "initContainerStatuses"))
    own = (spec.get("resources") or {}).get(field) or {}
    of_pod = resources(own)
    total = Resources(
        of_pod.cpu_millicores if "cpu" in own else total.cpu_millicores,
        of_pod.memory_bytes if "memory" in own else total.memory_bytes,
    )
    return total + resources(spec.get("overhead") or {})


def _with_init_containers(running: Resources, spec: Json, field: str, statuses: Mapping[str, Json]) -> Resources:
    sidecars, starting = Resources(), Resources()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += _of_container(container, field, statuses)
            starting = largest(starting, sidecars)
        else:
            starting = largest(starting, sidecars + _of_container(container, field, {}))
    return largest(running + sidecars, starting)


def _of_container(container: Json, field: str, statuses: Mapping[str, Json]) -> Resources:
    """Return a field of a container's resources. While a running container is resized, its old and its new values are reserved."""
    wanted = resources((container.get("resources") or {}).get(field) or {})
    status = statuses.get(container["name"], {})
    actual = resources((status.get("resources") or {}).get(field) or {})
    allocated = resources(status.get("allocatedResources") or {}) if field == "requests" else Resources()
    return largest(wanted, actual, allocated)


def _by_name(status: Json, field: str) -> Mapping[str, Json]:
    return {each["name"]: each for each in status.get(field) or ()}
