"""Plausibility of the metrics of a query: the policy ignores metrics that are missing, impossible, frozen or outdated, and gives the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive._core.requirements.advice import QueryMetrics

MAX_VALUE = 1e15
"""Largest plausible value, in rows or rows per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedMetrics:
    """The newest metrics of a query that were plausible.

    Attributes:
        epoch: epoch of the driver.
        sequence: sequence number of the driver status.
        at: time of the first poll that returned these metrics.
        backlog: unread rows, None if the sources do not report them.
    """

    epoch: int = -1
    sequence: int = -1
    at: datetime | None = None
    backlog: float | None = None


def implausibilities(
    metrics: QueryMetrics, newest: AcceptedMetrics, now: datetime, frozen_after: timedelta
) -> list[str]:
    """Return the reasons why the policy ignores the metrics; empty if the metrics are plausible.

    Args:
        metrics: metrics of the query.
        newest: the metrics that were accepted before.
        now: time of the poll.
        frozen_after: time after which unchanged metrics count as frozen.
    """
    return list(_impossible(metrics)) or list(_outdated(metrics, newest, now, frozen_after))


def is_unchanged(metrics: QueryMetrics, newest: AcceptedMetrics) -> bool:
    """Return whether the metrics are the ones that were accepted last."""
    return (metrics.epoch, metrics.sequence) == (newest.epoch, newest.sequence)


def accepted(metrics: QueryMetrics, newest: AcceptedMetrics, now: datetime) -> AcceptedMetrics:
    """Return the accepted metrics after a plausible poll."""
    if is_unchanged(metrics, newest):
        return newest
    return replace(newest, epoch=metrics.epoch, sequence=metrics.sequence, at=now, backlog=metrics.backlog)


def _impossible(metrics: QueryMetrics) -> Iterator[str]:
    needed = {
        "input rate": metrics.input_rate,
        "busy rate": metrics.busy_rate,
        "busy share": metrics.busy,
        "batch duration": metrics.batch_duration,
    }
    yield from (f"{name} is missing" for name, value in needed.items() if value is None)
    optional = {
        "backlog": metrics.backlog,
        "unread rows": metrics.unread,
        "trigger interval": metrics.trigger_interval,
        "running": metrics.running,
    }
    for name, value in {**needed, **optional}.items():
        if value is not None and _is_nonsense(value):
            yield f"{name} is {value!r}, which is not a valid amount"
    if not _is_count(metrics.epoch) or not _is_count(metrics.sequence):
        yield f"epoch {metrics.epoch!r} and sequence {metrics.sequence!r} are not counters"
    if metrics.busy_rate and metrics.batch_duration == 0:
        yield "rows were processed in a batch without a duration"


def _is_nonsense(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return not (math.isfinite(value) and 0 <= value <= MAX_VALUE)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _outdated(metrics: QueryMetrics, newest: AcceptedMetrics, now: datetime, frozen_after: timedelta) -> Iterator[str]:
    if metrics.epoch < newest.epoch:
        yield f"the metrics are of epoch {metrics.epoch}, and the newest epoch is {newest.epoch}"
    elif metrics.epoch == newest.epoch and metrics.sequence < newest.sequence:
        yield f"the sequence number decreased from {newest.sequence} to {metrics.sequence}"
    elif newest.at is not None and now < newest.at:
        yield f"the clock stepped back from {newest.at.isoformat()}"
    elif is_unchanged(metrics, newest) and newest.at is not None and now - newest.at >= frozen_after:
        yield f"the metrics have not changed since {newest.at.isoformat()}"
