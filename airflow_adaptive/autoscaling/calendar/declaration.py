"""Scheduled policies as people write them: dates as dates or text, weekdays as ranges, windows as tables of a document.

What can't be read is left as it is: the policy lists it with all that is wrong besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from importlib import import_module
from typing import Any, TypeVar, cast

from airflow_adaptive.autoscaling.calendar.period import WEEKDAYS, Holidays, Period
from airflow_adaptive.autoscaling.calendar.scheduled_policy import LookAhead, ScheduledPolicy, Window
from airflow_adaptive.autoscaling.calendar.violations import NO_WINDOW
from airflow_adaptive.autoscaling.calendar.wall_clock import Repeated
from airflow_adaptive.autoscaling.policy import Bounds, RescalePolicyError
from airflow_adaptive.scheduler.config.durations import parse_duration

Part = TypeVar("Part")

_LONG = dict(zip(WEEKDAYS, ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), strict=True))

Day = date | str | tuple[date | str, date | str]
"""A date, a text that a period knows, or the first and the last of some dates."""

Days = Iterable[Day] | Callable[[], Iterable[Day]] | str
"""Dates, a callable that returns them, or its name as "module:callable"."""

Parallelism = Bounds | int | Sequence[int] | Mapping[str, Any]
"""Of every vertex (a number, or a lower and an upper bound), or per vertex."""


def period(
    name: str,
    *,
    cron: str | None = None,
    lasts: timedelta | float | str | None = None,
    weekdays: str | Iterable[str] = (),
    start: time | str | None = None,
    end: time | str | None = None,
    dates: Days = (),
    holidays: Holidays | str = Holidays.LIKE_OTHERS,
) -> Period:
    """A period, such as an excluded one.

    Args:
        name: for people; unique within a policy.
        cron: when it begins, five fields.
        lasts: how long, by the wall clock, such as "8 h".
        weekdays: on which it begins: "mon-fri", "sat, sun", or some of them; none for all.
        start: when it begins, such as "08:00"; midnight unless given.
        end: when it has ended, such as "20:00"; not later than `start` means on the next day.
        dates: on which it begins; none for all.
        holidays: whether it begins on holidays (`like_others`), never on them, or on them only.
    """
    known = [each.value for each in Holidays]
    return Period(
        name=name,
        cron=cron,
        lasts=_duration(lasts),
        weekdays=tuple(_weekdays(weekdays)),
        start=_time(start),
        end=_time(end),
        dates=_dates(dates, f"period {name!r}"),
        holidays=Holidays(holidays) if holidays in known else cast(Holidays, holidays),
    )


def window(name: str, parallelism: Parallelism, *, priority: int = 0, **when: Any) -> Window:
    """A window.

    Args:
        name: for people; unique within a policy.
        parallelism: that holds in it.
        priority: of overlapping windows the one with the highest holds.
        when: as of `period`.
    """
    return Window(when=period(name, **when), bounds=_bounds(parallelism), priority=priority)


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
    """A scheduled policy.

    Args:
        zone: time zone of all times and dates.
        windows: as `window` makes them, or its arguments as a mapping.
        default: what holds outside of all windows; None for what the job's DAG declares.
        excluded: when nothing may move, as `period` makes them, or its arguments.
        holidays: dates; a callable is called now, and not again.
        look_ahead: how early a change that gives more is advised, or its fields as a mapping; None for not early.
        repeated: which instant a local time means that clocks show twice, "first" or "second".
        dry_run: advice is told, and not acted on.

    Raises:
        RescalePolicyError: listing everything that is wrong.
    """
    wrong: list[str] = []
    read_windows = [_read(window, each, wrong) for each in windows]
    read_excluded = [_read(period, each, wrong) for each in excluded]
    try:
        policy = ScheduledPolicy(
            zone=zone,
            windows=tuple(each for each in read_windows if each is not None),
            default=None if default is None else _bounds(default),
            excluded=tuple(each for each in read_excluded if each is not None),
            holidays=_tried(lambda: _dates(holidays, "the holidays"), wrong) or (),
            look_ahead=_looking(look_ahead),
            repeated=Repeated(repeated) if repeated in list(Repeated) else cast(Repeated, repeated),
            dry_run=dry_run,
        )
    except RescalePolicyError as error:
        wrong += [
            finding for finding in error.violations if any(read_windows) or finding != NO_WINDOW or not read_windows
        ]
        raise RescalePolicyError("scheduled policy", wrong) from None  # an import error of Airflow shows all of a chain
    if wrong:
        raise RescalePolicyError("scheduled policy", wrong)
    return policy


def _read(make: Callable[..., Part], given: Part | Mapping[str, Any], wrong: list[str]) -> Part | None:
    """A part of the policy, as it is or as its arguments; None if they are none, which is then told."""
    if not isinstance(given, Mapping):
        if isinstance(given, (Window, Period)):
            return given
        wrong.append(f"{make.__name__} {given!r} must be made by {make.__name__}(), or be a mapping of its arguments")
        return None
    try:
        return make(**given)
    except TypeError as error:
        wrong.append(f"{make.__name__} {given.get('name')!r}: {str(error).removeprefix(make.__name__ + '() ')}")
    except RescalePolicyError as error:
        wrong.extend(error.violations)
    return None


def _tried(read: Callable[[], Part], wrong: list[str]) -> Part | None:
    try:
        return read()
    except RescalePolicyError as error:
        wrong.extend(error.violations)
        return None


def _bounds(parallelism: Any) -> Bounds:
    """Bounds, or what was given."""
    with suppress(ValueError):
        return Bounds.of(parallelism)
    return cast(Bounds, parallelism)


def _duration(lasts: Any) -> timedelta | None:
    if lasts is None:
        return None
    with suppress(ValueError):
        return parse_duration(lasts)
    return cast(timedelta, lasts)


def _looking(given: LookAhead | Mapping[str, Any] | None) -> LookAhead | None:
    """How early, or what was given if it can't be read."""
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
    """The short name of a weekday, however it is written; what is none stays as it is."""
    short = name.strip().lower()
    return next((day for day in WEEKDAYS if short in (day, _LONG[day])), name)


def _dates(given: Days, label: str) -> tuple[str, ...]:
    """Dates as text.

    Raises:
        RescalePolicyError: they can't be had.
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
        raise RescalePolicyError("period", [f"{label}: {name!r} can't be imported: {error}"]) from error
    if not callable(found):
        raise RescalePolicyError("period", [f"{label}: {name!r} is no callable: give one that returns dates"])
    return cast(Callable[[], Iterable[Day]], found)


def _called(days: Callable[[], Iterable[Day]], label: str) -> Iterable[Day]:
    try:
        return list(days())
    except Exception as error:  # it is a callable of others
        name = getattr(days, "__qualname__", repr(days))
        told = f"{label}: {name} returned no dates: {type(error).__name__}: {error}"
        raise RescalePolicyError("period", [told]) from error


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
