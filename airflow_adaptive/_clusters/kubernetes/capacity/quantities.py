"""Quantities of CPU and memory, as the Kubernetes API writes them ("500m", "2Gi")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from airflow_adaptive._core.ports import Resources

Json = Mapping[str, Any]
"""An object, or a part of an object, as the Kubernetes API returns it."""

MUCH: Final = 1 << 60
"""Millicores, or bytes, of what has no limit. No cluster has as many."""


@lru_cache(maxsize=4096)
def amount(quantity: str | int | float) -> Decimal:
    """Return the number that a quantity stands for.

    Raises:
        ValueError: the text is no quantity.
    """
    number: Decimal = parse_quantity(quantity)
    return number


def millicores(quantity: str | int | float) -> int:
    """Return CPU in millicores. As the scheduler does, round up. Raises as `amount`."""
    return math.ceil(amount(quantity) * 1000)


def whole(quantity: str | int | float) -> int:
    """Return a number of bytes or objects. As the scheduler does, round up. Raises as `amount`."""
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
