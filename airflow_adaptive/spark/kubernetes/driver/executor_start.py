"""Why the executors of a driver cannot start, from the objects of their pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive.spark.kubernetes.driver.pod_template import EXECUTOR_CONTAINER
from airflow_adaptive.spark.kubernetes.driver.status import container_error

Json = Mapping[str, Any]


def executors_error(executors: Mapping[str, Json]) -> str:
    """Return why an executor cannot start, "" if all executors may start.

    Args:
        executors: executor id -> pod, of the executors that have not ended.
    """
    errors = _errors(executors)
    return next((f"executor {pod} cannot start: {error}" for pod, error in errors.items()), "")


def can_work(executors: Mapping[str, Json]) -> bool:
    """Return whether a driver has, had or may get an executor. Arguments as `executors_error`.

    Spark numbers the executors of a driver from 1, and keeps those that wait. If the highest number is higher than the number of executors, then
    others have ended, so the image was available before and may be available again.
    """
    has_first_executors_only = max(map(int, executors), default=0) <= len(executors)
    return not (executors and has_first_executors_only and len(_errors(executors)) == len(executors))


def _errors(executors: Mapping[str, Json]) -> Mapping[str, str]:
    found = {pod["metadata"]["name"]: container_error(pod, EXECUTOR_CONTAINER) for pod in executors.values()}
    return {name: error for name, error in found.items() if error}
