"""Options by Flink's names, with their fallbacks and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from airflow_adaptive.scheduler.errors import OptionError
from airflow_adaptive.scheduler.options import OPTIONS, Options
from airflow_adaptive.scheduler.policies.restart_backoff import MILLISECOND
from airflow_adaptive.testing.conformance.verdict import (
    Deviation,
    NotApplicableError,
    Vector,
    compare,
    compare_text,
    expect_only,
)

_OPTION = {
    "submission_resource_wait_timeout_ms": "resource_wait_timeout",
    "submission_resource_stabilization_timeout_ms": "resource_stabilization_timeout",
    "executing_cooldown_ms": "scaling_interval_min",
    "executing_resource_stabilization_timeout_ms": "executing_stabilization_timeout",
    "rescale_trigger_max_delay_ms": "max_trigger_delay",
    "rescale_trigger_max_checkpoint_failures": "max_failed_batches",
    "rescale_history_max": "history_size",
}
"""Names of Flink's `AdaptiveScheduler.Settings` and of the options that they are read into."""

_FLINK_NAMES = {name for option in OPTIONS.values() for name in option.flink}

_NEVER = -1


def settings(vector: Vector) -> Iterator[Deviation]:
    """`AdaptiveScheduler.Settings#of`: what of the configuration has an option here."""
    expect_only(vector, "expected")
    expected = vector["expected"]
    if vector["config"].get("scheduler-mode") == "reactive":
        raise NotApplicableError("there is no reactive mode")
    config = {name: value for name, value in vector["config"].items() if name in _FLINK_NAMES}
    try:
        options = Options.of(config)
    except OptionError as error:
        yield from compare_text("error", expected.get("error", "none"), str(error))
        return
    yield from compare("error", expected.get("error"), None)
    named = [name for name in expected if name in _OPTION]
    if not named:
        raise NotApplicableError("none of these settings has an option")
    for name in named:
        yield from compare(name, expected[name], _plain(getattr(options, _OPTION[name])))


def _plain(value: timedelta | int | None) -> int:
    if isinstance(value, timedelta):
        return value // MILLISECOND
    return _NEVER if value is None else value
