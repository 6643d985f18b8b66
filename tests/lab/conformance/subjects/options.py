"""Options with Flink's names, fallback keys and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import OPTIONS, Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.restart_backoff import MILLISECOND
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.resource_checks import max_trigger_delay
from tests.lab.conformance.result import (
    Comparison,
    Vector,
    compare,
    expect_only,
    may_fail,
    require_known,
)

_OPTION = {
    "submission_resource_wait_timeout_ms": "resource_wait_timeout",
    "submission_resource_stabilization_timeout_ms": "resource_stabilization_timeout",
    "executing_cooldown_ms": "scaling_interval_min",
    "executing_resource_stabilization_timeout_ms": "executing_stabilization_timeout",
    "rescale_trigger_max_delay_ms": "max_trigger_delay",
    "rescale_trigger_max_checkpoint_failures": "max_failed_batches",
    "slot_idle_timeout_ms": "slot_idle_timeout",
    "rescale_history_max": "history_size",
}
"""Names of the options, by the name of the field of Flink's `AdaptiveScheduler.Settings`."""

_FLINK_NAMES = {name for option in OPTIONS.values() for name in option.flink}

_NEVER = -1


@may_fail
def settings(vector: Vector) -> Iterator[Comparison]:
    """`AdaptiveScheduler.Settings#of`, for the settings that are also options of this scheduler."""
    expect_only(vector, "expected")
    expected = vector["expected"]
    require_known("setting", expected, ("error", *_OPTION))
    config = {name: value for name, value in vector["config"].items() if name in _FLINK_NAMES}
    actual = _settings(Options.of(config), vector.get("checkpoint_interval_ms"))
    for name in (name for name in expected if name != "error"):
        yield from compare(name, expected[name], actual[name])


def _settings(options: Options, checkpoint_interval_ms: int | None) -> dict[str, int]:
    """Return the values with Flink's names and units. The checkpoint interval is the trigger interval of the queries."""
    values = {name: _plain(getattr(options, option)) for name, option in _OPTION.items()}
    job = JobGraph.single("vector", ParallelismRange(1, 1))
    interval = None if checkpoint_interval_ms is None else checkpoint_interval_ms * MILLISECOND
    state = replace(machine.create(job, options), trigger_interval=interval)
    return {**values, "rescale_trigger_max_delay_ms": _plain(max_trigger_delay(state))}


def _plain(value: timedelta | int | None) -> int:
    if isinstance(value, timedelta):
        return value // MILLISECOND
    return _NEVER if value is None else value
