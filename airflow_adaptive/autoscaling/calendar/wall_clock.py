"""The wall clock of a time zone: the mapping of local times to instants, also where clocks are set forward or back.

A skipped local time maps to the instant at which clocks are set forward, which is the end of the gap. A local time that occurs twice maps
to the first instant, or to the second one as an option. Therefore later local times never map to earlier instants, and periods that
adjoin on the wall clock adjoin in real time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache

import pendulum

_INSTANT = timedelta(microseconds=1)


class Repeated(StrEnum):
    """Instant of a local time that occurs twice."""

    FIRST = "first"
    SECOND = "second"


@cache
def zone_of(name: str) -> tzinfo:
    """Return the time zone with this name.

    Raises:
        ValueError: the time zone is unknown.
    """
    if name not in known_zones():
        raise ValueError(f"time zone {name!r} is not known")
    return pendulum.timezone(name)


@cache
def known_zones() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset(pendulum.timezones())


def to_utc(at: datetime) -> datetime:
    """Return the instant in UTC as a `datetime` of the standard library, because subclasses calculate differently.

    Raises:
        ValueError: the instant has no time zone.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone: add one, for example UTC")
    there = at.astimezone(UTC)
    return datetime.combine(date(there.year, there.month, there.day), there.time(), UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """The wall clock of a zone.

    Attributes:
        zone: name of the time zone.
        repeated: instant of a local time that occurs twice.
    """

    zone: str
    repeated: Repeated = Repeated.FIRST

    def zoned(self, at: datetime) -> datetime:
        """Return the local time of an instant, with the time zone."""
        return at.astimezone(zone_of(self.zone))

    def local(self, at: datetime) -> datetime:
        """Return the local time of an instant, without a time zone."""
        return self.zoned(at).replace(tzinfo=None)

    def instants_of(self, local: datetime) -> tuple[datetime, ...]:
        """Return all instants of a local time: none, one or two, in UTC."""
        folds = (local.replace(tzinfo=zone_of(self.zone), fold=fold).astimezone(UTC) for fold in (0, 1))
        return tuple(sorted({at for at in folds if self.local(at) == local}))

    def instant(self, local: datetime) -> datetime:
        """Return the instant to which a local time maps, in UTC."""
        found = self.instants_of(local)
        if not found:
            return self._end_of_gap(local)
        return found[-1 if self.repeated is Repeated.SECOND else 0]

    def _end_of_gap(self, local: datetime) -> datetime:
        """Return the instant at which the clock skipped a local time."""
        zone = zone_of(self.zone)
        before, after = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
        old = self.zoned(before).utcoffset()
        while after - before > _INSTANT:
            middle = before + (after - before) // 2
            if self.zoned(middle).utcoffset() == old:
                before = middle
            else:
                after = middle
        return after
