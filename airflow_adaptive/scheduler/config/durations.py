"""Lengths of time as people write them: read from several notations, shown in the largest unit that fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

LONGEST = timedelta(days=36500)
"""Longest duration that is read: beyond it, adding it to a date may leave the calendar."""

_UNITS = {
    timedelta(days=1): ("d", "day", "days"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(minutes=1): ("min", "m", "minute", "minutes"),
    timedelta(seconds=1): ("s", "sec", "secs", "second", "seconds"),
    timedelta(milliseconds=1): ("ms", "milli", "millis", "millisecond", "milliseconds"),
    timedelta(microseconds=1): ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
}
_UNIT_BY_NAME = {name: unit for unit, names in _UNITS.items() for name in names}
_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", re.ASCII | re.IGNORECASE)


def parse_duration(value: object) -> timedelta:
    """A duration from a timedelta, from seconds, or from text such as "30 s", "5 min", "50 ms" (Flink's notation).

    A number without a unit is seconds (in Flink's configuration it is milliseconds).

    Raises:
        ValueError: it is none of these, or longer than `LONGEST`.
    """
    duration = value if isinstance(value, timedelta) else _read(value)
    if abs(duration) > LONGEST:
        raise ValueError(f"{value!r} is longer than {format_duration(LONGEST)}")
    return duration


def format_duration(duration: timedelta) -> str:
    """The duration as `parse_duration` reads it, in the largest unit that gives a whole number."""
    unit = next((unit for unit in _UNITS if duration and not duration % unit), timedelta(seconds=1))
    return f"{duration // unit} {_UNITS[unit][0]}"


def positive(value: object) -> timedelta:
    """A duration longer than zero. Raises `ValueError`."""
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise ValueError(f"{value!r} must be longer than zero")
    return duration


def not_negative(value: object) -> timedelta:
    """A duration of zero or longer. Raises `ValueError`."""
    duration = parse_duration(value)
    if duration < timedelta(0):
        raise ValueError(f"{value!r} must not be negative")
    return duration


def or_never(value: object) -> timedelta | None:
    """A duration; None, or a negative one as in Flink, means: without end. Raises `ValueError`."""
    duration = None if value is None else parse_duration(value)
    return None if duration is None or duration < timedelta(0) else duration


def or_unset(parse: Callable[[object], timedelta]) -> Callable[[object], timedelta | None]:
    """A parser that also accepts None."""
    return lambda value: None if value is None else parse(value)


def _read(value: object) -> timedelta:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _times(float(value), timedelta(seconds=1), value)
    matched = _DURATION.fullmatch(value) if isinstance(value, str) else None
    unit = _UNIT_BY_NAME.get(matched[2].lower() or "s") if matched else None
    if matched is None or unit is None:
        raise ValueError(
            f"{value!r} is no duration: give a timedelta, seconds, or text such as '30 s', '5 min', '50 ms'"
        )
    return _times(float(matched[1]), unit, value)


def _times(number: float, unit: timedelta, value: object) -> timedelta:
    try:
        return number * unit
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{value!r} is no duration: {error}") from error
