"""The calendar and the load together: the calendar sets floor and ceiling, the load moves within, a person wins over both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from airflow_adaptive.autoscaling.calendar.scheduled_policy import CALENDAR, ScheduledMemory, ScheduledPolicy, days_of
from airflow_adaptive.autoscaling.load.load_policy import LoadMemory, LoadPolicy, override
from airflow_adaptive.autoscaling.policy import (
    Advice,
    PolicyInput,
    RescalePolicyError,
    VertexLimits,
    dry_run_violations,
)
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements

BOTH = "calendar and load"

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedMemory:
    """What is remembered of a job.

    Attributes:
        calendar: by the calendar.
        load: by the load policy.
        held: bounds that were advised last outside of the calendar's excluded periods; empty before.
    """

    calendar: ScheduledMemory = field(default_factory=ScheduledMemory)
    load: LoadMemory = field(default_factory=LoadMemory)
    held: Mapping[str, ParallelismRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedPolicy:
    """Bounds by the calendar, parallelism within them by the load.

    Bounds that a person has set win until they expire or are lifted; the calendar's excluded periods hold for the load too.

    Attributes:
        calendar: its bounds take the place of those that the DAG declares.
        load: advises within these.
        dry_run: advice is told, and not acted on; for both parts alike.

    Raises:
        RescalePolicyError: a part is something else, or has a dry run of its own.
    """

    calendar: ScheduledPolicy
    load: LoadPolicy = field(default_factory=LoadPolicy)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Check the parts. Raises `RescalePolicyError`."""
        parts = (("calendar", self.calendar, ScheduledPolicy), ("load", self.load, LoadPolicy))
        wrong = [
            f"{name} is a {type(part).__name__}: give a {kind.__name__}"
            for name, part, kind in parts
            if not isinstance(part, kind)
        ]
        wrong += [
            f"{name} has a dry_run of its own: set it on the combined policy, it holds for both"
            for name, part, _ in parts
            if getattr(part, "dry_run", False)
        ]
        wrong += dry_run_violations(self.dry_run)
        if wrong:
            raise RescalePolicyError("combined policy", wrong)

    def remember(self) -> CombinedMemory:
        """See `RescalePolicy`."""
        return CombinedMemory(calendar=self.calendar.remember(), load=self.load.remember())

    def advise(self, memory: CombinedMemory, seen: PolicyInput) -> tuple[CombinedMemory, Advice | None]:
        """See `RescalePolicy`; there is always an answer.

        Raises:
            RescalePolicyError: the job can't have the bounds of a window; lists everything.
        """
        overridden = override(seen)
        if overridden is not None:
            return memory, replace(overridden, dry_run=self.dry_run)
        calendar, by_calendar = self.calendar.advise(memory.calendar, seen)
        planned = replace(memory, calendar=calendar)
        if memory.held.keys() == seen.limits.keys() and is_excluded(self.calendar, seen.at):
            held = replace(by_calendar, bounds=memory.held, source=CALENDAR, dry_run=self.dry_run)
            return planned, held
        load, by_load = self.load.advise(memory.load, replace(seen, limits=_within(by_calendar.bounds, seen.limits)))
        advice = replace(_joined(by_calendar, by_load), dry_run=self.dry_run)
        return replace(planned, load=load, held=advice.bounds), advice


def is_excluded(calendar: ScheduledPolicy, at: datetime) -> bool:
    """Whether an instant lies in a period in which nothing may move."""
    days_off = days_of(calendar.holidays)
    spans = (span for period in calendar.excluded for span in period.spans(calendar.clock, days_off, at, at + _INSTANT))
    return any(begin <= at < end for begin, end in spans)


def _within(bounds: Requirements, limits: Mapping[str, VertexLimits]) -> Mapping[str, VertexLimits]:
    """The limits of the job, with the calendar's bounds in place of the declared ones."""
    return {name: replace(limit, declared=bounds[name]) for name, limit in limits.items()}


def _joined(calendar: Advice, load: Advice | None) -> Advice:
    if load is None:
        return replace(calendar, source=CALENDAR)
    reason = f"{calendar.reason}; {load.reason}"
    return Advice(bounds=load.bounds, reason=reason, next_at=calendar.next_at, source=BOTH)
