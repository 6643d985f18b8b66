"""Parsing of restart strategies: Flink's names and aliases, with parameters in both spellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

from airflow_adaptive._core.scheduler.config.durations import format_duration, parse_duration
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
        return STRATEGIES[name](**{key: _read(item, defaults[key]) for key, item in parameters.items()})
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


def _read(value: object, default: object) -> Any:
    """Return a parameter with the type of its default. The strategy checks the range."""
    if isinstance(default, timedelta):
        return parse_duration(value)
    try:
        return float(str(value)) if isinstance(default, float) else int(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
