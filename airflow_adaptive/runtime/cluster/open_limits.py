"""The limits of a cluster while drivers and executors take from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from airflow_adaptive.ports import Limit, Request, Resources

UNBOUNDED: Final = 1 << 60
"""Number of executors that no cluster can run."""


class OpenLimits:
    """What the limits still allow."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        """Start with what the cluster manager reported."""
        self._limits = list(limits)

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


def _allowed(limit: Limit, request: Request, before: Request | None) -> int:
    left = limit if before is None else _charged(limit, limit.charge(before), 1)
    charge = limit.charge(request)
    if charge is None:
        return UNBOUNDED
    dimensions = (
        (left.cpu_millicores, charge.cpu_millicores),
        (left.memory_bytes, charge.memory_bytes),
        (left.count, 1),
    )
    counts = (max(free // taken, 0) for free, taken in dimensions if free is not None and taken)
    return min(counts, default=UNBOUNDED)


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
