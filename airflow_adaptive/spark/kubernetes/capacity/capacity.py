"""The capacity that a namespace of a cluster has for drivers and executors, with as much knowledge as the permissions allow. Pure.

| The account may read | Workers | Limits |
|---|---|---|
| nodes, and the pods of all namespaces | the nodes, and the nodes that an autoscaler may add, as one worker | quotas and limit ranges if it may read them, the static cap |
| only its namespace, with quotas | the namespace | quotas, limit ranges, the static cap |
| no quotas either | the namespace | the static cap |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_adaptive.ports import ClusterUnreachableError, Limit, Worker
from airflow_adaptive.spark.kubernetes.capacity.cluster_reader import ClusterPods
from airflow_adaptive.spark.kubernetes.capacity.executors import ExecutorPods, executor_pods
from airflow_adaptive.spark.kubernetes.capacity.quantities import Json
from airflow_adaptive.spark.kubernetes.capacity.quota import Cap, limits_of
from airflow_adaptive.spark.kubernetes.capacity.workers import autoscaled_worker, namespace_worker, node_workers


class UnboundedError(ClusterUnreachableError):
    """Nothing bounds the number of executors, as far as the account may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceObjects:
    """What the client knows about a namespace.

    Attributes:
        namespace: name of the namespace.
        own_pods: drivers and executors of adaptive jobs in the namespace.
        quotas: ResourceQuotas; empty also if the account may not read them.
        limit_ranges: LimitRanges, likewise.
        cap: static cap of the connection.
        has_node_autoscaling: whether the cluster adds nodes for pods that do not fit.
        forbidden: verbs and collections that the account lacks.
    """

    namespace: str
    own_pods: Sequence[Json]
    quotas: Sequence[Json] = ()
    limit_ranges: Sequence[Json] = ()
    cap: Cap = Cap()
    has_node_autoscaling: bool = False
    forbidden: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Workers, limits and executors of a namespace.

    Attributes:
        workers: see `ClusterSnapshot.workers`.
        limits: see `ClusterSnapshot.limits`.
        executors: executors of each application.
    """

    workers: Sequence[Worker]
    limits: Sequence[Limit]
    executors: ExecutorPods


def capacity(known: NamespaceObjects, pods: ClusterPods | None) -> Capacity:
    """Return the capacity of a namespace.

    Args:
        known: what the client knows about the namespace.
        pods: nodes, and pods of all namespaces, None if the account may not read them.

    Raises:
        UnboundedError: nothing bounds the number of executors. The message names what is missing, and the remedies.
    """
    limits = limits_of(known.quotas, known.limit_ranges, known.cap, known.own_pods)
    is_bounded = bool(limits_of(known.quotas, (), known.cap, known.own_pods))
    if pods is not None:
        if known.has_node_autoscaling and not is_bounded:
            raise UnboundedError(_unbounded(known))
        workers = node_workers(pods.nodes, pods.usages(known.namespace, known.own_pods))
        if known.has_node_autoscaling:
            workers = (*workers, autoscaled_worker(limits))
        return Capacity(workers=workers, limits=limits, executors=executor_pods(known.own_pods, lambda node: node))
    if not is_bounded:
        raise UnboundedError(_remedies(known))
    worker = namespace_worker(known.namespace, limits, known.own_pods)
    executors = executor_pods(known.own_pods, lambda _: known.namespace)
    return Capacity(workers=[worker], limits=limits, executors=executors)


def _unbounded(known: NamespaceObjects) -> str:
    return (
        f"The capacity for namespace {known.namespace} is unknown: the connection sets node-autoscaling, and nothing bounds what the cluster "
        "may add. Create a ResourceQuota for CPU, memory or pods, or set max-cores and max-memory in the extra of the connection."
    )


def _remedies(known: NamespaceObjects) -> str:
    return (
        f"The capacity for namespace {known.namespace} is unknown: the account may not {', '.join(known.forbidden)}, "
        "no ResourceQuota of the namespace limits CPU, memory or pods, and the connection has no static cap. "
        "Let the account list nodes and the pods of all namespaces, or create a ResourceQuota that the account may list, "
        "or set max-cores and max-memory in the extra of the connection."
    )
