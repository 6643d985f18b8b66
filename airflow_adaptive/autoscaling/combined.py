"""`CombinedPolicy`: the calendar sets the bounds, and the load policy advises within these bounds. An override of a user precedes both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, VertexLimits
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from airflow_adaptive.autoscaling.calendar.scheduled_policy import CALENDAR, ScheduledMemory, ScheduledPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadMemory, LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError, dry_run_violations

BOTH = "calendar and load"


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedMemory:
    """Memory of the policy for one job.

    Attributes:
        calendar: memory of the scheduled policy.
        load: memory of the load policy.
        held: the last bounds that were advised outside of excluded periods; empty before the first.
    """

    calendar: ScheduledMemory = field(default_factory=ScheduledMemory)
    load: LoadMemory = field(default_factory=LoadMemory)
    held: Mapping[str, ParallelismRange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedPolicy:
    """Bounds by the calendar, and an upper bound by the load within them.

    An override of a user takes precedence until it expires or is cleared. The excluded periods of the calendar also apply to the
    load policy.

    Attributes:
        calendar: policy whose bounds replace the bounds that the DAG declares.
        load: policy that advises within the bounds of the calendar.
        dry_run: whether the advice of both policies is reported only.

    Raises:
        RescalePolicyError: a part has the wrong type or a `dry_run` of its own.
    """

    calendar: ScheduledPolicy
    load: LoadPolicy = field(default_factory=LoadPolicy)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Check the parts. Raises `RescalePolicyError`."""
        parts = (("calendar", self.calendar, ScheduledPolicy), ("load", self.load, LoadPolicy))
        wrong = [
            f"{name} must be a {kind.__name__}, not a {type(part).__name__}"
            for name, part, kind in parts
            if not isinstance(part, kind)
        ]
        wrong += [
            f"{name} has a dry_run of its own: set dry_run of the combined policy, which applies to both"
            for name, part, _ in parts
            if getattr(part, "dry_run", False)
        ]
        wrong += dry_run_violations(self.dry_run)
        if wrong:
            raise RescalePolicyError("combined policy", wrong)

    def remember(self) -> CombinedMemory:
        """See `RescalePolicy`."""
        return CombinedMemory(calendar=self.calendar.remember(), load=self.load.remember())

    def advise(self, memory: CombinedMemory, policy_input: PolicyInput) -> tuple[CombinedMemory, Advice | None]:
        """See `RescalePolicy`; the policy always returns advice.

        Raises:
            RescalePolicyError: the job cannot have the bounds of a window; lists all violations.
        """
        calendar, by_calendar = self.calendar.advise(memory.calendar, policy_input)
        planned = replace(memory, calendar=calendar)
        if memory.held.keys() == policy_input.limits.keys() and self.calendar.excluded_span(policy_input.at):
            return planned, replace(by_calendar, bounds=memory.held, source=CALENDAR)
        load, by_load = self.load.advise(
            memory.load, replace(policy_input, limits=_within(by_calendar.bounds, policy_input.limits))
        )
        advice = _joined(by_calendar, by_load)
        return replace(planned, load=load, held=advice.bounds), advice


def _within(bounds: Requirements, limits: Mapping[str, VertexLimits]) -> Mapping[str, VertexLimits]:
    """Return the limits of the job, with the bounds of the calendar instead of the declared bounds."""
    return {name: replace(limit, declared=bounds[name]) for name, limit in limits.items()}


def _joined(calendar: Advice, load: Advice | None) -> Advice:
    if load is None:
        return replace(calendar, source=CALENDAR)
    reason = f"{calendar.reason}; {load.reason}"
    return Advice(bounds=load.bounds, reason=reason, next_at=calendar.next_at, source=BOTH)
