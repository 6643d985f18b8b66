"""Everything that is wrong with a scheduled policy, found before it is used.

What overlaps is found on the wall clock: what does not overlap there does not in real time either (`calendar_clock`), in no
zone and no year. Weekly periods are compared over a week; where months or days of months matter, over the 28 years after
which the calendar repeats itself; and on all dates that are named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Any

from airflow_adaptive.autoscaling.calendar.cron import parse_cron
from airflow_adaptive.autoscaling.calendar.period import (
    MIDNIGHT,
    NEXT_MIDNIGHT,
    WEEKDAYS,
    Holidays,
    Period,
    Span,
    joined,
    read_dates,
    read_time,
)
from airflow_adaptive.autoscaling.calendar.wall_clock import Repeated, known_zones
from airflow_adaptive.autoscaling.policy import Bounds
from airflow_adaptive.scheduler.errors import did_you_mean

if TYPE_CHECKING:
    from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy, Window

NO_WINDOW = "there is no window: give at least one, or no policy"

_DAY = timedelta(days=1)
LONGEST_PERIOD = 366 * _DAY
LARGEST_MARGIN = 10
LONGEST_RANGE = 3660 * _DAY
"""Longest range of dates."""

_WEEK = tuple(date(1990, 1, 1) + day * _DAY for day in range(7))
"""Some week; no date that is named lies in it."""
_CYCLE = (date(1972, 1, 1), 10227)
"""28 years, after which dates have the same weekdays again."""


def violations(policy: ScheduledPolicy) -> list[str]:
    """Everything that is wrong, each with the fix."""
    wrong = _zone(policy.zone) + _dates("the holidays", policy.holidays) + _look_ahead(policy.look_ahead)
    wrong += _member("repeated", policy.repeated, Repeated)
    if not policy.windows:
        wrong.append(NO_WINDOW)
    if policy.default is not None:
        wrong += _bounds("the default", policy.default)
    wrong += [finding for window in policy.windows for finding in _window(window)]
    wrong += [finding for period in policy.excluded for finding in _period(f"excluded period {period.name!r}", period)]
    wrong += _names(policy)
    return wrong if wrong else _together(policy)


def _zone(zone: Any) -> list[str]:
    if isinstance(zone, str) and zone in known_zones():
        return []
    return [
        f"time zone {zone!r} is not known{did_you_mean(str(zone), known_zones()) or ': give one such as Europe/Berlin'}"
    ]


def _names(policy: ScheduledPolicy) -> list[str]:
    names = [period.name for period in _periods(policy)]
    return [
        f"{names.count(name)} windows or excluded periods have the name {name!r}: give each its own"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def _window(window: Window) -> list[str]:
    label = f"window {window.when.name!r}"
    wrong = _bounds(label, window.bounds) + _period(label, window.when)
    if type(window.priority) is not int:
        wrong.append(f"{label}: priority {window.priority!r} must be a whole number")
    return wrong


def _bounds(label: str, bounds: Any) -> list[str]:
    if not isinstance(bounds, Bounds):
        return [f"{label}: parallelism {bounds!r} must be a number, a pair (lower, upper), or vertex: one of these"]
    return [f"{label}: {finding}" for finding in bounds.violations()]


def _period(label: str, period: Period) -> list[str]:
    wrong = [*_cron(period), *_lasts(period.lasts), *_days(period), *_times(period)]
    wrong += _member("holidays", period.holidays, Holidays)
    if not period.name or not isinstance(period.name, str):
        wrong.append(f"the name {period.name!r} must be a text that is not empty")
    return [f"{label}: {finding}" for finding in wrong] + _dates(label, period.dates)


def _member(name: str, value: Any, kind: type[StrEnum]) -> list[str]:
    known = ", ".join(repr(each.value) for each in kind)
    return [] if isinstance(value, kind) else [f"{name} {value!r} must be one of {known}"]


def _cron(period: Period) -> Iterator[str]:
    if period.cron is None:
        return
    yield from _tried(parse_cron, period.cron)
    if period.lasts is None:
        yield "cron says when it begins: say with lasts how long it is"
    if period.start is not None or period.end is not None or period.weekdays:
        yield "cron goes with lasts, dates and holidays: leave out start, end and weekdays"


def _lasts(lasts: Any) -> Iterator[str]:
    if lasts is None:
        return
    if not isinstance(lasts, timedelta):
        yield f"lasts {lasts!r} is no duration: give a timedelta, or text such as '8 h'"
    elif not timedelta(0) < lasts <= LONGEST_PERIOD:
        yield f"lasts {lasts} must be longer than zero and at most {LONGEST_PERIOD.days} days"


def _days(period: Period) -> Iterator[str]:
    for weekday in period.weekdays:
        if weekday not in WEEKDAYS:
            yield f"weekday {weekday!r} is not known: they are {', '.join(WEEKDAYS)}"


def _times(period: Period) -> Iterator[str]:
    given = [text for text in (period.start, period.end) if text is not None]
    wrong = [finding for text in given for finding in _tried(read_time, text)]
    yield from wrong
    if period.end is not None and period.lasts is not None:
        yield "end and lasts exclude each other: leave one out"
    if wrong or period.lasts is not None:
        return
    start, end = read_time(period.start or MIDNIGHT), read_time(period.end or NEXT_MIDNIGHT)
    if start == _DAY:
        yield "it starts at 24:00: give 00:00 of the next day"
    if start == end:
        yield f"it is empty, it starts and ends at {period.start or period.end}: give 00:00 to 24:00 for the whole day"


def _dates(label: str, dates: tuple[str, ...]) -> list[str]:
    found = [(text, list(_tried(lambda text: read_dates((text,)), text))) for text in dates]
    wrong = [finding for _, violations in found for finding in violations]
    sound = [text for text, violations in found if not violations]
    wrong += [
        f"dates {text!r} are more than ten years: split them, or leave them out"
        for text, (first, last) in zip(sound, read_dates(tuple(sound)), strict=True)
        if last - first > LONGEST_RANGE
    ]
    return [f"{label}: {finding}" for finding in wrong]


def _look_ahead(look_ahead: Any) -> list[str]:
    from airflow_adaptive.autoscaling.calendar.scheduled_policy import LookAhead  # noqa: PLC0415  it knows this module

    if look_ahead is None:
        return []
    if not isinstance(look_ahead, LookAhead):
        return [f"look_ahead {look_ahead!r} must be a LookAhead, or None"]
    wrong = []
    margin: Any = look_ahead.margin
    if type(margin) not in (int, float) or not 0 <= margin <= LARGEST_MARGIN:
        wrong.append(f"margin {margin!r} must be a number from 0 to {LARGEST_MARGIN}")
    for name, value in (("unmeasured", look_ahead.unmeasured), ("at_most", look_ahead.at_most)):
        wrong += [] if _is_short(value) else [f"{name} {value!s} must be a duration from 0 to 1 day"]
    return [f"look_ahead: {finding}" for finding in wrong]


def _is_short(value: Any) -> bool:
    return isinstance(value, timedelta) and timedelta(0) <= value <= _DAY


def _tried(read: Callable[[Any], object], text: Any) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"{text!r} must be text"
        return
    try:
        read(text)
    except ValueError as error:
        yield str(error) if repr(text) in str(error) else f"{text!r}: {error}"


def _together(policy: ScheduledPolicy) -> list[str]:
    """What is wrong though each period by itself is sound."""
    from airflow_adaptive.autoscaling.calendar.scheduled_policy import days_of  # noqa: PLC0415  it knows this module

    holidays, periods = days_of(policy.holidays), _periods(policy)
    reach = 1 + max((period.lasts or _DAY).days for period in periods)
    days = _all_days(periods, holidays, reach)
    begins = {period.name: [day for day in days if period.begins_on(day, holidays)] for period in periods}
    wrong = [f"{name!r} never begins: {_never(name, policy)}" for name, found in begins.items() if not found]
    wrong += [
        f"windows {one.when.name!r} and {other.when.name!r} overlap and have the same priority ({_when(begin)}): give one of them"
        " a higher priority"
        for one, other in combinations(policy.windows, 2)
        if one.priority == other.priority
        for begin in _overlap(one.when, other.when, begins, reach)
    ]
    week = set(_week(reach))
    excluded = joined([span for each in policy.excluded for span in _spans(each, week.intersection(begins[each.name]))])
    if any(begin.date() <= _WEEK[0] and end.date() > _WEEK[-1] for begin, end in excluded):
        wrong.append("the excluded periods leave no time in which anything may move: shorten them")
    return wrong


def _never(name: str, policy: ScheduledPolicy) -> str:
    period = next(period for period in _periods(policy) if period.name == name)
    if period.cron is not None and not period.dates:
        return f"there is no day on which cron {period.cron!r} fires"
    if period.holidays is Holidays.ONLY and not policy.holidays:
        return "it is for holidays only, and the policy has none"
    return "none of its dates is such a day: look at its weekdays, cron and holidays"


def _all_days(periods: Sequence[Period], holidays: Collection[date], reach: int) -> list[date]:
    """Days on which anything can begin that the others do not repeat, in order."""
    days = set(_week(reach))
    if any(period.plan is not None and not period.plan.is_weekly for period in periods):
        days |= {_CYCLE[0] + number * _DAY for number in range(_CYCLE[1])}
    named = set(holidays) | {day for period in periods for day in _named(period)}
    return sorted(days | _around(named, reach))


def _week(reach: int) -> list[date]:
    return [_WEEK[0] + number * _DAY for number in range(-reach, 7 + reach)]


def _around(days: Collection[date], reach: int) -> set[date]:
    return {day + number * _DAY for day in days for number in range(-reach, reach + 1)}


def _named(period: Period) -> Iterator[date]:
    for first, last in read_dates(period.dates):
        yield from (first + number * _DAY for number in range((last - first).days + 1))


def _spans(period: Period, days: Iterable[date]) -> list[Span]:
    return joined([span for day in days for span in period.local_spans(day)])


def _overlap(one: Period, other: Period, begins: Mapping[str, list[date]], reach: int) -> list[datetime]:
    """The first local time at which both hold, if there is one; looked for around the days of the one that is rarer."""
    rare, often = sorted((one, other), key=lambda period: len(begins[period.name]))
    days = begins[rare.name]
    near = _around(days, reach).intersection(begins[often.name])
    turns = sorted([(*span, 0) for span in _spans(rare, days)] + [(*span, 1) for span in _spans(often, near)])
    until = [datetime.min] * 2  # noqa: DTZ901  a local time
    for begin, end, which in turns:
        if begin < until[1 - which]:
            return [begin]
        until[which] = end
    return []


def _when(begin: datetime) -> str:
    """When it is, for people: a day of a week like all others by its weekday."""
    if abs(begin.date() - _WEEK[3]) < 7 * _DAY:
        return f"each {begin:%A} at {begin:%H:%M}"
    shown = begin if begin.date() > _CYCLE[0] + _CYCLE[1] * _DAY else begin + 2 * _CYCLE[1] * _DAY
    return f"first on {shown:%Y-%m-%d} at {shown:%H:%M}"


def _periods(policy: ScheduledPolicy) -> list[Period]:
    return [*(window.when for window in policy.windows), *policy.excluded]
