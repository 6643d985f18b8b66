"""Whether a driver can get an executor, from the objects of their pods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_adaptive.spark.kubernetes.driver.pod_template import EXECUTOR_CONTAINER
from airflow_adaptive.spark.kubernetes.job_pods import CORES_VARIABLE

Json = Mapping[str, Any]


def spark_container(executor: Json) -> str:
    """Return the name of Spark's container in the pod of an executor. A pod template can give it another name."""
    for container in executor["spec"].get("containers") or ():
        if any(each.get("name") == CORES_VARIABLE for each in container.get("env") or ()):
            return str(container["name"])
    return EXECUTOR_CONTAINER


def can_work(executors: Collection[str], errors: int) -> bool:
    """Return whether a driver has, had or may get an executor.

    Spark numbers the executors of a driver from 1, and keeps those that wait. If the highest number is higher than the number of executors, then
    others have ended, so the image was available before and may be available again.

    Args:
        executors: ids of the executors that have not ended.
        errors: number of executors that cannot start.
    """
    has_first_executors_only = max(map(int, executors), default=0) <= len(executors)
    return not (executors and has_first_executors_only and errors == len(executors))
