"""Periods of the calendar in local time, as values that JSON can represent; cron expressions, and the wall clock of a time zone.

A skipped local time maps to the instant at which clocks are set forward, which is the end of the gap. A local time that occurs twice maps
to the first instant, or to the second one as an option. Therefore later local times never map to earlier instants, and periods that
adjoin on the wall clock adjoin in real time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import cache, lru_cache

import pendulum
from croniter import croniter

_CHANCE = re.compile(r"(^|\s)[hr](\(|/|\s|$)", re.IGNORECASE)
_FIELDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A cron expression of five fields.

    Attributes:
        minutes: minutes of a day at which the expression fires, in order.
        days_of_month: days of the month, None for all; 0 is the last day.
        months: months, None for all.
        weekdays: pairs of a weekday (0 is Sunday) and its number in the month (0 is the last, None is every); None for all.
        every_hour: whether the expression fires every hour; such an expression uses real time where clocks are set.
    """

    minutes: tuple[int, ...]
    days_of_month: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[tuple[int, int | None]] | None
    every_hour: bool

    @property
    def is_weekly(self) -> bool:
        """Whether all weeks are equal."""
        numbered = any(number is not None for _, number in self.weekdays or ())
        return self.days_of_month is None and self.months is None and not numbered

    def fires_on(self, day: date) -> bool:
        """Return whether the expression fires on a day: if both day fields are restricted, one match is sufficient."""
        if self.months is not None and day.month not in self.months:
            return False
        by_month = self.days_of_month is None or not self.days_of_month.isdisjoint({day.day, _or_last(day)})
        by_week = self.weekdays is None or self._is_weekday(day)
        if self.days_of_month is not None and self.weekdays is not None:
            return by_month or by_week
        return by_month and by_week

    def _is_weekday(self, day: date) -> bool:
        number = (day.day - 1) // 7 + 1
        last = (day + timedelta(days=7)).month != day.month
        weekday = day.isoweekday() % 7
        mine = {(weekday, None), (weekday, number)} | ({(weekday, 0)} if last else set())
        return self.weekdays is not None and not mine.isdisjoint(self.weekdays)


@cache
def parse_cron(expression: str) -> Cron:
    """Parse an expression with five fields, or a preset such as "@daily".

    Raises:
        ValueError: the expression is invalid.
    """
    if _CHANCE.search(expression):
        raise ValueError(f"cron {expression!r} uses random times (H, R): use fixed times")
    if not expression.startswith("@") and len(expression.split()) != _FIELDS:
        raise ValueError(f"cron {expression!r} must have five fields: minute, hour, day, month and weekday")
    try:
        fields, numbered = croniter.expand(expression)
    except ValueError as error:
        raise ValueError(f"cron {expression!r} cannot be parsed: {error}") from error
    minutes, hours, days, months, weekdays = fields
    if numbered and "*" not in days:  # croniter supports neither both nor one of them
        raise ValueError(
            f"cron {expression!r} has a day of month and a numbered weekday: use a separate window for each"
        )
    return Cron(
        minutes=tuple(60 * hour + minute for hour in _all(hours, 24) for minute in _all(minutes, 60)),
        days_of_month=_restricted(days),
        months=_restricted(months),
        weekdays=None if "*" in weekdays else frozenset(_numbered(weekdays, numbered)),
        every_hour=len(_all(hours, 24)) == 24,  # noqa: PLR2004  hours of a day
    )


def _all(field: list[int | str], count: int) -> list[int]:
    return list(range(count)) if "*" in field else sorted(int(number) for number in field)


def _restricted(field: list[int | str]) -> frozenset[int] | None:
    return None if "*" in field else frozenset(0 if number == "l" else int(number) for number in field)


def _numbered(weekdays: list[int | str], numbered: dict[int, set[int | str]]) -> list[tuple[int, int | None]]:
    return [
        (int(weekday), None if number is None else 0 if number == "l" else int(number))
        for weekday in weekdays
        for number in numbered.get(int(weekday), {None})
    ]


def _or_last(day: date) -> int:
    """0 on the last day of a month, else the day."""
    return 0 if (day + timedelta(days=1)).month != day.month else day.day


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
