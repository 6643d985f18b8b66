"""Parsing and formatting of durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

LONGEST = timedelta(days=36500)
"""Longest accepted duration. The sum of a date and a longer duration could overflow `datetime`."""

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
    """Return the duration for a timedelta, a number of seconds, or text such as "30 s", "5 min" or "50 ms" (Flink's notation).

    A number without a unit is a number of seconds. In Flink's configuration, such a number is a number of milliseconds.

    Raises:
        ValueError: the value is not a duration, or is longer than `LONGEST`.
    """
    duration = value if isinstance(value, timedelta) else _read(value)
    if abs(duration) > LONGEST:
        raise ValueError(f"{value!r} is longer than {format_duration(LONGEST)}")
    return duration


def format_duration(duration: timedelta) -> str:
    """Return the notation of a duration that `parse_duration` accepts, in the largest unit in which the number is whole."""
    unit = next((unit for unit in _UNITS if duration and not duration % unit), timedelta(seconds=1))
    return f"{duration // unit} {_UNITS[unit][0]}"


def positive(value: object) -> timedelta:
    """Return a duration longer than zero. Raises `ValueError`."""
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise ValueError(f"{value!r} must be longer than zero")
    return duration


def not_negative(value: object) -> timedelta:
    """Return a duration of zero or longer. Raises `ValueError`."""
    duration = parse_duration(value)
    if duration < timedelta(0):
        raise ValueError(f"{value!r} must not be negative")
    return duration


def or_never(value: object) -> timedelta | None:
    """Return a duration, or None (no limit) for None and, as in Flink, for a negative duration. Raises `ValueError`."""
    duration = None if value is None else parse_duration(value)
    return None if duration is None or duration < timedelta(0) else duration


def or_unset(parse: Callable[[object], timedelta]) -> Callable[[object], timedelta | None]:
    """Return a parser that also accepts None."""
    return lambda value: None if value is None else parse(value)


def _read(value: object) -> timedelta:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _times(float(value), timedelta(seconds=1), value)
    matched = _DURATION.fullmatch(value) if isinstance(value, str) else None
    unit = _UNIT_BY_NAME.get(matched[2].lower() or "s") if matched else None
    if matched is None or unit is None:
        raise ValueError(
            f"{value!r} is not a duration: use a timedelta, a number of seconds, or text such as '30 s', '5 min' or '50 ms'"
        )
    return _times(float(matched[1]), unit, value)


def _times(number: float, unit: timedelta, value: object) -> timedelta:
    try:
        return number * unit
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{value!r} is not a duration: {error}") from error
