"""Wall clock of a time zone: which instant a local time means, also where clocks are set forward or back.

A time that clocks skip means the instant at which they are set forward, so what begins then begins at the gap's end. A
time that clocks show twice means the first of both instants unless the second is asked for. So later local times never
mean earlier instants, and what adjoins on the wall clock adjoins in real time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache

import pendulum

_INSTANT = timedelta(microseconds=1)


class Repeated(StrEnum):
    """Which instant a local time means that clocks show twice."""

    FIRST = "first"
    SECOND = "second"


@cache
def zone_of(name: str) -> tzinfo:
    """The time zone of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in known_zones():
        raise ValueError(f"time zone {name!r} is not known")
    return pendulum.timezone(name)


@cache
def known_zones() -> frozenset[str]:
    """Names of all time zones."""
    return frozenset(pendulum.timezones())


def plain(at: datetime) -> datetime:
    """An instant in UTC, as the standard library has it: other kinds calculate in their own way.

    Raises:
        ValueError: it has no time zone.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone: give one, such as UTC")
    there = at.astimezone(UTC)
    return datetime.combine(date(there.year, there.month, there.day), there.time(), UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """The wall clock of a zone.

    Attributes:
        zone: its name.
        repeated: which of two instants a local time means.
    """

    zone: str
    repeated: Repeated = Repeated.FIRST

    def shown(self, at: datetime) -> datetime:
        """What it shows at an instant, with the zone."""
        return at.astimezone(zone_of(self.zone))

    def local(self, at: datetime) -> datetime:
        """What it shows at an instant, without a zone."""
        return self.shown(at).replace(tzinfo=None)

    def both(self, local: datetime) -> tuple[datetime, ...]:
        """All instants at which it shows a local time: none, one or two, in UTC."""
        folds = (local.replace(tzinfo=zone_of(self.zone), fold=fold).astimezone(UTC) for fold in (0, 1))
        return tuple(sorted({at for at in folds if self.local(at) == local}))

    def instant(self, local: datetime) -> datetime:
        """The instant that a local time means, in UTC."""
        found = self.both(local)
        if not found:
            return self._end_of_gap(local)
        return found[-1 if self.repeated is Repeated.SECOND else 0]

    def _end_of_gap(self, local: datetime) -> datetime:
        """The instant at which the clock was set forward over a local time."""
        zone = zone_of(self.zone)
        before, after = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
        old = self.shown(before).utcoffset()
        while after - before > _INSTANT:
            middle = before + (after - before) // 2
            if self.shown(middle).utcoffset() == old:
                before = middle
            else:
                after = middle
        return after
