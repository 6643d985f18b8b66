"""Periods of the calendar: when they hold by the wall clock, in plain values that JSON can carry."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import cache

from airflow_adaptive.autoscaling.calendar.cron import Cron, parse_cron
from airflow_adaptive.autoscaling.calendar.wall_clock import WallClock

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

MIDNIGHT = "00:00"
NEXT_MIDNIGHT = "24:00"

_DAY = timedelta(days=1)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)

Span = tuple[datetime, datetime]
"""From an instant, or a local time, until just before another one."""


class Holidays(StrEnum):
    """What holidays are to a period."""

    LIKE_OTHERS = "like_others"
    """Days like all others."""
    ONLY = "only"
    """The only days on which it begins."""
    NEVER = "never"
    """Days on which it does not begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """When something holds: on certain days from a time to another, or after each firing of a cron expression.

    Times are those of the policy's wall clock. A period belongs to the day on which it begins: "fri" from 22:00 to 06:00 ends
    on Saturday.

    Attributes:
        name: for people; unique within a policy.
        cron: when it begins; with it go `lasts`, `dates` and `holidays` only.
        lasts: how long, by the wall clock, instead of `end`; a cron expression that fires in each hour goes by real time.
        weekdays: on which it begins, of `WEEKDAYS`; none for all.
        start: when it begins, "HH:MM" or "HH:MM:SS"; None for midnight.
        end: when it has ended; not later than `start` means on the next day; None for the midnight at the end of the day.
        dates: on which it begins: "2026-12-24", or from and to as "2026-12-24/2027-01-02"; none for all.
        holidays: whether it begins on holidays, or on them only.
    """

    name: str
    cron: str | None = None
    lasts: timedelta | None = None
    weekdays: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    dates: tuple[str, ...] = ()
    holidays: Holidays = Holidays.LIKE_OTHERS

    @property
    def plan(self) -> Cron | None:
        """Its cron expression, read."""
        return None if self.cron is None else parse_cron(self.cron)

    @property
    def is_weekly(self) -> bool:
        """Whether every week is like the other."""
        plain = not self.dates and self.holidays is Holidays.LIKE_OTHERS
        return plain and (self.plan is None or self.plan.is_weekly)

    def begins_on(self, day: date, holidays: Collection[date]) -> bool:
        """Whether it begins on a day."""
        if self.holidays is not Holidays.LIKE_OTHERS and (day in holidays) is not (self.holidays is Holidays.ONLY):
            return False
        if self.dates and not any(first <= day <= last for first, last in read_dates(self.dates)):
            return False
        if self.plan is not None:
            return self.plan.fires_on(day)
        return not self.weekdays or WEEKDAYS[day.weekday()] in self.weekdays

    def local_spans(self, day: date) -> Iterator[Span]:
        """From when to when it holds if it begins on a day, in local times."""
        midnight = datetime.combine(day, time())
        if self.plan is not None:
            for minute in self.plan.minutes:
                begin = midnight + timedelta(minutes=minute)
                yield begin, begin + (self.lasts or _DAY)
            return
        begin = midnight + read_time(self.start or MIDNIGHT)
        if self.lasts is not None:
            yield begin, begin + self.lasts
            return
        end = midnight + read_time(self.end or NEXT_MIDNIGHT)
        yield begin, end if end > begin else end + _DAY

    def spans(self, clock: WallClock, holidays: Collection[date], begin: datetime, end: datetime) -> list[Span]:
        """From when to when it holds, for all that touches the time from `begin` to `end`; in order, joined, in UTC."""
        day = clock.local(begin).date() - (self.lasts or _DAY) - 2 * _DAY
        until = clock.local(end).date() + _DAY
        found: list[Span] = []
        while day <= until:
            if self.begins_on(day, holidays):
                found += self._real(clock, day)
            day += _DAY
        return [(start, stop) for start, stop in joined(found) if stop > begin and start < end]

    def _real(self, clock: WallClock, day: date) -> Iterator[Span]:
        by_real_time = self.plan is not None and self.plan.every_hour
        if by_real_time:
            yield from ((at, at + (stop - start)) for start, stop in self.local_spans(day) for at in clock.both(start))
        else:
            yield from ((clock.instant(start), clock.instant(stop)) for start, stop in joined([*self.local_spans(day)]))


def joined(spans: Collection[Span]) -> list[Span]:
    """The spans in order, those that touch or overlap as one, empty ones left out."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


@cache
def read_time(text: str) -> timedelta:
    """Time since midnight. Raises `ValueError`."""
    matched = _TIME.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is no time of day: give 'HH:MM'")
    hours, minutes, seconds = (int(part or 0) for part in matched.groups())
    read = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or read > _DAY:  # noqa: PLR2004  largest on a clock
        raise ValueError(f"{text!r} is no time of day: it goes from 00:00 to 24:00")
    return read


@cache
def read_dates(texts: tuple[str, ...]) -> tuple[tuple[date, date], ...]:
    """First and last date of each range. Raises `ValueError`."""
    return tuple(map(_range, texts))


def _range(text: str) -> tuple[date, date]:
    first, _, last = text.partition("/")
    try:
        read = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: give '2026-12-24', or '2026-12-24/2027-01-02' for a range") from error
    if read[1] < read[0]:
        raise ValueError(f"{text!r} ends before it begins: swap its dates")
    return read
