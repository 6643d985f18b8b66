"""LimitRanges of a namespace: the values that they add to containers, and the pods that they forbid. Pure.

Theory: the admission plugin LimitRanger first adds default values to the containers, and then checks its rules. It refuses a pod that breaks
a rule each time, so a broken rule is a limit that allows no further driver or executor of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache, partial, reduce
from typing import Final

from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import spec_of
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import pod_limit, pod_request
from airflow_adaptive._clusters.kubernetes.capacity.quantities import Json, amount, containers_of
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
            charge = cache(partial(_charge, limit_ranges, breaks))
            yield Limit(kind=LimitKind.QUOTA, name=f"{name} ({rule})", count=0, charge=charge)


def _charge(limit_ranges: Sequence[Json], breaks: Callable[[Json], bool], request: Request) -> Resources | None:
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
