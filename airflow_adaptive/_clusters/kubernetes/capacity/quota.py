"""The limits of a namespace: its quotas, its limit ranges, and the static cap of the connection. Pure.

Theory: the API server refuses a pod that exceeds a quota, and Spark repeats the request forever, so an executor beyond the quota must never
be planned. A quota counts a pod from its creation, also while the pod waits for a node, and counts only the pods of its scopes. A
quota of a resource also refuses each pod that has a container without a value for the resource, unless a limit range adds the value.

The admission plugin LimitRanger first adds default values to the containers, and then checks its rules. It refuses a pod that breaks
a rule each time, so a broken rule is a limit that allows no further driver or executor of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial, reduce
from typing import Final

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import spec_of
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import (
    MUCH,
    amount,
    containers_of,
    is_terminal,
    pod_limit,
    pod_request,
)
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import Limit, LimitKind, Request, Resources

Amounts = tuple[Decimal | None, Decimal | None]
"""Request and limit of a container or a pod, None without one."""

Breaks = Callable[[Amounts, Decimal], bool]


def with_defaults(spec: Json, limit_ranges: Iterable[Json]) -> Json:
    """Return the specification of a pod with the values that the limit ranges add to its containers."""
    items = [item for _, item in _items(limit_ranges) if item["type"] == "Container"]
    completed = {
        field: [reduce(_completed, items, container) for container in spec[field]]
        for field in ("containers", "initContainers")
        if field in spec
    }
    return {**spec, **completed}


def forbidding_limits(limit_ranges: Sequence[Json]) -> Iterator[Limit]:
    """Yield a limit for each rule of the limit ranges. The limit applies only to drivers and executors that break the rule."""
    for name, item in _items(limit_ranges):
        for rule, breaks in _rules(item):
            charge = cache(partial(_charge_of_rule, limit_ranges, breaks))
            yield Limit(kind=LimitKind.QUOTA, name=f"{name} ({rule})", count=0, charge=charge)


def _charge_of_rule(limit_ranges: Sequence[Json], breaks: Callable[[Json], bool], request: Request) -> Resources | None:
    return (
        Resources() if request.placement and breaks(with_defaults(spec_of(request.placement), limit_ranges)) else None
    )


def _items(limit_ranges: Iterable[Json]) -> Iterator[tuple[str, Json]]:
    for each in limit_ranges:
        for item in each["spec"].get("limits") or ():
            yield each["metadata"]["name"], item


def _completed(container: Json, item: Json) -> Json:
    given = container.get("resources") or {}
    requests = {**(item.get("defaultRequest") or {}), **(given.get("requests") or {})}
    limits = {**(item.get("default") or {}), **(given.get("limits") or {})}
    return {**container, "resources": {"requests": requests, "limits": limits}}


# ---- rules ----------------------------------------------------------------------------------------------------------


def _rules(item: Json) -> Iterator[tuple[str, Callable[[Json], bool]]]:
    """Yield the rules of a limit range: a description, and a function that returns whether a pod breaks the rule."""
    amounts_of = {"Container": _of_containers, "Pod": _of_pod}.get(item["type"])
    if amounts_of is None:
        return
    for field, text, breaks in _FIELDS:
        for resource, value in (item.get(field) or {}).items():
            if resource in ("cpu", "memory"):
                description = text.format(value=value, resource=resource, type=item["type"].lower())
                yield description, partial(_any_breaks, breaks, amounts_of, resource, amount(value))


def _any_breaks(
    breaks: Breaks, amounts_of: Callable[[Json, str], Iterable[Amounts]], resource: str, value: Decimal, spec: Json
) -> bool:
    return any(breaks(amounts, value) for amounts in amounts_of(spec, resource))


def _of_containers(spec: Json, resource: str) -> Iterator[Amounts]:
    for container in containers_of(spec):
        request, limit = (container["resources"][field].get(resource) for field in ("requests", "limits"))
        yield None if request is None else amount(request), None if limit is None else amount(limit)


def _of_pod(spec: Json, resource: str) -> Iterator[Amounts]:
    pod = {"spec": {name: value for name, value in spec.items() if name != "overhead"}}
    request, limit = pod_request(pod), pod_limit(pod)
    if resource == "cpu":
        yield Decimal(request.cpu_millicores) / 1000, Decimal(limit.cpu_millicores) / 1000 or None
    else:
        yield Decimal(request.memory_bytes), Decimal(limit.memory_bytes) or None


def _below_minimum(amounts: Amounts, value: Decimal) -> bool:
    request, limit = amounts
    return request is None or request < value or (limit is not None and limit < value)


def _above_maximum(amounts: Amounts, value: Decimal) -> bool:
    request, limit = amounts
    return limit is None or limit > value or (request is not None and request > value)


def _above_ratio(amounts: Amounts, value: Decimal) -> bool:
    request, limit = amounts
    return not request or not limit or limit / request > value


def _above_default(amounts: Amounts, value: Decimal) -> bool:
    """Return whether the request exceeds the default limit, which applies because the container has no limit of its own."""
    request, limit = amounts
    return limit == value and request is not None and request > value


_FIELDS: Final[Sequence[tuple[str, str, Breaks]]] = (
    ("min", "at least {value} {resource} per {type}", _below_minimum),
    ("max", "at most {value} {resource} per {type}", _above_maximum),
    ("maxLimitRequestRatio", "at most {value} times the {resource} request as limit per {type}", _above_ratio),
    ("default", "a default limit of {value} {resource} per {type}", _above_default),
)


@dataclass(frozen=True, slots=True)
class Cap:
    """A maximum of the requests of all drivers and executors in the namespace, which the connection sets; None without one."""

    cpu_millicores: int | None = None
    memory_bytes: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is any maximum."""
        return self.cpu_millicores is not None or self.memory_bytes is not None


@dataclass(frozen=True, slots=True)
class _Totals:
    """What a quota sums up, the requests or the limits of pods: the field of a container, and the names of each total in the quota."""

    field: str
    cpu_names: Sequence[str]
    memory_names: Sequence[str]
    count_names: Sequence[str]
    of_pod: Callable[[Json], Resources]


_REQUESTS: Final = _Totals(
    "requests", ("cpu", "requests.cpu"), ("memory", "requests.memory"), ("pods", "count/pods"), pod_request
)
_LIMITS: Final = _Totals("limits", ("limits.cpu",), ("limits.memory",), (), pod_limit)


def limits_of(
    quotas: Iterable[Json], limit_ranges: Sequence[Json], cap: Cap, own_pods: Iterable[Json]
) -> tuple[Limit, ...]:
    """Return the limits of a namespace with these drivers and executors, in the order in which they are reported."""
    of_quotas = [limit for quota in quotas for limit in _of_quota(quota, limit_ranges)]
    of_cap = [_of_cap(cap, own_pods)] if cap else []
    return (*of_quotas, *forbidding_limits(limit_ranges), *of_cap)


def unused(quota: Json) -> Json:
    """Return a quota as if no pod used it."""
    hard = quota["spec"].get("hard") or {}
    return {**quota, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}


def _of_cap(cap: Cap, own_pods: Iterable[Json]) -> Limit:
    """Return the cap. As in a quota, a pod that is being deleted does not count: on a lost node, it stays until the node returns."""
    held = (pod for pod in own_pods if not is_terminal(pod) and not pod["metadata"].get("deletionTimestamp"))
    used = sum(map(pod_request, held), Resources())
    return Limit(
        kind=LimitKind.CAP,
        cpu_millicores=_left(cap.cpu_millicores, used.cpu_millicores),
        memory_bytes=_left(cap.memory_bytes, used.memory_bytes),
    )


def _left(cap: int | None, used: int) -> int | None:
    return None if cap is None else max(cap - used, 0)


def _of_quota(quota: Json, limit_ranges: Sequence[Json]) -> list[Limit]:
    """Return the limits of a quota: one for requests and the number of pods, one for limits."""
    room = _room(quota)
    limits = (_of_totals(quota, room, limit_ranges, totals) for totals in (_REQUESTS, _LIMITS))
    return [each for each in limits if (each.cpu_millicores, each.memory_bytes, each.count) != (None, None, None)]


def _of_totals(quota: Json, room: Mapping[str, Decimal], limit_ranges: Sequence[Json], totals: _Totals) -> Limit:
    count = _least(room, totals.count_names, 1)
    cpu, memory = _least(room, totals.cpu_names, 1000), _least(room, totals.memory_names, 1)
    tracked = [resource for resource, value in (("cpu", cpu), ("memory", memory)) if value is not None]
    charge = cache(partial(_charge, quota, limit_ranges, totals, tracked))
    name = quota["metadata"]["name"]
    return Limit(kind=LimitKind.QUOTA, name=name, cpu_millicores=cpu, memory_bytes=memory, count=count, charge=charge)


def _room(quota: Json) -> Mapping[str, Decimal]:
    """Return what the quota allows more, by name. A quota whose usage is not known yet allows nothing, as the API server decides."""
    status, wanted = quota.get("status") or {}, quota["spec"].get("hard") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    return {
        name: max(amount(hard[name]) - amount(used[name]), Decimal()) if name in hard and name in used else Decimal()
        for name in wanted
    }


def _least(room: Mapping[str, Decimal], names: Iterable[str], scale: int) -> int | None:
    return min((int(room[name] * scale) for name in names if name in room), default=None)


def _charge(
    quota: Json,
    limit_ranges: Sequence[Json],
    totals: _Totals,
    tracked: Sequence[str],
    request: Request,
) -> Resources | None:
    """Return what a driver or an executor takes from a quota. None if the quota does not count it, MUCH if the quota refuses it."""
    if not request.placement:
        return request
    spec = with_defaults(spec_of(request.placement), limit_ranges)
    if not is_in_scope(quota["spec"], spec):
        return None
    has_all = all(_has(container, totals.field, tracked) for container in containers_of(spec))
    return totals.of_pod({"spec": spec}) if has_all else Resources(MUCH, MUCH)


def _has(container: Json, field: str, tracked: Iterable[str]) -> bool:
    values = (container.get("resources") or {}).get(field) or {}
    return all(resource in values for resource in tracked)


def is_in_scope(quota: Json, spec: Json) -> bool:
    """Return whether a quota counts a pod: all scopes of the quota must match."""
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
