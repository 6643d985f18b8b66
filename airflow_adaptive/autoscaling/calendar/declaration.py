"""Scheduled policies from user input: dates as objects or text, weekdays as ranges, windows as mappings.

Values that cannot be parsed stay unchanged, so that the validation of the policy lists them with all other violations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from functools import partial
from importlib import import_module
from typing import Any, TypeVar, cast

from airflow_adaptive._core.scheduler.config.parsing import parse_duration
from airflow_adaptive.autoscaling.calendar.period import WEEKDAYS, Holidays, Period, Repeated
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.calendar.violations import NO_WINDOW, LookAhead, Window
from airflow_adaptive.autoscaling.policy import Bounds, RescalePolicyError

Part = TypeVar("Part")

_LONG = dict(zip(WEEKDAYS, ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), strict=True))

Day = date | str | tuple[date | str, date | str]
"""A date, a text in the format of `Period.dates`, or a pair of the first and the last date."""

Days = Iterable[Day] | Callable[[], Iterable[Day]] | str
"""Dates, a callable that returns dates, or the name of the callable as "module:callable"."""

Parallelism = Bounds | int | Sequence[int] | Mapping[str, Any]
"""Bounds of all vertices (a number, or a lower and an upper bound), or a mapping of vertex to bounds."""


def period(
    name: str,
    *,
    cron: str | None = None,
    duration: timedelta | float | str | None = None,
    weekdays: str | Iterable[str] = (),
    start: time | str | None = None,
    end: time | str | None = None,
    dates: Days = (),
    holidays: Holidays | str = Holidays.LIKE_OTHERS,
) -> Period:
    """Create a period, for example an excluded period.

    Args:
        name: name of the period, unique within a policy.
        cron: cron expression of the begin, with five fields.
        duration: time on the wall clock, for example "8 h".
        weekdays: weekdays of the begin, for example "mon-fri" or "sat, sun"; empty for all.
        start: time of the begin, for example "08:00"; midnight by default.
        end: time of the end, for example "20:00"; a time that is not later than `start` lies on the next day.
        dates: dates of the begin; empty for all.
        holidays: "like_others", "only" or "never".
    """
    return Period(
        name=name,
        cron=cron,
        duration=_duration(duration),
        weekdays=tuple(_weekdays(weekdays)),
        start=_time(start),
        end=_time(end),
        dates=_dates(dates, f"period {name!r}"),
        holidays=_parsed(Holidays, holidays),
    )


def window(name: str, parallelism: Parallelism, *, priority: int = 0, **when: Any) -> Window:
    """Create a window.

    Args:
        name: name of the window, unique within a policy.
        parallelism: bounds within the window.
        priority: the window with the highest priority applies where windows overlap.
        when: arguments of `period`.
    """
    return Window(when=period(name, **when), bounds=_parsed(Bounds.of, parallelism), priority=priority)


def scheduled_policy(
    *,
    zone: str,
    windows: Iterable[Window | Mapping[str, Any]],
    default: Parallelism | None = None,
    excluded: Iterable[Period | Mapping[str, Any]] = (),
    holidays: Days = (),
    look_ahead: LookAhead | Mapping[str, Any] | None = LookAhead(),  # noqa: B008  frozen
    repeated: Repeated | str = Repeated.FIRST,
    dry_run: bool = False,
) -> ScheduledPolicy:
    """Create a scheduled policy.

    Args:
        zone: time zone of all times and dates.
        windows: windows, or mappings with the arguments of `window`.
        default: bounds outside of all windows; None for the bounds that the DAG declares.
        excluded: periods without changes, or mappings with the arguments of `period`.
        holidays: dates; a callable is called once, now.
        look_ahead: lead time of scale-ups, or a mapping of its fields; None for no lead time.
        repeated: instant of a local time that occurs twice, "first" or "second".
        dry_run: whether the advice is reported only.

    Raises:
        RescalePolicyError: lists all violations.
    """
    wrong: list[str] = []
    read_windows = [_read(window, each, wrong) for each in _list("windows", windows, wrong)]
    read_excluded = [_read(period, each, wrong) for each in _list("excluded", excluded, wrong)]
    try:
        policy = ScheduledPolicy(
            zone=zone,
            windows=tuple(each for each in read_windows if each is not None),
            default=None if default is None else _parsed(Bounds.of, default),
            excluded=tuple(each for each in read_excluded if each is not None),
            holidays=_tried(lambda: _dates(holidays, "the holidays"), wrong) or (),
            look_ahead=_looking(look_ahead),
            repeated=_parsed(Repeated, repeated),
            dry_run=dry_run,
        )
    except RescalePolicyError as error:
        wrong += [
            violation for violation in error.violations if any(read_windows) or violation != NO_WINDOW or not wrong
        ]
        raise RescalePolicyError(
            "scheduled policy", wrong
        ) from None  # Airflow displays the whole chain of an import error
    if wrong:
        raise RescalePolicyError("scheduled policy", wrong)
    return policy


def _list(name: str, given: Any, wrong: list[str]) -> Iterable[Any]:
    """Return the parts of a list; none of another value, which is added to `wrong`."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return given
    wrong.append(f"{name} {given!r} must be a list")
    return ()


def _read(make: Callable[..., Part], given: Part | Mapping[str, Any], wrong: list[str]) -> Part | None:
    """Return a part of the policy, from an object or a mapping of arguments; None if the input is invalid, which is added to `wrong`."""
    if not isinstance(given, Mapping):
        if isinstance(given, (Window, Period)):
            return given
        wrong.append(f"{make.__name__} {given!r} must be the result of {make.__name__}() or a mapping of its arguments")
        return None
    try:
        return _tried(partial(make, **given), wrong)
    except TypeError as error:
        wrong.append(f"{make.__name__} {given.get('name')!r}: {str(error).removeprefix(make.__name__ + '() ')}")
        return None


def _tried(read: Callable[[], Part], wrong: list[str]) -> Part | None:
    try:
        return read()
    except RescalePolicyError as error:
        wrong.extend(error.violations)
        return None


def _parsed(parse: Callable[[Any], Part], given: Any) -> Part:
    """Return the parsed input, or the input if it is invalid."""
    with suppress(ValueError):
        return parse(given)
    return cast(Part, given)


def _duration(given: Any) -> timedelta | None:
    return None if given is None else _parsed(parse_duration, given)


def _looking(given: LookAhead | Mapping[str, Any] | None) -> LookAhead | None:
    """Return the lead time, or the input if it is invalid."""
    if not isinstance(given, Mapping):
        return given
    read: dict[str, Any] = {name: value if name == "margin" else _duration(value) for name, value in given.items()}
    with suppress(TypeError):
        return LookAhead(**read)
    return cast(LookAhead, given)


def _time(given: time | str | None) -> str | None:
    if isinstance(given, time):
        return given.isoformat("seconds" if given.second else "minutes")
    return given


def _weekdays(given: str | Iterable[str]) -> Iterator[str]:
    for part in given.split(",") if isinstance(given, str) else given:
        first, dash, last = (_weekday(name) for name in str(part).partition("-"))
        if not dash:
            yield first
        elif first in WEEKDAYS and last in WEEKDAYS:
            begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last)
            yield from (WEEKDAYS[day % 7] for day in range(begin, end + 1 if end >= begin else end + 8))
        else:
            yield str(part)


def _weekday(name: str) -> str:
    """Return the short name of a weekday; invalid input stays unchanged."""
    short = name.strip().lower()
    return next((day for day in WEEKDAYS if short in (day, _LONG[day])), name)


def _dates(given: Days, label: str) -> tuple[str, ...]:
    """Return dates as text.

    Raises:
        RescalePolicyError: the dates cannot be determined.
    """
    if isinstance(given, str):
        given = _imported(given, label) if ":" in given else [given]
    if callable(given):
        given = _called(given, label)
    try:
        return tuple(map(_text, given))
    except TypeError as error:
        raise RescalePolicyError("period", [f"{label}: dates {given!r} must be a list of dates: {error}"]) from error


def _imported(name: str, label: str) -> Callable[[], Iterable[Day]]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise RescalePolicyError("period", [f"{label}: {name!r} cannot be imported: {error}"]) from error
    if not callable(found):
        raise RescalePolicyError("period", [f"{label}: {name!r} is not a callable: name a callable that returns dates"])
    return cast(Callable[[], Iterable[Day]], found)


def _called(days: Callable[[], Iterable[Day]], label: str) -> Iterable[Day]:
    try:
        return list(days())
    except Exception as error:  # user code may raise anything
        name = getattr(days, "__qualname__", repr(days))
        reported = f"{label}: {name} returned no dates: {type(error).__name__}: {error}"
        raise RescalePolicyError("period", [reported]) from error


def _text(day: Any) -> str:
    match day:
        case datetime():
            return day.date().isoformat()
        case date():
            return day.isoformat()
        case [first, last]:
            return f"{_text(first)}/{_text(last)}"
        case _:
            return cast(str, day)
