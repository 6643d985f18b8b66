"""Parsing of the values of options: durations, restart strategies, numbers, choices, flags, lists of patterns and names of classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from functools import cache
from pkgutil import resolve_name
from typing import Any, TypeVar

from airflow_adaptive._core.scheduler.allocator import LoadBalanceMode
from airflow_adaptive._core.scheduler.errors import ScaleUpControllerError
from airflow_adaptive._core.scheduler.policies.rescaling import (
    CustomController,
    MinimalIncrease,
    ScaleUpController,
    Tier,
)
from airflow_adaptive._core.scheduler.policies.restart_backoff import (
    UNLIMITED_ATTEMPTS,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)

STRATEGIES: Mapping[str, type[NoRestart | FixedDelay | FailureRate | ExponentialDelay]] = {
    "none": NoRestart,
    "fixed-delay": FixedDelay,
    "failure-rate": FailureRate,
    "exponential-delay": ExponentialDelay,
}
"""The strategies by Flink's main names."""

_ALIASES = {
    "off": "none",
    "disable": "none",
    "fixeddelay": "fixed-delay",
    "failurerate": "failure-rate",
    "exponentialdelay": "exponential-delay",
}
_DEFAULT = "exponential-delay"

_FLINK = "restart-strategy."
_FLINK_PREFIXES = tuple(f"{_FLINK}{name}." for name in STRATEGIES)


def parse_restart_strategy(value: object) -> RestartStrategy:
    """Return the strategy for an instance, a name, or a mapping of "type" and parameters ("max-backoff" or "max_backoff").

    Raises:
        ValueError: the strategy or a parameter is unknown, or a value is invalid.
    """
    if isinstance(value, RestartStrategy):
        return value
    settings = dict(value) if isinstance(value, Mapping) else {"type": value}
    given = settings.pop("type", None)
    name = _main_name(given) if isinstance(given, str) else ""
    if name not in STRATEGIES:
        raise ValueError(f"{given} is an unknown value of RestartStrategyType. The types are {', '.join(STRATEGIES)}")
    defaults = {f.name: f.default for f in fields(STRATEGIES[name])}
    parameters = {str(key).replace("-", "_"): item for key, item in settings.items()}
    unknown = sorted(set(parameters) - set(defaults))
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(unknown)}; it has {', '.join(defaults) or 'none'}")
    try:
        return STRATEGIES[name](**{key: _read_parameter(item, defaults[key]) for key, item in parameters.items()})
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def strategy_name(strategy: RestartStrategy) -> str:
    """Return Flink's name of a strategy."""
    return next(name for name, kind in STRATEGIES.items() if isinstance(strategy, kind))


def describe_strategy(strategy: RestartStrategy) -> str:
    """Return the strategy with its parameters as in a configuration."""
    parameters = ", ".join(f"{field.name}={as_text(getattr(strategy, field.name))}" for field in fields(strategy))
    return f"{type(strategy).__name__}({parameters})"


def as_text(parameter: object) -> str:
    """Return a parameter as in a configuration."""
    if isinstance(parameter, timedelta):
        return format_duration(parameter)
    return "no limit" if parameter == UNLIMITED_ATTEMPTS else f"{parameter}"


def fold_flink_parameters(
    sources: Sequence[Mapping[str, object]], names: Sequence[str]
) -> Sequence[Mapping[str, object]]:
    """Move parameters like Flink's `restart-strategy.fixed-delay.attempts` into the option of the strategy.

    Only the source that names the strategy is relevant (Flink: `RestartBackoffTimeStrategyFactoryLoader`); parameters of other
    strategies and of other sources have no effect. If no source names a strategy, the parameters of the default strategy
    apply, unlike in Flink.

    Args:
        sources: options by name, the source with the highest precedence first.
        names: names of the option that names the strategy, the name with the highest precedence first.

    Returns:
        The sources without these parameters.
    """
    naming = next((source for source in sources if any(name in source for name in names)), None)
    folded = []
    for source in sources:
        rest = {key: item for key, item in source.items() if not key.startswith(_FLINK_PREFIXES)}
        named = next((name for name in names if name in source), names[0])
        given = source.get(named, _DEFAULT)
        own = _of_strategy(given, source) if isinstance(given, str) else {}
        if own and (naming is None or naming is source):
            rest[named] = {**own, "type": given}
        folded.append(rest)
    return folded


def _of_strategy(given: str, source: Mapping[str, object]) -> Mapping[str, object]:
    prefix = f"{_FLINK}{_main_name(given)}."
    return {key.removeprefix(prefix): item for key, item in source.items() if key.startswith(prefix)}


def _main_name(given: str) -> str:
    name = given.lower()
    return _ALIASES.get(name, name)


def _read_parameter(value: object, default: object) -> Any:
    """Return a parameter with the type of its default. The strategy checks the range."""
    if isinstance(default, timedelta):
        return parse_duration(value)
    try:
        return float(str(value)) if isinstance(default, float) else int(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None


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
    duration = value if isinstance(value, timedelta) else _read_duration(value)
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


def _read_duration(value: object) -> timedelta:
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


Choice = TypeVar("Choice", bound=StrEnum)

MINIMAL_INCREASE = "minimal-increase"
"""Name of FLIP-160's default scale-up controller."""

_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

_LOAD_BALANCE_ALIASES = {
    "true": LoadBalanceMode.SLOTS,
    "false": LoadBalanceMode.NONE,
    "task_balanced_preferred": LoadBalanceMode.TASKS,
    "local_input_preferred": LoadBalanceMode.NONE,
}
"""Values of Flink's older options `cluster.evenly-spread-out-slots` and `slot.sharing-strategy`."""


def one_or_more(value: object) -> int:
    """Return a whole number of at least 1. Raises `ValueError`."""
    try:
        number = int(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None
    if number < 1:
        raise ValueError(f"should have a value of 1 or higher, not {value!r}")
    return number


def one_of(choices: type[Choice]) -> Callable[[object], Choice]:
    """Return a function that parses one of the choices, without regard to case, and raises `ValueError` for other values."""

    def parse(value: object) -> Choice:
        try:
            return choices(str(value).lower())
        except ValueError:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}") from None

    return parse


def rescale_tier(value: object) -> Tier:
    """Return the rescale tier with this number or name. Raises `ValueError`."""
    text = str(value).lower()
    for tier in Tier:
        if text in (str(tier.value), tier.name.lower()):
            return tier
    raise ValueError(f"{value!r} is not one of {', '.join(f'{tier.value} ({tier.name.lower()})' for tier in Tier)}")


def load_balance_mode(value: object) -> LoadBalanceMode:
    """Return the mode with this name, or the mode for a value of Flink's older options. Raises `ValueError`."""
    name = str(value).lower()
    return _LOAD_BALANCE_ALIASES.get(name) or one_of(LoadBalanceMode)(name)


def flag(value: object) -> bool:
    """Return true or false. Raises `ValueError`."""
    known = _FLAGS.get(str(value).lower())
    if known is None:
        raise ValueError(f"{value!r} is neither true nor false")
    return known


def reactive(value: object) -> bool:
    """Return a flag; `reactive`, the value of Flink's `scheduler-mode`, is true. Raises `ValueError`."""
    return str(value).lower() == "reactive" or flag(value)


def patterns(value: object) -> tuple[str, ...]:
    """Return the patterns of a list, or of a text with commas or spaces between patterns. Raises `ValueError`."""
    if value is None:
        return ()
    items = re.split(r"[,\s]+", value.strip()) if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{value!r} is not a list of patterns: use, for example, 'ValueError, *.MyError'")
    return tuple(item for item in items if item)


def scale_up_controller(value: object) -> str:
    """Return the name of a controller that can be loaded. Raises `ValueError`."""
    load_scale_up_controller(str(value), min_increase=1)
    return str(value)


@cache
def load_scale_up_controller(name: str, min_increase: int) -> ScaleUpController:
    """Return the controller with this name: `minimal-increase`, or an instance of an importable class.

    Args:
        name: `minimal-increase`, or "package.module:Class" for a class without arguments.
        min_increase: smallest increase that `minimal-increase` accepts.

    Raises:
        ScaleUpControllerError: the class cannot be loaded, or is not a `ScaleUpController`.
    """
    if name == MINIMAL_INCREASE:
        return MinimalIncrease(min_increase=min_increase)
    try:
        controller = resolve_name(name)()
    except Exception as error:
        text = f"{name!r} is neither {MINIMAL_INCREASE} nor an importable 'module:Class': {error}"
        raise ScaleUpControllerError(text) from error
    if not callable(getattr(controller, "can_scale_up", None)):
        raise ScaleUpControllerError(f"{name!r} has no method can_scale_up(current, new)")
    return CustomController(name=name, controller=controller)
