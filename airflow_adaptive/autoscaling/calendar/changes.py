"""Changes of a scheduled policy: the next changes, the last change, and remarks on windows where clocks are set."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import islice

from airflow_adaptive._core.requirements.advice import VertexLimits
from airflow_adaptive._core.scheduler.job_graph import UPPER_BOUND_MAX_PARALLELISM
from airflow_adaptive._core.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange, Requirements
from airflow_adaptive.autoscaling.calendar.period import Period, WallClock, days_of, to_utc
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.policy import EVERY_VERTEX

_DAY = timedelta(days=1)
_MOST_STEPS = 1000
"""Maximum number of consecutive changes of the reason without a change of the bounds."""

_BACK = tuple(days * _DAY for days in (2, 9, 40, 400))
"""Durations of the search for the last change, in increasing order."""

_UNKNOWN = VertexLimits(
    max_parallelism=UPPER_BOUND_MAX_PARALLELISM + 1, declared=ParallelismRange(1, UPPER_BOUND_MAX_PARALLELISM + 1)
)
"""Limits of a vertex with unknown bounds: larger than any bound that a policy can declare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChange:
    """A change of the advised bounds.

    Attributes:
        at: time of the advice, in UTC.
        local: the same time on the wall clock of the policy.
        before: bounds before the change.
        after: bounds after the change. Without the limits of the job, "*" contains the bounds of the vertices that the policy does not
            name, and -1 stands for a bound that the DAG declares.
        window: name of the window of the new bounds, None for the default.
        reason: human-readable reason.
        ready_at: begin of the window for which the change is early, in UTC; None if the change is not early.
        remarks: effects of clock changes on windows since the last change.
    """

    at: datetime
    local: str
    before: Requirements
    after: Requirements
    window: str | None
    reason: str
    ready_at: datetime | None = None
    remarks: tuple[str, ...] = ()


def upcoming_changes(
    policy: ScheduledPolicy,
    at: datetime,
    n: int,
    *,
    limits: Mapping[str, VertexLimits] | None = None,
    lead: timedelta | None = None,
) -> list[ScheduledChange]:
    """Return the next changes after an instant; fewer than `n` if no more changes exist.

    Args:
        policy: the policy.
        at: instant with a time zone.
        n: maximum number of changes.
        limits: limits of the job, None if they are unknown.
        lead: lead time of scale-ups (`ScheduledPolicy.lead` of measured durations); None for the lead time without measurements.

    Raises:
        RescalePolicyError: the job cannot have the bounds of a window.
        ValueError: `at` has no time zone.
    """
    if limits is not None:
        policy.require(limits)
    lead = policy.lead({}) if lead is None else lead
    changes = islice(_changes(policy, to_utc(at), limits or _unknown(policy), lead), n)
    return [change if limits is not None else _as_declared(change) for change in changes]


def last_change(policy: ScheduledPolicy, at: datetime, lead: timedelta) -> datetime | None:
    """Return the time of the last change before an instant, None if it is more than a year ago.

    Args:
        policy: the policy.
        at: instant with a time zone.
        lead: lead time of scale-ups.
    """
    for back in _BACK:
        last = None
        for change in _changes(policy, to_utc(at) - back, _unknown(policy), lead):
            if change.at > at:
                break
            last = change.at
        if last is not None:
            return last
    return None


def bounds_at(
    policy: ScheduledPolicy, at: datetime, vertices: Collection[str], lead: timedelta | None = None
) -> Requirements:
    """Return the bounds at an instant for a job with known vertices and unknown bounds; -1 stands for a bound that the DAG declares.

    Args:
        policy: the policy.
        at: instant with a time zone.
        vertices: names of all vertices.
        lead: lead time of scale-ups; None for the lead time without measurements.

    Raises:
        RescalePolicyError: the policy names an unknown vertex.
    """
    limits = dict.fromkeys(vertices, _UNKNOWN)
    policy.require(limits)
    soon = policy.advise_at(at, limits, policy.lead({}) if lead is None else lead).bounds
    now = policy.advise_at(at, limits, timedelta(0)).bounds
    # The larger of declared and unknown bounds is unknown, so such a vertex gets no lead time.
    return _without_unknown(
        {name: now[name] if soon[name].upper == _UNKNOWN.max_parallelism else soon[name] for name in vertices}
    )


def _changes(
    policy: ScheduledPolicy, at: datetime, limits: Mapping[str, VertexLimits], lead: timedelta
) -> Iterator[ScheduledChange]:
    now, reported, steps = policy.advise_at(at, limits, lead), at, 0
    while now.next_at is not None and steps < _MOST_STEPS:
        moment = now.next_at
        then = policy.advise_at(moment, limits, lead)
        steps += 1
        if then.bounds != now.bounds:
            known = max(moment, then.ready_at or moment)
            yield ScheduledChange(
                at=moment,
                local=policy.clock.zoned(moment).isoformat(),
                before=now.bounds,
                after=then.bounds,
                window=then.window,
                reason=then.reason,
                ready_at=then.ready_at,
                remarks=tuple(remarks(policy, reported, known)),
            )
            reported, steps = max(reported, known), 0
        now = then


def remarks(policy: ScheduledPolicy, after: datetime, until: datetime) -> Iterator[str]:
    """Effects of clock changes between two instants on windows and excluded periods, as human-readable text."""
    clock, holidays = policy.clock, days_of(policy.holidays)
    day, last = clock.local(after).date() - _DAY, clock.local(until).date()
    while day <= last:
        for period in (*(window.when for window in policy.windows), *policy.excluded):
            if (period.plan is None or not period.plan.every_hour) and period.begins_on(day, holidays):
                yield from (text for at, text in _of_day(period, clock, day) if after < at <= until)
        day += _DAY


def _of_day(period: Period, clock: WallClock, day: date) -> Iterator[tuple[datetime, str]]:
    for start, end in period.local_spans(day):
        begins, ends = clock.instant(start), clock.instant(end)
        if begins == ends:
            yield begins, f"{period.name!r} does not take place on {day}: its local times do not exist ({clock.zone})"
            continue
        for local, at, verb in ((start, begins, "begins"), (end, ends, "ends")):
            instants = len(clock.instants_of(local))
            if instants != 1:
                problem = f"comes twice, the {clock.repeated} counts" if instants else "does not exist"
                effect = f"{period.name!r} {verb} at {clock.zoned(at).isoformat()}"
                yield at, f"{effect}: {local:%Y-%m-%d %H:%M} {problem} ({clock.zone})"


def _unknown(policy: ScheduledPolicy) -> Mapping[str, VertexLimits]:
    """Return the limits of the vertices that the policy names, with unknown bounds."""
    bounds = [window.bounds for window in policy.windows] + ([] if policy.default is None else [policy.default])
    names = dict.fromkeys([*(name for each in bounds for name in each.vertices), EVERY_VERTEX])
    return dict.fromkeys(names, _UNKNOWN)


def _as_declared(change: ScheduledChange) -> ScheduledChange:
    return replace(change, before=_without_unknown(change.before), after=_without_unknown(change.after))


def _without_unknown(bounds: Requirements) -> Requirements:
    return {
        name: ParallelismRange(wanted.lower, RESET_TO_DEFAULT) if wanted.upper > UPPER_BOUND_MAX_PARALLELISM else wanted
        for name, wanted in bounds.items()
    }
