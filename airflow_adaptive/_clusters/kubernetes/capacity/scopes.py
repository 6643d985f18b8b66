"""The scopes of a quota: which pods a quota counts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from airflow_adaptive._clusters.kubernetes.capacity.quantities import Json, containers_of


def is_in_scope(quota: Json, spec: Json) -> bool:
    """Return whether a quota counts a pod: all scopes of the quota must match.

    Args:
        quota: specification of the quota.
        spec: specification of the pod, as `planned_pod.spec_of` returns it.
    """
    names = [{"scopeName": name, "operator": "Exists"} for name in quota.get("scopes") or ()]
    selected = (quota.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_SCOPES.get(each["scopeName"], _never)(spec, each) for each in (*names, *selected))


def _has_priority_class(spec: Json, expression: Json) -> bool:
    name, values = spec.get("priorityClassName"), expression.get("values") or ()
    operators = {"Exists": bool(name), "DoesNotExist": not name, "In": name in values, "NotIn": name not in values}
    return operators[expression["operator"]]


def _is_best_effort(spec: Json, _: Json) -> bool:
    containers = (each.get("resources") or {} for each in containers_of(spec))
    return not any(each.get("requests") or each.get("limits") for each in containers)


def _never(_spec: Json, _: Json) -> bool:
    """Drivers and executors have no affinity to pods of other namespaces, and a quota of volume attributes counts no pods."""
    return False


_SCOPES: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda spec, expression: not _is_best_effort(spec, expression),
    "PriorityClass": _has_priority_class,
    "Terminating": lambda spec, _: spec.get("activeDeadlineSeconds") is not None,
    "NotTerminating": lambda spec, _: spec.get("activeDeadlineSeconds") is None,
}
