"""Validation of a scheduled policy before its use.

The validation finds overlaps on the wall clock: periods that do not overlap there do not overlap in real time (`period`), in any
time zone and year. It compares weekly periods over one week, periods with months or days of months over the 28 years after which the calendar
repeats itself, and all named dates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from itertools import combinations
from typing import Any

from airflow_adaptive._core.scheduler.errors import did_you_mean
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive.autoscaling.calendar.period import (
    MIDNIGHT,
    NEXT_MIDNIGHT,
    WEEKDAYS,
    Holidays,
    Period,
    Repeated,
    Span,
    days_of,
    joined,
    known_zones,
    parse_cron,
    read_dates,
    read_time,
)
from airflow_adaptive.autoscaling.policy import Bounds

_SHORTEST_LEAD = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Bounds and the times at which they apply.

    Attributes:
        when: times and name of the window.
        bounds: bounds within the window.
        priority: the window with the highest priority applies where windows overlap.
    """

    when: Period
    bounds: Bounds
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAhead:
    """How early the policy advises a scale-up.

    Attributes:
        margin: share of the measured duration of rescales that is added to it.
        unmeasured: assumed duration of a rescale before the first measurement.
        at_most: longest lead time.
    """

    margin: float = 0.5
    unmeasured: timedelta = timedelta(minutes=1)
    at_most: timedelta = timedelta(minutes=15)

    def lead(self, costs: Mapping[Tier, timedelta]) -> timedelta:
        """Return the lead time for these measured durations of rescales.

        A change of bounds never starts a new driver, so that duration counts only if no other was measured.
        """
        measured = {tier: cost for tier, cost in costs.items() if cost >= timedelta(0)}
        likely = [cost for tier, cost in measured.items() if tier < Tier.DRIVER] or list(measured.values())
        longest = min(max(likely, default=self.unmeasured), self.at_most)
        return min(max(longest * (1 + self.margin), _SHORTEST_LEAD), self.at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSchedule:
    """A schedule of bounds, which may be invalid (`violations`).

    Attributes:
        zone: time zone of all times and dates, for example "Europe/Berlin".
        windows: at least one window; windows with the same priority do not overlap.
        default: bounds outside of all windows; None for the bounds that the DAG declares.
        excluded: periods without changes: the bounds at the begin of such a period apply until its end.
        holidays: dates in the format of `Period.dates`.
        look_ahead: lead time of scale-ups; None for no lead time.
        repeated: instant of a local time that occurs twice.
        dry_run: whether the advice is reported only.
    """

    zone: str
    windows: tuple[Window, ...]
    default: Bounds | None = None
    excluded: tuple[Period, ...] = ()
    holidays: tuple[str, ...] = ()
    look_ahead: LookAhead | None = LookAhead()
    repeated: Repeated = Repeated.FIRST
    dry_run: bool = False


NO_WINDOW = "the policy has no window: declare at least one, or no policy"

_DAY = timedelta(days=1)
LONGEST_PERIOD = 366 * _DAY
LARGEST_MARGIN = 10
LONGEST_RANGE = 3660 * _DAY
"""Longest range of dates."""

_WEEK = tuple(date(1990, 1, 1) + day * _DAY for day in range(7))
"""A week without named dates."""
_CYCLE = (date(1972, 1, 1), 10227)
"""28 years, after which dates have the same weekdays."""


def violations(schedule: DeclaredSchedule) -> list[str]:
    """Return all violations, each with the fix."""
    wrong = _zone(schedule.zone) + _dates("the holidays", schedule.holidays) + _look_ahead(schedule.look_ahead)
    wrong += _member("repeated", schedule.repeated, Repeated)
    if not schedule.windows:
        wrong.append(NO_WINDOW)
    if schedule.default is not None:
        wrong += _bounds("the default", schedule.default)
    wrong += [violation for window in schedule.windows for violation in _window(window)]
    wrong += [
        violation for period in schedule.excluded for violation in _period(f"excluded period {period.name!r}", period)
    ]
    wrong += _names(schedule)
    return wrong if wrong else _together(schedule)


def _zone(zone: Any) -> list[str]:
    if isinstance(zone, str) and zone in known_zones():
        return []
    return [
        f"time zone {zone!r} is unknown{did_you_mean(str(zone), known_zones()) or ': use a name such as Europe/Berlin'}"
    ]


def _names(schedule: DeclaredSchedule) -> list[str]:
    names = [str(period.name) for period in _periods(schedule)]  # A DAG file may contain values of any type.
    return [
        f"{names.count(name)} windows or excluded periods have the name {name!r}: use a different name for each"
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
    return [f"{label}: {violation}" for violation in bounds.violations()]


def _period(label: str, period: Period) -> list[str]:
    wrong = [*_cron(period), *_duration(period.duration), *_days(period), *_times(period)]
    wrong += _member("holidays", period.holidays, Holidays)
    if not period.name or not isinstance(period.name, str):
        wrong.append(f"the name {period.name!r} must be a text that is not empty")
    return [f"{label}: {violation}" for violation in wrong] + _dates(label, period.dates)


def _member(name: str, value: Any, kind: type[StrEnum]) -> list[str]:
    known = ", ".join(repr(each.value) for each in kind)
    return [] if isinstance(value, kind) else [f"{name} {value!r} must be one of {known}"]


def _cron(period: Period) -> Iterator[str]:
    if period.cron is None:
        return
    yield from _tried(parse_cron, period.cron)
    if period.duration is None:
        yield "cron declares the begin only: declare the duration"
    if period.start is not None or period.end is not None or period.weekdays:
        yield "cron can be combined with duration, dates and holidays only: remove start, end and weekdays"


def _duration(duration: Any) -> Iterator[str]:
    if duration is None:
        return
    if not isinstance(duration, timedelta):
        yield f"duration {duration!r} is not a duration: use a timedelta, or text such as '8 h'"
    elif not timedelta(0) < duration <= LONGEST_PERIOD:
        yield f"duration {duration} must be longer than zero and at most {LONGEST_PERIOD.days} days"


def _days(period: Period) -> Iterator[str]:
    for weekday in period.weekdays:
        if weekday not in WEEKDAYS:
            yield f"weekday {weekday!r} is unknown: use one of {', '.join(WEEKDAYS)}"


def _times(period: Period) -> Iterator[str]:
    given = [text for text in (period.start, period.end) if text is not None]
    wrong = [violation for text in given for violation in _tried(read_time, text)]
    yield from wrong
    if period.end is not None and period.duration is not None:
        yield "end and duration exclude each other: remove one"
    if wrong or period.duration is not None:
        return
    start, end = read_time(period.start or MIDNIGHT), read_time(period.end or NEXT_MIDNIGHT)
    if start == _DAY:
        yield "the start is 24:00: use 00:00 of the next day"
    if start == end:
        yield f"the period is empty, because it starts and ends at {period.start or period.end}: use 00:00 to 24:00 for the whole day"


def _dates(label: str, dates: tuple[str, ...]) -> list[str]:
    found = [(text, list(_tried(lambda text: read_dates((text,)), text))) for text in dates]
    wrong = [violation for _, violations in found for violation in violations]
    sound = [text for text, violations in found if not violations]
    wrong += [
        f"dates {text!r} cover more than ten years: split or remove them"
        for text, (first, last) in zip(sound, read_dates(tuple(sound)), strict=True)
        if last - first > LONGEST_RANGE
    ]
    return [f"{label}: {violation}" for violation in wrong]


def _look_ahead(look_ahead: Any) -> list[str]:
    if look_ahead is None:
        return []
    if not isinstance(look_ahead, LookAhead):
        return [f"look_ahead {look_ahead!r} must be a LookAhead, or None"]
    wrong = []
    margin: Any = look_ahead.margin
    if type(margin) not in (int, float) or not 0 <= margin <= LARGEST_MARGIN:
        wrong.append(f"margin {margin!r} must be a number from 0 to {LARGEST_MARGIN}")
    value: Any
    for name, value in (("unmeasured", look_ahead.unmeasured), ("at_most", look_ahead.at_most)):
        if not isinstance(value, timedelta) or not timedelta(0) <= value <= _DAY:
            wrong.append(f"{name} {value!s} must be a duration from 0 to 1 day")
    return [f"look_ahead: {violation}" for violation in wrong]


def _tried(read: Callable[[Any], object], text: Any) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"{text!r} must be text"
        return
    try:
        read(text)
    except ValueError as error:
        yield str(error) if repr(text) in str(error) else f"{text!r}: {error}"


def _together(schedule: DeclaredSchedule) -> list[str]:
    """Return the violations of the combination of valid periods."""
    holidays, periods = days_of(schedule.holidays), _periods(schedule)
    reach = 1 + max((period.duration or _DAY).days for period in periods)
    days = _all_days(periods, holidays, reach)
    begins = {period.name: [day for day in days if period.begins_on(day, holidays)] for period in periods}
    wrong = [f"{each.name!r} never begins: {_never(each, schedule)}" for each in periods if not begins[each.name]]
    wrong += [
        f"windows {one.when.name!r} and {other.when.name!r} overlap and have the same priority ({_when(begin)}): assign one of them"
        " a higher priority"
        for one, other in combinations(schedule.windows, 2)
        if one.priority == other.priority
        for begin in _overlap(one.when, other.when, begins, reach)
    ]
    week = _around(_WEEK, reach)
    excluded = joined(
        [span for each in schedule.excluded for span in _spans(each, week.intersection(begins[each.name]))]
    )
    if any(begin.date() <= _WEEK[0] and end.date() > _WEEK[-1] for begin, end in excluded):
        wrong.append("the excluded periods cover all of the time: shorten them")
    return wrong


def _never(period: Period, schedule: DeclaredSchedule) -> str:
    if period.cron is not None and not period.dates:
        return f"cron {period.cron!r} fires on no day"
    if period.holidays is Holidays.ONLY and not schedule.holidays:
        return "the period begins on holidays only, and the policy has no holidays"
    return "none of its dates matches: check its weekdays, cron and holidays"


def _all_days(periods: Sequence[Period], holidays: Collection[date], reach: int) -> list[date]:
    """Return all days on which a period can begin, without repetitions of the calendar, in order."""
    days = _around(_WEEK, reach)
    if any(period.plan is not None and not period.plan.is_weekly for period in periods):
        days |= {_CYCLE[0] + number * _DAY for number in range(_CYCLE[1])}
    named = set(holidays).union(*(days_of(period.dates) for period in periods))
    return sorted(days | _around(named, reach))


def _around(days: Collection[date], reach: int) -> set[date]:
    return {day + number * _DAY for day in days for number in range(-reach, reach + 1)}


def _spans(period: Period, days: Iterable[date]) -> list[Span]:
    return joined([span for day in days for span in period.local_spans(day)])


def _overlap(one: Period, other: Period, begins: Mapping[str, list[date]], reach: int) -> list[datetime]:
    """Return the first local time at which both periods apply, if one exists; searched around the days of the rarer period."""
    rare, often = sorted((one, other), key=lambda period: len(begins[period.name]))
    days = begins[rare.name]
    near = _around(days, reach).intersection(begins[often.name])
    change_points = sorted([(*span, 0) for span in _spans(rare, days)] + [(*span, 1) for span in _spans(often, near)])
    until = [datetime.min] * 2  # noqa: DTZ901  a local time
    for begin, end, which in change_points:
        if begin < until[1 - which]:
            return [begin]
        until[which] = end
    return []


def _when(begin: datetime) -> str:
    """Human-readable time of an overlap: the weekday of a normal week, or a date."""
    if abs(begin.date() - _WEEK[3]) < 7 * _DAY:
        return f"each {begin:%A} at {begin:%H:%M}"
    repeated = begin if begin.date() > _CYCLE[0] + _CYCLE[1] * _DAY else begin + 2 * _CYCLE[1] * _DAY
    return f"first on {repeated:%Y-%m-%d} at {repeated:%H:%M}"


def _periods(schedule: DeclaredSchedule) -> list[Period]:
    return [*(window.when for window in schedule.windows), *schedule.excluded]
