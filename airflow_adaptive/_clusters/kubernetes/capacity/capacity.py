"""The capacity that a namespace of a cluster has for drivers and executors, with as much knowledge as the permissions allow. Pure.

| The account may read | Workers | Limits |
|---|---|---|
| nodes, and the pods of all namespaces | the nodes, and the nodes that an autoscaler may add, as one worker | quotas and limit ranges if it may read them, the static cap |
| only its namespace, with quotas | the namespace | quotas, limit ranges, the static cap |
| no quotas either | the namespace | the static cap |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import resources
from airflow_adaptive._clusters.kubernetes.capacity.quota import Cap, limits_of, unused
from airflow_adaptive._clusters.kubernetes.capacity.workers import (
    AUTOSCALED,
    ClusterPods,
    node_workers,
    on_demand_worker,
)
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import MIB, ClusterUnreachableError, Limit, Request, Resources, Worker


class UnboundedError(ClusterUnreachableError):
    """Nothing bounds the number of executors, as far as the account may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceObjects:
    """What the client knows about a namespace.

    Attributes:
        namespace: name of the namespace.
        own_pods: pods in the namespace with the label of drivers and executors.
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
    """Workers and limits of a namespace, see `ClusterSnapshot`.

    `worker_of` returns the id of the worker to which a node belongs. `nodes` are the nodes by their names, empty if the account may not read them.
    """

    workers: Sequence[Worker]
    limits: Sequence[Limit]
    worker_of: Callable[[str], str] = str
    nodes: Mapping[str, Json] = field(default_factory=dict)


def capacity(known: NamespaceObjects, pods: ClusterPods | None) -> Capacity:
    """Return the capacity of a namespace; `pods` is None if the account may not read the nodes and the pods of all namespaces.

    Raises `UnboundedError` if nothing bounds the number of executors. The message names what is missing, and the remedies.
    """
    limits = limits_of(known.quotas, known.limit_ranges, known.cap, known.own_pods)
    is_bounded = bool(limits_of(known.quotas, (), known.cap, known.own_pods))
    if pods is not None:
        if known.has_node_autoscaling and not is_bounded:
            raise UnboundedError(_unbounded(known))
        workers = node_workers(pods.nodes, pods.usages(known.namespace, known.own_pods))
        if known.has_node_autoscaling:
            workers = (*workers, on_demand_worker(AUTOSCALED, limits))
        nodes = {node["metadata"]["name"]: node for node in pods.nodes}
        return Capacity(workers=workers, limits=limits, nodes=nodes)
    if not is_bounded:
        raise UnboundedError(_remedies(known))
    worker = on_demand_worker(known.namespace, limits, known.own_pods)
    return Capacity(workers=[worker], limits=limits, worker_of=lambda _: known.namespace)


def never_fits(known: NamespaceObjects, pods: ClusterPods | None, role: str, request: Request) -> str:
    """Return why not even an empty cluster has room for a driver or an executor, and the remedy; "" if it has, or if this is unknown.

    A limit of the number of pods, and a limit of 0, do not count: they pause a namespace.
    """
    size = f"the {role} requests {_text(request)}, including its memory overhead"
    remedy = f"reduce `{role}_memory` or `{role}_cores`"
    sizes = (
        [] if pods is None else [resources((node.get("status") or {}).get("allocatable") or {}) for node in pods.nodes]
    )
    if sizes and not known.has_node_autoscaling and not any(request.count_in(size) for size in sizes):
        largest = max(sizes, key=lambda each: each.memory_bytes)
        advice = "add larger nodes, or set node-autoscaling in the extra of the connection if the cluster adds them"
        return f"{size}, and no node is large enough: the largest one offers {_text(largest)}: {remedy}, or {advice}"
    for limit in limits_of(map(unused, known.quotas), known.limit_ranges, known.cap, ()):
        charge = limit.charge(request) or Resources()
        bounds = ((limit.cpu_millicores, charge.cpu_millicores), (limit.memory_bytes, charge.memory_bytes))
        if any(0 < (bound or 0) < taken for bound, taken in bounds):
            name = f"quota `{limit.name}`" if limit.name else "the cap of the connection"
            bound = _text(Resources(limit.cpu_millicores or 0, limit.memory_bytes or 0))
            return f"{size}, more than {name} allows at all ({bound}): {remedy}, or raise the limit"
    return ""


def _text(amount: Resources) -> str:
    cpu, memory = amount.cpu_millicores, amount.memory_bytes
    parts = [f"{cpu / 1000:g} CPU"] * bool(cpu) + [f"{memory // MIB:,} MiB"] * bool(memory)
    return " and ".join(parts)


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
