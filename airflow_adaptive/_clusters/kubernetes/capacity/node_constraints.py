"""Whether the scheduler may bind a pod to a node: taints, node selectors and required node affinity. Pure.

The rules are those of the plugins NodeUnschedulable, NodeName, TaintToleration and NodeAffinity of the scheduler. Preferences are no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from airflow_adaptive._clusters.kubernetes.capacity.quantities import Json

CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""Taint of a node that was cordoned. The scheduler applies the taint as soon as the node is unschedulable."""

_REPELLING: Final = ("NoSchedule", "NoExecute")


def is_ready(node: Json) -> bool:
    """Return whether the kubelet of a node answers."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def admits(node: Json, spec: Json) -> bool:
    """Return whether a node may run a pod.

    Args:
        node: the node.
        spec: specification of the pod, as `planned_pod.spec_of` returns it.
    """
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


def _is_number(text: str | None) -> bool:
    return text is not None and text.removeprefix("-").isdecimal()


def _greater(value: str | None, values: Sequence[str]) -> bool:
    return _is_number(value) and int(value or 0) > int(values[0])


def _less(value: str | None, values: Sequence[str]) -> bool:
    return _is_number(value) and int(value or 0) < int(values[0])


_OPERATORS: Final[Mapping[str, Callable[[str | None, Sequence[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _greater,
    "Lt": _less,
}
