"""Whether a driver can get an executor, and why its executors fail, from the objects of their pods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.driver.pod_template import EXECUTOR_CONTAINER
from airflow_adaptive._clusters.kubernetes.driver.status import (
    CONTAINERS,
    INIT_CONTAINERS,
    OUT_OF_MEMORY,
    disruptions,
    failed_containers,
)
from airflow_adaptive._clusters.kubernetes.job_pods import CORES_VARIABLE

Json = Mapping[str, Any]

LINES: Final = 5
"""Lines of the output of an executor that failed."""


def spark_container(executor: Json) -> str:
    """Return the name of Spark's container in the pod of an executor. A pod template can give it another name."""
    for container in executor["spec"].get("containers") or ():
        if any(each.get("name") == CORES_VARIABLE for each in container.get("env") or ()):
            return str(container["name"])
    return EXECUTOR_CONTAINER


def other_image(executor: Json, driver: Json) -> str:
    """Return the images of an executor and of its driver, "" if both have the same one, or it is unknown."""
    executors, drivers = _images(executor), _images(driver)
    is_known = executors and drivers and executors != drivers
    return f" (image {', '.join(executors)}; the driver has {', '.join(drivers)})" if is_known else ""


def _images(pod: Json) -> list[str]:
    return sorted({str(each["image"]) for each in pod["status"].get("containerStatuses") or () if each.get("image")})


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


def executor_failure(executor: Json) -> tuple[str, str]:
    """Return why the pod of an executor has failed, and the last output of the container that ended with an error, "" without one.

    Kubernetes reports the output in the status of the pod, which Spark deletes at once (`pod_template.executor_template`).
    """
    ended = [*failed_containers(executor, INIT_CONTAINERS), *failed_containers(executor, CONTAINERS)]
    if not ended:
        return f"an executor has failed: {disruptions(executor) or 'for an unknown reason'}", ""
    name, end = ended[0]["name"], ended[0]["state"]["terminated"]
    reason = "" if end.get("reason") in (None, "Error") else f" ({end['reason']})"
    remedy = "raise spark.executor.memoryOverhead" if end.get("reason") == OUT_OF_MEMORY else ""
    cause = f"the container {name!r} of an executor ended with exit code {end['exitCode']}{reason}"
    lines = [" ".join(line.split()) for line in str(end.get("message") or "").splitlines()]
    return ": ".join(filter(None, [cause, disruptions(executor), remedy])), " | ".join(filter(None, lines[-LINES:]))
