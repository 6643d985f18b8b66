"""Compares the request of the first executor pod of each driver with the request that the job calculates with.

Theory: a job requests executors for which it has calculated room. A LimitRange, an admission webhook or a version of Spark can change the
requests of pods, and then the calculation is wrong.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_adaptive.ports import MIB, Resources
from airflow_adaptive.spark.kubernetes.capacity.pod_requests import pod_request
from airflow_adaptive.spark.kubernetes.driver.names import APPLICATION, EXECUTOR_REQUEST, ROLE

log = logging.getLogger(__name__)

Json = Mapping[str, Any]

MOST_DRIVERS: Final = 1000
"""Drivers whose comparison is known."""


class ExecutorRequests:
    """Warns once for each driver."""

    def __init__(self) -> None:
        """Compare nothing yet."""
        self._compared: dict[str, None] = {}

    def compare(self, driver: Json, pods: Iterable[Json]) -> None:
        """Compare the first executor among these pods, if the driver has not been compared yet."""
        name, uid = driver["metadata"]["name"], driver["metadata"]["uid"]
        planned = _planned(driver)
        if uid in self._compared or planned is None:
            return
        executor = next((pod for pod in pods if _is_executor(pod, name)), None)
        if executor is None:
            return
        self._compared[uid] = None
        while len(self._compared) > MOST_DRIVERS:
            del self._compared[next(iter(self._compared))]
        found = pod_request(executor)
        if (found.cpu_millicores, found.memory_bytes) != (planned.cpu_millicores, planned.memory_bytes):
            log.warning(
                "Executor %s requests %s, but the job calculates with %s for each executor, so it may request executors that do not fit. A "
                "LimitRange, an admission webhook or a sidecar may have changed the request.",
                *(executor["metadata"]["name"], _text(found), _text(planned)),
            )


def to_annotation(request: Resources) -> str:
    """Return the annotation of a driver with the request of its executors."""
    return json.dumps([request.cpu_millicores, request.memory_bytes])


def _planned(driver: Json) -> Resources | None:
    text = (driver["metadata"].get("annotations") or {}).get(EXECUTOR_REQUEST)
    try:
        return None if text is None else Resources(*json.loads(text))
    except (TypeError, ValueError):  # The annotation was changed.
        return None


def _is_executor(pod: Json, application: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get(ROLE) == "executor" and labels.get(APPLICATION) == application


def _text(request: Resources) -> str:
    return f"{request.cpu_millicores:,}m CPU and {request.memory_bytes // MIB:,} MiB"
