"""The one table of options: the operator's parameters, airflow.cfg, the documentation and Flink's names all come from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow_adaptive.scheduler.errors import OptionError
from airflow_adaptive.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from airflow_adaptive.scheduler.policies.transition_manager import CooldownExtension

_UNITS = {
    timedelta(days=1): ("d", "day", "days"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(minutes=1): ("min", "m", "minute", "minutes"),
    timedelta(seconds=1): ("s", "sec", "secs", "second", "seconds"),
    timedelta(milliseconds=1): ("ms", "milli", "millis", "millisecond", "milliseconds"),
    timedelta(microseconds=1): ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
}
_UNIT_BY_NAME = {name: unit for unit, names in _UNITS.items() for name in names}
_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)


class BelowLowerBound(StrEnum):
    """What a running job does that can't have its lower bound any more."""

    WAIT = "wait"
    """Stop at a batch boundary and wait for resources (FLIP-291)."""
    KEEP_RUNNING = "keep_running"
    """Go on with what it has (Flink's practice)."""


def parse_duration(value: object) -> timedelta:
    """A duration from a timedelta, from seconds, or from text such as "30 s", "5 min", "50 ms" (Flink's notation).

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _checked(float(value), timedelta(seconds=1), value)
    matched = _DURATION.fullmatch(value) if isinstance(value, str) else None
    unit = _UNIT_BY_NAME.get((matched[2] or "s").lower()) if matched else None
    if matched is None or unit is None:
        raise ValueError(
            f"{value!r} is no duration: give a timedelta, seconds, or text such as '30 s', '5 min', '50 ms'"
        )
    return _checked(float(matched[1]), unit, value)


def _checked(number: float, unit: timedelta, value: object) -> timedelta:
    try:
        return number * unit
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{value!r} is no duration: {error}") from error


def _positive(value: object) -> timedelta:
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise ValueError(f"{value!r} must be longer than zero")
    return duration


def _not_negative(value: object) -> timedelta:
    duration = parse_duration(value)
    if duration < timedelta(0):
        raise ValueError(f"{value!r} must not be negative")
    return duration


def _or_never(value: object) -> timedelta | None:
    """A negative duration, as in Flink, or None means: without end."""
    duration = None if value is None else parse_duration(value)
    return None if duration is None or duration < timedelta(0) else duration


def _or_unset(value: object) -> timedelta | None:
    return None if value is None else _positive(value)


def _at_least_one(value: object) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no whole number") from None
    if isinstance(value, float) and value != number:
        raise ValueError(f"{value!r} is no whole number")
    if number < 1:
        raise ValueError(f"{value!r} must be 1 or higher")
    return int(number)


_STRATEGIES: Mapping[str, type[NoRestart | FixedDelay | FailureRate | ExponentialDelay]] = {
    "none": NoRestart,
    "off": NoRestart,
    "disable": NoRestart,
    "fixed-delay": FixedDelay,
    "fixeddelay": FixedDelay,
    "failure-rate": FailureRate,
    "failurerate": FailureRate,
    "exponential-delay": ExponentialDelay,
    "exponentialdelay": ExponentialDelay,
}


def parse_restart_strategy(value: object) -> RestartStrategy:
    """A strategy from itself, its name, or a mapping of "type" and its parameters ("max-backoff" or "max_backoff").

    Raises:
        ValueError: an unknown strategy or parameter.
    """
    if isinstance(value, (NoRestart, FixedDelay, FailureRate, ExponentialDelay)):
        return value
    settings = dict(value) if isinstance(value, Mapping) else {"type": value}
    name = str(settings.pop("type", "")).lower()
    strategy = _STRATEGIES.get(name)
    if strategy is None:
        raise ValueError(f"{name!r} is an unknown value of RestartStrategyType; there are {', '.join(_STRATEGIES)}")
    kinds = {f.name: f.default for f in fields(strategy)}
    parameters = {key.replace("-", "_"): item for key, item in settings.items()}
    unknown = sorted(set(parameters) - set(kinds))
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(unknown)}; it has {', '.join(kinds) or 'none'}")
    return strategy(**{key: _like(kinds[key], key, item) for key, item in parameters.items()})


def _like(default: object, name: str, value: object) -> Any:
    """Read a strategy's parameter as its default is typed, within its range."""
    if isinstance(default, timedelta):
        return _not_negative(value)
    number = type(default)(value)  # type: ignore[call-arg]
    least = 1.0 if name == "backoff_multiplier" else 0.0
    if not number >= least or (name == "jitter_factor" and number > 1):
        raise ValueError(f"{name} {value!r} is out of range")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the table.

    Attributes:
        name: ours.
        default: what holds if nothing is set, as a person would write it.
        doc: one line.
        flink: Flink's names, the newest first; older ones are fallbacks.
        parse: reads a value; raises ValueError.
    """

    name: str
    default: object
    doc: str
    flink: tuple[str, ...]
    parse: Callable[[object], Any]


_ADAPTIVE = "jobmanager.adaptive-scheduler."


def _option(parse: Callable[[object], Any], default: object, doc: str, *flink: str) -> Any:
    metadata = {"option": (parse, default, doc, flink)}
    return field(default_factory=lambda: parse(default), metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one job; see `OPTIONS` for the table that is derived from these fields."""

    resource_wait_timeout: timedelta | None = _option(
        _or_never,
        "5 min",
        "Longest wait for resources before the job is tried, or fails for lack of them; negative: for ever.",
        _ADAPTIVE + "submission.resource-wait-timeout",
        _ADAPTIVE + "resource-wait-timeout",
    )
    resource_stabilization_timeout: timedelta = _option(
        _not_negative,
        "10 s",
        "How long sufficient but not desired resources must be there before the job starts with them.",
        _ADAPTIVE + "submission.resource-stabilization-timeout",
        _ADAPTIVE + "resource-stabilization-timeout",
    )
    scaling_interval_min: timedelta = _option(
        _not_negative,
        "30 s",
        "Cooldown: least time between two rescales; changes within it are remembered and folded into one.",
        _ADAPTIVE + "executing.cooldown-after-rescaling",
        _ADAPTIVE + "scaling-interval.min",
    )
    scaling_interval_max: timedelta | None = _option(
        _or_unset,
        None,
        "After this long without a rescale, a change below the minimal increase is forced; unset: never.",
        _ADAPTIVE + "scaling-interval.max",
    )
    cooldown_extension: CooldownExtension = _option(
        CooldownExtension,
        "none",
        "Whether a change within the cooldown starts it anew: none, first_change or every_change.",
    )
    executing_stabilization_timeout: timedelta = _option(
        _not_negative,
        "60 s",
        "While executing, how long to wait after a sufficient change for the desired resources.",
        _ADAPTIVE + "executing.resource-stabilization-timeout",
    )
    max_trigger_delay: timedelta = _option(
        _not_negative,
        "10 s",
        "A rescale waits at most this long for a committed batch.",
        _ADAPTIVE + "rescale-trigger.max-delay",
    )
    max_failed_batches: int = _option(
        _at_least_one,
        2,
        "A rescale that waits for a committed batch goes ahead after this many failed ones.",
        _ADAPTIVE + "rescale-trigger.max-checkpoint-failures",
    )
    min_parallelism_increase: int = _option(
        _at_least_one,
        1,
        "Least increase of the cumulative parallelism that is worth a rescale.",
        _ADAPTIVE + "min-parallelism-increase",
    )
    below_lower_bound: BelowLowerBound = _option(
        BelowLowerBound,
        "wait",
        "What a running job does that can't have its lower bound any more: wait or keep_running.",
    )
    local_recovery_timeout: timedelta = _option(
        _not_negative,
        "1 min",
        "How long Spark may take to replace lost executors before a new plan is made.",
    )
    deploy_timeout: timedelta = _option(
        _positive,
        "5 min",
        "Longest time from a submit or rescale command until the driver reports the plan in force.",
        "slot.request.timeout",
    )
    stop_timeout: timedelta = _option(
        _positive,
        "1 min",
        "Longest graceful stop at a batch boundary; the driver is killed after it.",
    )
    driver_heartbeat_timeout: timedelta = _option(
        _positive,
        "1 min",
        "A driver that reports nothing for so long has failed.",
        "heartbeat.timeout",
    )
    driver_lease_timeout: timedelta = _option(
        _positive,
        "1 min",
        "A driver that can't read its log for so long stops; a successor starts no sooner unless it is seen dead.",
    )
    poll_interval: timedelta = _option(
        _positive,
        "1 s",
        "How often cluster, driver and wishes are looked at.",
    )
    trigger_lifetime: timedelta = _option(
        _positive,
        "12 h",
        "The deferred task wakes and defers anew after this long, well inside the retention of `airflow db clean`.",
    )
    history_size: int = _option(
        _at_least_one,
        1000,
        "How many steps the job's log keeps.",
        "web.adaptive-scheduler.rescale-history.size",
    )
    restart_strategy: RestartStrategy = _option(
        parse_restart_strategy,
        "exponential-delay",
        "none, fixed-delay, failure-rate or exponential-delay; or a mapping of type and its parameters.",
        "restart-strategy.type",
        "restart-strategy",
    )

    def __post_init__(self) -> None:
        """Check what spans several options."""
        longest = self.scaling_interval_max
        if longest is not None and longest <= self.scaling_interval_min:
            raise OptionError(
                f"scaling_interval_max ({longest}) must be longer than scaling_interval_min ({self.scaling_interval_min})"
            )

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Options:
        """Read options by our names or Flink's; ours beat Flink's, a newer Flink name beats an older one.

        Raises:
            OptionError: naming every unknown option and every impossible value.
        """
        wrong = [f"unknown option {name!r}" for name in values if name not in _OPTION_BY_ANY_NAME]
        parsed: dict[str, Any] = {}
        for option in OPTIONS.values():
            given = next((name for name in (option.name, *option.flink) if name in values), None)
            if given is not None:
                try:
                    parsed[option.name] = option.parse(values[given])
                except ValueError as error:
                    wrong.append(f"{given}: {error}")
        if wrong:
            raise OptionError("; ".join(wrong) + f". Options are {', '.join(OPTIONS)}")
        return cls(**parsed)


def _table() -> dict[str, Option]:
    table = {}
    for declared in fields(Options):
        parse, default, doc, flink = declared.metadata["option"]
        table[declared.name] = Option(name=declared.name, default=default, doc=doc, flink=flink, parse=parse)
    return table


OPTIONS: Mapping[str, Option] = _table()
"""Every option by its name."""

_OPTION_BY_ANY_NAME = {name: option for option in OPTIONS.values() for name in (option.name, *option.flink)}
