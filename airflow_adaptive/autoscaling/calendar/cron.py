"""Cron expressions as days and times of day, parsed by croniter, which Airflow's timetables also use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

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
