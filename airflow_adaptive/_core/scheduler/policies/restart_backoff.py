"""Restart strategies: whether and when a failed job restarts, after Flink's RestartBackoffTimeStrategy classes (FLIP-364).

Theory: a strategy is a configuration, and a `RestartRecord` is the data that the strategy has recorded. `notify` adds a failure to
the record; afterwards, `can_restart` and `backoff` evaluate the record. As in Flink, the arithmetic uses whole milliseconds,
but it does not overflow at the 92nd attempt. `notify` accepts the jitter as a number in [0, 1), which
depends only on its key (`jitter`), so that a replay of the same events produces the same delays.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar, assert_never

_BITS = 53
"""Number of bits in the significand of a float."""


def jitter(*key: str | int) -> float:
    """Return a number in [0, 1) that is uniformly distributed over different keys.

    Args:
        key: names the delay that the jitter changes, for example (job, epoch, attempt).
    """
    digest = hashlib.sha256("\n".join(map(str, key)).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)


Parameter = TypeVar("Parameter")

NO_TIME = timedelta(0)
MILLISECOND = timedelta(milliseconds=1)
UNLIMITED_ATTEMPTS = 2**31 - 1
"""Number of attempts that means "no limit" in Flink (Integer.MAX_VALUE)."""


def _parameter(default: Parameter, doc: str) -> Parameter:
    """Return the field of a parameter of a strategy, with the text for the documentation."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRestart:
    """The job never restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """The job restarts at most `attempts` times, each time after `delay`."""

    attempts: int = _parameter(1, "Maximum number of restarts of the job.")
    delay: timedelta = _parameter(timedelta(seconds=1), "Time between a failure and the restart.")

    def __post_init__(self) -> None:
        """Check the parameters. Raises `ValueError` in Flink's words."""
        _require(self.attempts >= 0, "Maximum number of restart attempts must be at least 0.")
        _require(self.delay >= NO_TIME, "Backoff time between restart attempts must be at least 0 ms.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """The job restarts after `delay`, with at most `max_failures_per_interval` failures in each `failure_rate_interval`."""

    max_failures_per_interval: int = _parameter(
        1, "Maximum number of failures in an interval after which the job restarts."
    )
    failure_rate_interval: timedelta = _parameter(
        timedelta(minutes=1), "Length of the interval, which ends with the newest failure."
    )
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
    """The job restarts after a growing delay, which is reset after an interval without a failure."""

    initial_backoff: timedelta = _parameter(timedelta(seconds=1), "Initial delay, which is also the shortest delay.")
    max_backoff: timedelta = _parameter(timedelta(minutes=1), "Longest delay.")
    backoff_multiplier: float = _parameter(1.5, "Factor by which the delay grows with each attempt.")
    reset_backoff_threshold: timedelta = _parameter(
        timedelta(hours=1), "Time without a failure after a restart, after which the delay and the attempts are reset."
    )
    jitter_factor: float = _parameter(0.1, "Largest random change of the delay, as a fraction of the delay.")
    attempts_before_reset_backoff: int = _parameter(
        UNLIMITED_ATTEMPTS,
        "Maximum number of restarts before the delay is reset; failures before a planned restart count as one failure.",
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
    """Data that a strategy has recorded.

    Attributes:
        attempts: number of failures since the last reset.
        restart_at: time of the planned restart of the newest attempt (exponential-delay).
        failures: times of the newest failures, oldest first (failure-rate).
    """

    attempts: int = 0
    restart_at: datetime | None = None
    failures: tuple[datetime, ...] = ()


def notify(strategy: RestartStrategy, record: RestartRecord, now: datetime, jitter: float) -> RestartRecord:
    """Return the record with one more failure. A failure before the planned restart belongs to the same attempt (exponential-delay)."""
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


def is_first(record: RestartRecord) -> bool:
    """Return whether the newest failure is the first one since the last reset."""
    return max(record.attempts, len(record.failures)) <= 1


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
    """Return `initial * multiplier ** attempt`, at most the largest 64-bit integer as in Flink; a float of Python would raise."""
    try:
        return min(math.trunc(initial * multiplier**attempt), 2**63 - 1)
    except OverflowError:
        return 2**63 - 1
