"""Restart strategies and their selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_adaptive._core.scheduler.config.options import OPTIONS, Options
from airflow_adaptive._core.scheduler.config.parsing import parse_restart_strategy
from airflow_adaptive._core.scheduler.policies.restart_backoff import (
    MILLISECOND,
    ExponentialDelay,
    RestartRecord,
    RestartStrategy,
    backoff,
    can_restart,
    notify,
)
from tests.lab.conformance.result import (
    Comparison,
    Vector,
    compare,
    compare_stated,
    expect_only,
    may_fail,
)
from tests.lab.scenario import START

_SAMPLES = 4000
"""Number of evenly spaced jitter values, which is sufficient to produce every possible backoff."""
_NO_JITTER = 0.5


@may_fail
def restart_strategies(vector: Vector) -> Iterator[Comparison]:
    """Yield the `RestartBackoffTimeStrategy` classes."""
    expect_only(
        vector,
        "expected_construct_error",
        "expected_new_attempt",
        "expected_can_restart",
        "expected_backoff_ms",
        "expected_backoff_ms_one_of",
    )
    settings = {"type": vector["strategy"], **dict(map(_parameter, vector.get("params", {}).items()))}
    yield from _steps(parse_restart_strategy(settings), vector["steps"])


def _parameter(named: tuple[str, Any]) -> tuple[str, Any]:
    """Convert a parameter in milliseconds to the name and the type of the strategy."""
    name, value = named
    return (name.removesuffix("_ms"), value * MILLISECOND) if name.endswith("_ms") else named


def _steps(strategy: RestartStrategy, steps: list[Mapping[str, Any]]) -> Iterator[Comparison]:
    record = RestartRecord()
    for number, step in enumerate(steps, start=1):
        now = START + step["at_ms"] * MILLISECOND
        before, fails = record, step["event"] == "failure"
        if fails:
            record = notify(strategy, before, now, jitter=_NO_JITTER)
            attempt = not isinstance(strategy, ExponentialDelay) or record != before
            yield from compare_stated(f"new attempt in step {number}", step, "expected_new_attempt", attempt)
        allowed = can_restart(strategy, record, now)
        yield from compare_stated(f"can restart in step {number}", step, "expected_can_restart", allowed)
        delay = backoff(strategy, record, now) // MILLISECOND
        yield from compare_stated(f"backoff in step {number}", step, "expected_backoff_ms", delay)
        if "expected_backoff_ms_one_of" in step and fails:
            sampled = (notify(strategy, before, now, sample / _SAMPLES) for sample in range(_SAMPLES))
            reachable = sorted({backoff(strategy, one, now) // MILLISECOND for one in sampled})
            yield from compare(f"backoff in step {number}", sorted(step["expected_backoff_ms_one_of"]), reachable)


@may_fail
def restart_strategy_loader(vector: Vector) -> Iterator[Comparison]:
    """`RestartBackoffTimeStrategyFactoryLoader`."""
    expect_only(vector, "expected_class", "expected_params", "expected_error")
    job, cluster = vector.get("job_config") or {}, vector.get("cluster_config") or {}
    strategy = Options.of(_named_by(job, cluster)).restart_strategy
    if "expected_class" in vector:
        flink_class = f"{type(strategy).__name__.removesuffix('Restart')}RestartBackoffTimeStrategy"
        yield from compare("class", vector["expected_class"], flink_class)
    for name, value in map(_parameter, vector.get("expected_params", {}).items()):
        yield from compare(name, value, getattr(strategy, name, None))


def _named_by(job: Mapping[str, object], cluster: Mapping[str, object]) -> Mapping[str, object]:
    """Return the configuration that names the strategy. Flink reads all parameters from the same configuration."""
    names = OPTIONS["restart_strategy"].flink
    return job if any(name in job for name in names) else cluster
