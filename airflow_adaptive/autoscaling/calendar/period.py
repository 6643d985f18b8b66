"""Periods of the calendar in local time, as values that JSON can represent."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import cache, lru_cache

from airflow_adaptive.autoscaling.calendar.cron import Cron, parse_cron
from airflow_adaptive.autoscaling.calendar.wall_clock import WallClock

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

MIDNIGHT = "00:00"
NEXT_MIDNIGHT = "24:00"

_DAY = timedelta(days=1)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)

Span = tuple[datetime, datetime]
"""Begin (inclusive) and end (exclusive), as instants or as local times."""


class Holidays(StrEnum):
    """Relation of a period to holidays."""

    LIKE_OTHERS = "like_others"
    """Holidays are normal days."""
    ONLY = "only"
    """The period begins on holidays only."""
    NEVER = "never"
    """The period does not begin on holidays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A recurring period: on certain days between two times, or after each firing of a cron expression.

    Times are local times of the policy. A period belongs to the day on which it begins: "fri" from 22:00 to 06:00 ends on Saturday.

    Attributes:
        name: name of the period, unique within a policy.
        cron: cron expression of the begin; only `duration`, `dates` and `holidays` can be combined with it.
        duration: time on the wall clock, instead of `end`; a cron expression that fires every hour uses real time.
        weekdays: weekdays of the begin, of `WEEKDAYS`; empty for all.
        start: time of the begin, "HH:MM" or "HH:MM:SS"; None for midnight.
        end: time of the end; a time that is not later than `start` lies on the next day; None for the midnight at the end of the day.
        dates: dates of the begin, "2026-12-24", or ranges, "2026-12-24/2027-01-02"; empty for all.
        holidays: relation to holidays.
    """

    name: str
    cron: str | None = None
    duration: timedelta | None = None
    weekdays: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    dates: tuple[str, ...] = ()
    holidays: Holidays = Holidays.LIKE_OTHERS

    @property
    def plan(self) -> Cron | None:
        """The parsed cron expression, None without one."""
        return None if self.cron is None else parse_cron(self.cron)

    @property
    def is_weekly(self) -> bool:
        """Whether all weeks are equal."""
        to_utc = not self.dates and self.holidays is Holidays.LIKE_OTHERS
        return to_utc and (self.plan is None or self.plan.is_weekly)

    def begins_on(self, day: date, holidays: Collection[date]) -> bool:
        """Return whether the period begins on a day."""
        if self.holidays is not Holidays.LIKE_OTHERS and (day in holidays) is not (self.holidays is Holidays.ONLY):
            return False
        if self.dates and not any(first <= day <= last for first, last in read_dates(self.dates)):
            return False
        if self.plan is not None:
            return self.plan.fires_on(day)
        return not self.weekdays or WEEKDAYS[day.weekday()] in self.weekdays

    def local_spans(self, day: date) -> Iterator[Span]:
        """Yield the spans of the period that begin on a day, in local time."""
        midnight = datetime.combine(day, time())
        if self.plan is not None:
            for minute in self.plan.minutes:
                begin = midnight + timedelta(minutes=minute)
                yield begin, begin + (self.duration or _DAY)
            return
        begin = midnight + read_time(self.start or MIDNIGHT)
        if self.duration is not None:
            yield begin, begin + self.duration
            return
        end = midnight + read_time(self.end or NEXT_MIDNIGHT)
        yield begin, end if end > begin else end + _DAY

    def spans(self, clock: WallClock, holidays: Collection[date], begin: datetime, end: datetime) -> list[Span]:
        """Return the spans of the period that intersect the interval from `begin` to `end`, in order, merged, in UTC."""
        day = clock.local(begin).date() - (self.duration or _DAY) - 2 * _DAY
        until = clock.local(end).date() + _DAY
        found: list[Span] = []
        while day <= until:
            if self.begins_on(day, holidays):
                found += _spans_on(self, clock, day)
            day += _DAY
        return [(start, stop) for start, stop in joined(found) if stop > begin and start < end]


def joined(spans: Collection[Span]) -> list[Span]:
    """Return the spans in order; adjoining and overlapping spans are merged, and empty spans are omitted."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


@lru_cache(maxsize=256)
def _spans_on(period: Period, clock: WallClock, day: date) -> tuple[Span, ...]:
    """Return the spans of a period that begin on a day, in UTC.

    The result is cached, because a cron expression may fire every minute, and each advice of each job needs several days. The cache
    then has at most about 60 MB.
    """
    spans = period.local_spans(day)
    if period.plan is not None and period.plan.every_hour:
        return tuple((at, at + (stop - start)) for start, stop in spans for at in clock.instants_of(start))
    return tuple((clock.instant(start), clock.instant(stop)) for start, stop in joined([*spans]))


@cache
def read_time(text: str) -> timedelta:
    """Return the time since midnight. Raises `ValueError`."""
    matched = _TIME.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is not a time of day: use 'HH:MM'")
    hours, minutes, seconds = (int(part or 0) for part in matched.groups())
    read = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or read > _DAY:  # noqa: PLR2004  largest on a clock
        raise ValueError(f"{text!r} is not a time of day: use a time from 00:00 to 24:00")
    return read


@cache
def read_dates(texts: tuple[str, ...]) -> tuple[tuple[date, date], ...]:
    """First and last date of each range. Raises `ValueError`."""
    return tuple(map(_range, texts))


@cache
def days_of(dates: tuple[str, ...]) -> frozenset[date]:
    """Return all days of dates and ranges of dates. Raises `ValueError`."""
    return frozenset(
        first + number * _DAY for first, last in read_dates(dates) for number in range((last - first).days + 1)
    )


def _range(text: str) -> tuple[date, date]:
    first, _, last = text.partition("/")
    try:
        read = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a date: use '2026-12-24', or '2026-12-24/2027-01-02' for a range") from error
    if read[1] < read[0]:
        raise ValueError(f"{text!r} ends before it begins: swap its dates")
    return read
