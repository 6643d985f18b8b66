"""Whether figures of a query may be believed: what is missing, impossible, frozen or outdated is ignored, with a reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive.autoscaling.policy import QueryMetrics

MOST = 1e15
"""No figure is larger: rows, or rows per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Which figures of a query were the newest that were believed.

    Attributes:
        epoch: of the driver.
        sequence: of the report.
        at: when it was seen first.
        backlog: that it told, None if it did not.
    """

    epoch: int = -1
    sequence: int = -1
    at: datetime | None = None
    backlog: float | None = None


def doubts(figures: QueryMetrics, newest: Newest, now: datetime, patience: timedelta) -> list[str]:
    """Why the figures are not to be acted on, for people; empty if they are.

    Args:
        figures: as they came in.
        newest: that were believed before.
        now: when they came in.
        patience: how long figures may stand still until they are called frozen.
    """
    return list(_impossible(figures)) or list(_outdated(figures, newest, now, patience))


def is_repeated(figures: QueryMetrics, newest: Newest) -> bool:
    """Whether they are those that were believed last."""
    return (figures.epoch, figures.sequence) == (newest.epoch, newest.sequence)


def believed(figures: QueryMetrics, newest: Newest, now: datetime) -> Newest:
    """What to remember of figures without doubts."""
    if is_repeated(figures, newest):
        return newest
    return replace(newest, epoch=figures.epoch, sequence=figures.sequence, at=now, backlog=figures.backlog)


def _impossible(figures: QueryMetrics) -> Iterator[str]:
    needed = {
        "rows per second that came in": figures.input_rate,
        "rows per second while busy": figures.busy_rate,
        "busy share": figures.busy,
        "batch duration": figures.batch_duration,
    }
    yield from (f"{name} is missing" for name, value in needed.items() if value is None)
    optional = {"backlog": figures.backlog, "trigger interval": figures.trigger_interval, "running": figures.running}
    for name, value in {**needed, **optional}.items():
        if value is not None and _is_nonsense(value):
            yield f"{name} is {value!r}, which is no amount"
    if not _is_count(figures.epoch) or not _is_count(figures.sequence):
        yield f"epoch {figures.epoch!r} and sequence {figures.sequence!r} are no counters"
    if _contradicts(figures):
        yield "rows came in and were processed in no time"


def _is_nonsense(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return not (math.isfinite(value) and 0 <= value <= MOST)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _contradicts(figures: QueryMetrics) -> bool:
    return bool(figures.busy_rate) and figures.batch_duration == 0


def _outdated(figures: QueryMetrics, newest: Newest, now: datetime, patience: timedelta) -> Iterator[str]:
    if figures.epoch < newest.epoch:
        yield f"they are of epoch {figures.epoch}, the newest is {newest.epoch}"
    elif figures.epoch == newest.epoch and figures.sequence < newest.sequence:
        yield f"their count jumped back from {newest.sequence} to {figures.sequence}"
    elif newest.at is not None and now < newest.at:
        yield f"the clock jumped back from {newest.at.isoformat()}"
    elif is_repeated(figures, newest) and newest.at is not None and now - newest.at >= patience:
        yield f"they have been frozen since {newest.at.isoformat()}"
