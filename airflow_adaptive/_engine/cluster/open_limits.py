"""The limits of a cluster while drivers and executors take from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_adaptive._core.ports import MIB, Limit, LimitKind, Request, Resources

UNBOUNDED: Final = 1 << 60
"""Number of executors that no cluster can run."""


CORE: Final = 1000
"""Millicores of a core."""

_ORDER: Final = tuple(LimitKind)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a job gets no more executors.

    Attributes:
        kind: kind of the first limit that allows no more; WORKERS if no worker has room for more.
        name: name of the limit, "" without one.
        text: what the limit still allows, for users. The amounts change often, so the text does not count in a comparison.
        is_of_driver: whether the driver lacks room, and not an executor.
        is_of_placement: whether no worker accepts the driver or an executor, however much room the workers have.
    """

    kind: LimitKind
    name: str = ""
    text: str = field(default="", compare=False)
    is_of_driver: bool = False
    is_of_placement: bool = False


def not_accepted(*, is_of_driver: bool) -> Shortage:
    """Return the shortage of a job whose driver or executors no worker accepts."""
    role = "the driver" if is_of_driver else "an executor"
    text = f"no worker is ready that accepts {role}: see its node selector, tolerations and node affinity"
    return Shortage(LimitKind.WORKERS, text=text, is_of_driver=is_of_driver, is_of_placement=True)


class OpenLimits:
    """What the limits still allow, in the order of `LimitKind`."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = sorted(limits, key=lambda limit: _ORDER.index(limit.kind))

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return bool(self._limits)

    @property
    def remaining(self) -> tuple[Limit, ...]:
        """The limits with what they still allow."""
        return tuple(self._limits)

    def allowed(self, request: Request, before: Request | None = None) -> int:
        """Return how many drivers or executors the limits allow.

        Args:
            request: request of one of them.
            before: request of a driver that comes first, None without one.
        """
        return min((_allowed(limit, request, before) for limit in self._limits), default=UNBOUNDED)

    def charge(self, request: Request, count: int) -> None:
        """Take a number of drivers or executors from the limits."""
        if count:
            self._limits = [_charged(limit, limit.charge(request), count) for limit in self._limits]

    def shortage(self, request: Request) -> Shortage | None:
        """Return the first limit that does not allow a driver or an executor, None if all limits allow it."""
        for limit in self._limits:
            if not _allowed(limit, request, None):
                return Shortage(limit.kind, limit.name, f"{_subject(limit)} allows {_lacking(limit, request)} more")
        return None

    def after(self, request: Request, count: int, before: Request | None) -> OpenLimits:
        """Return what the limits allow after a number of executors, and after the driver `before` if there is one."""
        limits = OpenLimits(self._limits)
        if before is not None:
            limits.charge(before, 1)
        limits.charge(request, count)
        return limits


def _allowed(limit: Limit, request: Request, before: Request | None) -> int:
    left = limit if before is None else _charged(limit, limit.charge(before), 1)
    counts = (max(free // taken, 0) for free, taken, _ in _dimensions(left, request))
    return min(counts, default=UNBOUNDED)


def _lacking(limit: Limit, request: Request) -> str:
    return " and ".join(text for free, taken, text in _dimensions(limit, request) if free < taken)


def _dimensions(limit: Limit, request: Request) -> list[tuple[int, int, str]]:
    """Return for each dimension that a limit bounds: what the limit allows, what the request takes, and the allowed amount as text."""
    charge = limit.charge(request)
    if charge is None:
        return []
    cpu, memory = (max(free or 0, 0) for free in (limit.cpu_millicores, limit.memory_bytes))
    dimensions = (
        (limit.cpu_millicores, charge.cpu_millicores, f"{cpu / 1000:g} core{'' if cpu == CORE else 's'}"),
        (limit.memory_bytes, charge.memory_bytes, f"{memory // MIB:,} MiB"),
        (limit.count, 1, "no driver or executor"),
    )
    return [(free, taken, text) for free, taken, text in dimensions if free is not None and taken]


def _subject(limit: Limit) -> str:
    match limit.kind:
        case LimitKind.WORKERS:
            return "the capacity of the workers"
        case LimitKind.CAP:
            return "the cap of the connection"
        case _:
            return f"{limit.kind} `{limit.name}`"


def _charged(limit: Limit, charge: Resources | None, count: int) -> Limit:
    if charge is None:
        return limit
    return replace(
        limit,
        cpu_millicores=_less(limit.cpu_millicores, count * charge.cpu_millicores),
        memory_bytes=_less(limit.memory_bytes, count * charge.memory_bytes),
        count=_less(limit.count, count),
    )


def _less(free: int | None, taken: int) -> int | None:
    return None if free is None else free - taken
