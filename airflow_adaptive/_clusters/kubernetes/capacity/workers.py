"""The nodes of a cluster, or its namespace, as workers. Pure.

Theory: a node has room for a pod if the pod's request fits into what is allocatable minus the requests of all pods that are bound to the
node. The phase of these pods does not matter until all their containers have ended, and pods of other namespaces count, too. A client
that cannot read all of them therefore knows nothing about the nodes. For such a client, the namespace is one worker, and its limits
decide what fits.

Whether the scheduler may bind a pod to a node follows the rules of the plugins NodeUnschedulable, NodeName, TaintToleration and NodeAffinity of the scheduler. Preferences are no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import spec_of
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import MUCH, is_terminal, pod_request, resources, whole
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import Limit, Request, Resources, Worker

AUTOSCALED: Final = "node-autoscaling"
"""Id of the worker that stands for nodes that an autoscaler may add. No node has this id."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The requests and the number of pods on a node."""

    requested: Resources = Resources()
    pods: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.requested + other.requested, self.pods + other.pods)


def usage_by_node(pods: Iterable[Json]) -> Mapping[str, Usage]:
    """Return what the pods hold of each node. Pods that wait for a node, and pods that have ended, hold nothing."""
    usages: dict[str, Usage] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not is_terminal(pod):
            usages[node] = usages.get(node, Usage()) + Usage(pod_request(pod), 1)
    return usages


def sum_by_node(several: Sequence[Mapping[str, Usage]]) -> Mapping[str, Usage]:
    total: dict[str, Usage] = {}
    for usages in several:
        for node, usage in usages.items():
            total[node] = total.get(node, Usage()) + usage
    return total


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The nodes of a cluster, and what the pods of all namespaces hold of them.

    Attributes:
        nodes: all nodes.
        own: namespace -> node -> what drivers and executors of adaptive jobs hold.
        others: node -> what all other pods hold.
    """

    nodes: Sequence[Json]
    own: Mapping[str, Mapping[str, Usage]]
    others: Mapping[str, Usage]

    def usages(self, namespace: str, own_pods: Sequence[Json]) -> Mapping[str, Usage]:
        """Return what all pods hold of each node; `own_pods` are the drivers and executors of a namespace, which are known better."""
        known = [usages for name, usages in self.own.items() if name != namespace]
        return sum_by_node([self.others, usage_by_node(own_pods), *known])


def node_workers(nodes: Iterable[Json], usages: Mapping[str, Usage]) -> tuple[Worker, ...]:
    """Return the nodes as workers, ordered by name; `usages` is what the pods of all namespaces hold of each node."""
    workers = [_worker(node, usages.get(node["metadata"]["name"], Usage())) for node in nodes]
    return tuple(sorted(workers, key=lambda worker: worker.worker_id))


def on_demand_worker(name: str, limits: Sequence[Limit], own_pods: Iterable[Json] = ()) -> Worker:
    """Return the namespace, or the nodes that an autoscaler may add, as one worker, on which everything fits that the limits allow.

    The worker takes only drivers and executors that a limit bounds: for others, the capacity is unknown. The nodes may have less than the
    limits allow, and an autoscaler may have limits of its own, so a job learns by a probe what it gets.
    """
    used = sum(usage_by_node(own_pods).values(), Usage()).requested
    free = Resources(MUCH, MUCH)
    accepts = cache(partial(_is_bounded, limits))
    return Worker(worker_id=name, address=name, total=free + used, free=free, accepts=accepts, is_on_demand=True)


def _is_bounded(limits: Sequence[Limit], placement: str) -> bool:
    return any(limit.charge(Request(placement=placement)) is not None for limit in limits)


def _worker(node: Json, usage: Usage) -> Worker:
    name: str = node["metadata"]["name"]
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    total = resources(allocatable)
    free = total - usage.requested
    return Worker(
        worker_id=name,
        address=name,
        total=total,
        free=Resources(max(free.cpu_millicores, 0), max(free.memory_bytes, 0)),
        count=max(whole(allocatable.get("pods", 0)) - usage.pods, 0),
        accepts=cache(partial(_accepts, node)),
    )


def _accepts(node: Json, placement: str) -> bool:
    return is_ready(node) and admits(node, spec_of(placement))


CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""Taint of a node that was cordoned. The scheduler applies the taint as soon as the node is unschedulable."""

_REPELLING: Final = ("NoSchedule", "NoExecute")


def is_ready(node: Json) -> bool:
    """Return whether the kubelet of a node answers."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def admits(node: Json, spec: Json) -> bool:
    """Return whether a node may run a pod with a specification of `planned_pod.spec_of`."""
    labels = node["metadata"].get("labels") or {}
    return (
        spec.get("nodeName") in (None, node["metadata"]["name"])
        and all(_tolerates(taint, spec.get("tolerations") or ()) for taint in _taints(node))
        and all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
        and _is_affine(node, labels, spec.get("requiredNodeAffinity"))
    )


# ---- taints ---------------------------------------------------------------------------------------------------------


def _taints(node: Json) -> Iterator[Json]:
    """Yield the taints that keep pods away."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield CORDONED
    yield from (taint for taint in spec.get("taints") or () if taint["effect"] in _REPELLING)


DEPARTURES: Final = (
    CORDONED["key"],
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
)
"""Keys, or their beginnings, of the taints with which users, autoscalers and clouds announce the end of a node."""


def departure(node: Json, pod: Json) -> str:
    """Return why a pod will have to leave its node, "" if it may stay. A taint that the pod tolerates for a while counts as tolerated."""
    tolerations = pod["spec"].get("tolerations") or ()
    ends = [
        "was cordoned" if taint["key"] == CORDONED["key"] else f"has the taint {taint['key']}"
        for taint in _taints(node)
        if (taint["effect"] == "NoExecute" or taint["key"].startswith(DEPARTURES))
        and not _tolerates(taint, tolerations)
    ]
    return f"node {node['metadata']['name']} of the driver {' and '.join(dict.fromkeys(ends))}" if ends else ""


def _tolerates(taint: Json, tolerations: Sequence[Json]) -> bool:
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    is_any_value = toleration.get("operator") == "Exists"
    return is_any_value or (toleration.get("value") or "") == (taint.get("value") or "")


# ---- affinity -------------------------------------------------------------------------------------------------------


def _is_affine(node: Json, labels: Mapping[str, str], required: Json | None) -> bool:
    """Return whether one of the terms of a required node affinity is true. A term without expressions is never true."""
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_is_true(term, labels, fields) for term in required.get("nodeSelectorTerms") or ())


def _is_true(term: Json, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    checks = [(labels, each) for each in term.get("matchExpressions") or ()]
    checks += [(fields, each) for each in term.get("matchFields") or ()]
    return bool(checks) and all(
        _OPERATORS[each["operator"]](values.get(each["key"]), each.get("values") or ()) for values, each in checks
    )


def _excess(value: str | None, values: Sequence[str]) -> int:
    """Return by how much a label exceeds a number, 0 if the label is no number."""
    return int(value) - int(values[0]) if value is not None and value.removeprefix("-").isdecimal() else 0


_OPERATORS: Final[Mapping[str, Callable[[str | None, Sequence[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _excess(value, values) > 0,
    "Lt": lambda value, values: _excess(value, values) < 0,
}
