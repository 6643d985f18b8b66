"""The executors of each application, as their pods show them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_adaptive.spark.kubernetes.capacity.pod_requests import is_terminal
from airflow_adaptive.spark.kubernetes.capacity.quantities import Json

APPLICATION_LABEL: Final = "spark-app-selector"
EXECUTOR_LABEL: Final = "spark-exec-id"
CORES_VARIABLE: Final = "SPARK_EXECUTOR_CORES"
"""Labels and environment variable that Spark gives each executor pod."""


@dataclass(slots=True)
class ExecutorPods:
    """Executors of all applications.

    Attributes:
        granted: application id -> cores of the executors that have a node.
        pending: application id -> cores of the executors that wait for a node.
        workers: application id -> executor id -> worker id.
    """

    granted: Counter[str] = field(default_factory=Counter)
    pending: Counter[str] = field(default_factory=Counter)
    workers: dict[str, dict[str, str]] = field(default_factory=dict)


def executor_pods(own_pods: Iterable[Json], worker_of: Callable[[str], str]) -> ExecutorPods:
    """Return the executors of all applications. An executor that is being deleted does not count.

    Args:
        own_pods: drivers and executors.
        worker_of: returns the worker id of a node.
    """
    found = ExecutorPods()
    for application, executor, pod in _executors(own_pods):
        node = pod["spec"].get("nodeName")
        if node:
            found.granted[application] += _cores(pod)
            found.workers.setdefault(application, {})[executor] = worker_of(node)
        else:
            found.pending[application] += _cores(pod)
    return found


def by_application(own_pods: Iterable[Json]) -> Mapping[str, Mapping[str, Json]]:
    """Return the pods of the executors: application id -> executor id -> pod. An executor that is being deleted does not count."""
    found: dict[str, dict[str, Json]] = {}
    for application, executor, pod in _executors(own_pods):
        found.setdefault(application, {})[executor] = pod
    return found


def _executors(pods: Iterable[Json]) -> Iterator[tuple[str, str, Json]]:
    for pod in pods:
        labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
        is_live = not is_terminal(pod) and not pod["metadata"].get("deletionTimestamp")
        if is_live and APPLICATION_LABEL in labels and EXECUTOR_LABEL in labels:
            yield labels[APPLICATION_LABEL], labels[EXECUTOR_LABEL], pod


def _cores(pod: Json) -> int:
    variables = (each for container in pod["spec"]["containers"] for each in container.get("env") or ())
    return next((int(each["value"]) for each in variables if each["name"] == CORES_VARIABLE), 1)
