"""Restart strategies as people name them: by Flink's names and aliases, with parameters in either spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

from airflow_adaptive.scheduler.durations import parse_duration
from airflow_adaptive.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)

_CLASSES: Mapping[str, type[NoRestart | FixedDelay | FailureRate | ExponentialDelay]] = {
    "none": NoRestart,
    "fixed-delay": FixedDelay,
    "failure-rate": FailureRate,
    "exponential-delay": ExponentialDelay,
}
_ALIASES = {
    "off": "none",
    "disable": "none",
    "fixeddelay": "fixed-delay",
    "failurerate": "failure-rate",
    "exponentialdelay": "exponential-delay",
}
_DEFAULT = "exponential-delay"

_FLINK = "restart-strategy."
_FLINK_PREFIXES = tuple(f"{_FLINK}{name}." for name in _CLASSES)


def parse_restart_strategy(value: object) -> RestartStrategy:
    """A strategy from itself, its name, or a mapping of "type" and its parameters ("max-backoff" or "max_backoff").

    Raises:
        ValueError: an unknown strategy or parameter, or an impossible value.
    """
    if isinstance(value, RestartStrategy):
        return value
    settings = dict(value) if isinstance(value, Mapping) else {"type": value}
    given = settings.pop("type", None)
    name = _main_name(given) if isinstance(given, str) else ""
    if name not in _CLASSES:
        raise ValueError(f"{given} is an unknown value of RestartStrategyType. There are {', '.join(_CLASSES)}")
    defaults = {f.name: f.default for f in fields(_CLASSES[name])}
    parameters = {str(key).replace("-", "_"): item for key, item in settings.items()}
    unknown = sorted(set(parameters) - set(defaults))
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(unknown)}; it has {', '.join(defaults) or 'none'}")
    try:
        return _CLASSES[name](**{key: _read(item, defaults[key]) for key, item in parameters.items()})
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def strategy_name(strategy: RestartStrategy) -> str:
    """Flink's name of a strategy."""
    return next(name for name, kind in _CLASSES.items() if isinstance(strategy, kind))


def fold_flink_parameters(values: Mapping[str, object], names: Sequence[str]) -> Mapping[str, object]:
    """Fold Flink's `restart-strategy.fixed-delay.attempts` and the like into the strategy that they belong to.

    Parameters of other strategies than the one that is named, or is the default, have no effect, as in Flink.

    Args:
        values: options by name.
        names: of the option that names the strategy, the one that beats the others first.
    """
    parameters = {key: item for key, item in values.items() if key.startswith(_FLINK_PREFIXES)}
    rest = {key: item for key, item in values.items() if key not in parameters}
    named = next((name for name in names if name in values), names[0])
    given = values.get(named, _DEFAULT)
    if not parameters or not isinstance(given, str):
        return rest
    prefix = f"{_FLINK}{_main_name(given)}."
    own = {key.removeprefix(prefix): item for key, item in parameters.items() if key.startswith(prefix)}
    return {**rest, named: {"type": given, **own}}


def _main_name(given: str) -> str:
    name = given.lower()
    return _ALIASES.get(name, name)


def _read(value: object, default: object) -> Any:
    """Read a parameter as its default is typed; its range is checked by the strategy."""
    if isinstance(default, timedelta):
        return parse_duration(value)
    try:
        return float(str(value)) if isinstance(default, float) else int(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is no number") from None
