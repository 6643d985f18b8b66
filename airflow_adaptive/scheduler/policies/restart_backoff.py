"""Whether and when a failed job restarts, after Flink's RestartBackoffTimeStrategy classes (FLIP-364).

Theory: a strategy is configuration, a `RestartRecord` is its memory; `notify` folds a failure in, then `can_restart`
and `backoff` read. Flink's arithmetic is kept in whole milliseconds; its overflow from the 92nd attempt on is not.
`notify` takes the jitter as a number in [0, 1) (`policies.jitter`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar, assert_never

Parameter = TypeVar("Parameter")

NO_TIME = timedelta(0)
MILLISECOND = timedelta(milliseconds=1)
UNLIMITED_ATTEMPTS = 2**31 - 1
"""Flink's "no limit" (Integer.MAX_VALUE)."""


def _parameter(default: Parameter, doc: str) -> Parameter:
    """A parameter of a strategy, with its meaning for the documentation."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRestart:
    """Never restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """Restarts at most `attempts` times, each after `delay`."""

    attempts: int = _parameter(1, "Restarts in the whole life of the job.")
    delay: timedelta = _parameter(timedelta(seconds=1), "Time between a failure and the restart.")

    def __post_init__(self) -> None:
        """Check the parameters. Raises `ValueError` in Flink's words."""
        _require(self.attempts >= 0, "Maximum number of restart attempts must be at least 0.")
        _require(self.delay >= NO_TIME, "Backoff time between restart attempts must be at least 0 ms.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """Restarts after `delay`, with at most `max_failures_per_interval` failures per `failure_rate_interval`."""

    max_failures_per_interval: int = _parameter(1, "Failures within the interval after which the job still restarts.")
    failure_rate_interval: timedelta = _parameter(timedelta(minutes=1), "The interval, ending with the newest failure.")
    delay: timedelta = _parameter(timedelta(seconds=1), "Time between a failure and the restart.")

    def __post_init__(self) -> None:
        """Check the parameters. Raises `ValueError` in Flink's words."""
        _require(
            self.max_failures_per_interval > 0,
            "Maximum number of restart attempts per time unit must be greater than 0.",
        )
        _require(self.failure_rate_interval > NO_TIME, "Failures interval must be greater than 0 ms.")
        _require(self.delay >= NO_TIME, "Backoff time must be at least 0 ms.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialDelay:
    """Restarts after a growing delay that falls back to the initial one after a quiet time."""

    initial_backoff: timedelta = _parameter(timedelta(seconds=1), "First delay, and the least ever.")
    max_backoff: timedelta = _parameter(timedelta(minutes=1), "The longest delay ever.")
    backoff_multiplier: float = _parameter(1.5, "Growth of the delay from one attempt to the next.")
    reset_backoff_threshold: timedelta = _parameter(
        timedelta(hours=1), "Time without a failure after a restart, after which delay and attempts begin anew."
    )
    jitter_factor: float = _parameter(0.1, "Share of the delay by which chance lengthens or shortens it.")
    attempts_before_reset_backoff: int = _parameter(
        UNLIMITED_ATTEMPTS, "Restarts without such a quiet time; failures before a planned restart count as one."
    )

    def __post_init__(self) -> None:
        """Check the parameters. Raises `ValueError` in Flink's words."""
        _require(self.initial_backoff >= MILLISECOND, "Initial backoff must be at least 1.")
        _require(self.max_backoff >= MILLISECOND, "Maximum backoff must be at least 1.")
        _require(self.initial_backoff <= self.max_backoff, "Initial backoff cannot be higher than maximum backoff.")
        _require(self.backoff_multiplier > 1, "Backoff multiplier must be greater than 1.")
        _require(
            self.reset_backoff_threshold >= MILLISECOND,
            "Threshold duration for exponential backoff reset must be at least 1.",
        )
        _require(0 <= self.jitter_factor <= 1, "Jitter factor must be >= 0 and <= 1.")
        _require(self.attempts_before_reset_backoff >= 1, "The attemptsBeforeResetBackoff must be at least 1.")


RestartStrategy = NoRestart | FixedDelay | FailureRate | ExponentialDelay


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRecord:
    """What a strategy remembers.

    Attributes:
        attempts: failures counted since the last reset.
        restart_at: planned restart of the newest attempt (exponential-delay).
        failures: newest failures, oldest first (failure-rate).
    """

    attempts: int = 0
    restart_at: datetime | None = None
    failures: tuple[datetime, ...] = ()


def notify(strategy: RestartStrategy, record: RestartRecord, now: datetime, jitter: float) -> RestartRecord:
    """Fold a failure in; a failure before the planned restart belongs to the same attempt (exponential-delay)."""
    match strategy:
        case NoRestart():
            return record
        case FixedDelay():
            return replace(record, attempts=record.attempts + 1)
        case FailureRate():
            kept = strategy.max_failures_per_interval + 1
            return replace(record, failures=(*record.failures, now)[-kept:])
        case ExponentialDelay():
            return _notify_exponential(strategy, record, now, jitter)
        case _:
            assert_never(strategy)


def can_restart(strategy: RestartStrategy, record: RestartRecord, now: datetime) -> bool:
    """Return whether the strategy allows a restart now."""
    match strategy:
        case NoRestart():
            return False
        case FixedDelay():
            return record.attempts <= strategy.attempts
        case FailureRate():
            full = len(record.failures) > strategy.max_failures_per_interval
            return not full or now - record.failures[0] > strategy.failure_rate_interval
        case ExponentialDelay():
            return record.attempts <= strategy.attempts_before_reset_backoff
        case _:
            assert_never(strategy)


def backoff(strategy: RestartStrategy, record: RestartRecord, now: datetime) -> timedelta:
    """Return the remaining delay before the restart."""
    match strategy:
        case NoRestart():
            return NO_TIME
        case FixedDelay() | FailureRate():
            return strategy.delay
        case ExponentialDelay():
            return max((record.restart_at or now) - now, NO_TIME)
        case _:
            assert_never(strategy)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _notify_exponential(
    strategy: ExponentialDelay, record: RestartRecord, now: datetime, jitter: float
) -> RestartRecord:
    attempts = record.attempts
    if record.restart_at is not None:
        if now <= record.restart_at:
            return record
        if now - record.restart_at >= strategy.reset_backoff_threshold:
            attempts = 0
    return replace(record, attempts=attempts + 1, restart_at=now + _exponential_backoff(strategy, attempts, jitter))


def _exponential_backoff(strategy: ExponentialDelay, attempt: int, jitter: float) -> timedelta:
    initial, maximum = strategy.initial_backoff // MILLISECOND, strategy.max_backoff // MILLISECOND
    unclamped = _grown(initial, strategy.backoff_multiplier, attempt)
    spread = math.trunc(unclamped * strategy.jitter_factor)
    offset = math.floor(jitter * (2 * spread + 1)) - spread
    return max(initial, min(maximum, unclamped + offset)) * MILLISECOND


def _grown(initial: int, multiplier: float, attempt: int) -> int:
    """`initial * multiplier ** attempt`, saturated like Flink's 64-bit arithmetic (Python's float would raise)."""
    try:
        return min(math.trunc(initial * multiplier**attempt), 2**63 - 1)
    except OverflowError:
        return 2**63 - 1
