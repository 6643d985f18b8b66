"""Compares the request of the first executor pod of each driver with the request that the job calculates with.

Theory: a job requests executors for which it has calculated room. A LimitRange, an admission webhook or a version of Spark can change the
requests of pods, and then the calculation is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import pod_request
from airflow_adaptive._clusters.kubernetes.driver.names import EXECUTOR_REQUEST
from airflow_adaptive._core.ports import MIB, Resources

Json = Mapping[str, Any]


def request_difference(driver: Json, executors: Iterable[Json]) -> str:
    """Return how the request of the first executor of a driver differs from the calculated request, "" if it does not differ."""
    planned, executor = _planned(driver), next(iter(executors), None)
    if planned is None or executor is None:
        return ""
    found = pod_request(executor)
    if (found.cpu_millicores, found.memory_bytes) == (planned.cpu_millicores, planned.memory_bytes):
        return ""
    return (
        f"an executor requests {_text(found)}, but the job calculates with {_text(planned)}, so it may request executors that do not fit: a "
        "LimitRange, an admission webhook or a sidecar may have changed the request"
    )


def to_annotation(request: Resources) -> str:
    """Return the annotation of a driver with the request of its executors."""
    return json.dumps([request.cpu_millicores, request.memory_bytes])


def _planned(driver: Json) -> Resources | None:
    text = (driver["metadata"].get("annotations") or {}).get(EXECUTOR_REQUEST)
    try:
        cpu_millicores, memory_bytes = json.loads(text or "")
        return Resources(int(cpu_millicores), int(memory_bytes))
    except (OverflowError, RecursionError, TypeError, ValueError):  # The annotation is missing, or was changed.
        return None


def _text(request: Resources) -> str:
    return f"{request.cpu_millicores:,}m CPU and {request.memory_bytes // MIB:,} MiB"
