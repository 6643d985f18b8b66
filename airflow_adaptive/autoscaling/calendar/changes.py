"""What a scheduled policy is going to do: its next changes, and what clocks that are set make of its windows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from airflow_adaptive.autoscaling.calendar.period import Period
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy, days_of
from airflow_adaptive.autoscaling.calendar.wall_clock import Repeated, WallClock, plain
from airflow_adaptive.autoscaling.policy import EVERY_VERTEX, VertexLimits
from airflow_adaptive.scheduler.job_graph import UPPER_BOUND_MAX_PARALLELISM
from airflow_adaptive.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange, Requirements

_DAY = timedelta(days=1)
_MOST_STEPS = 1000
"""So many times in a row may an answer change without its bounds."""

_BACK = tuple(days * _DAY for days in (2, 9, 40, 400))
"""How far is looked for the last change, in ever longer steps."""

_UNKNOWN = VertexLimits(
    max_parallelism=UPPER_BOUND_MAX_PARALLELISM + 1, declared=ParallelismRange(1, UPPER_BOUND_MAX_PARALLELISM + 1)
)
"""Of a vertex of which nothing is known: whatever is declared for it, it is more than a policy can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Other bounds.

    Attributes:
        at: when they are advised, in UTC.
        local: the same as the policy's wall clock shows it.
        before: bounds until then.
        after: bounds from then on. Without limits of the job, "*" has what holds for vertices that the policy does not name,
            and -1 is what its DAG declares.
        window: name of the window that they are for, None for the default.
        reason: in plain words.
        ready_at: when the window begins that they are early for, in UTC; None if they are not early.
        remarks: what clocks that were set since the change before make of windows.
    """

    at: datetime
    local: str
    before: Requirements
    after: Requirements
    window: str | None
    reason: str
    ready_at: datetime | None = None
    remarks: tuple[str, ...] = ()


def preview(
    policy: ScheduledPolicy,
    at: datetime,
    n: int,
    *,
    limits: Mapping[str, VertexLimits] | None = None,
    lead: timedelta | None = None,
) -> list[Change]:
    """The next changes after an instant; fewer than `n` if there are no more.

    Args:
        policy: it.
        at: with a time zone.
        n: at most so many.
        limits: of the job, None if they are not known.
        lead: how early what gives more is advised (`ScheduledPolicy.lead` of measured times); None as if none was measured.

    Raises:
        RescalePolicyError: the job can't have the bounds of a window.
        ValueError: `at` has no time zone.
    """
    if limits is not None:
        policy.require(limits)
    lead = policy.lead({}) if lead is None else lead
    found: list[Change] = []
    for change in _changes(policy, plain(at), limits or _unknown(policy), lead):
        if len(found) >= n:
            break
        found.append(change if limits is not None else _as_declared(change))
    return found


def last_change(policy: ScheduledPolicy, at: datetime, lead: timedelta) -> datetime | None:
    """When the bounds that hold at an instant came into force, None if they have held for more than a year.

    Args:
        policy: it.
        at: with a time zone.
        lead: how early what gives more is advised.
    """
    for back in _BACK:
        last = None
        for change in _changes(policy, plain(at) - back, _unknown(policy), lead):
            if change.at > at:
                break
            last = change.at
        if last is not None:
            return last
    return None


def bounds_at(
    policy: ScheduledPolicy, at: datetime, vertices: Collection[str], lead: timedelta | None = None
) -> Requirements:
    """What holds at an instant for a job of which only the vertices are known; -1 is what its DAG declares.

    Args:
        policy: it.
        at: with a time zone.
        vertices: names of all of them.
        lead: how early what gives more is advised; None as if no rescale was measured.

    Raises:
        RescalePolicyError: the policy names another vertex.
    """
    limits = dict.fromkeys(vertices, _UNKNOWN)
    policy.require(limits)
    soon = policy.outlook(at, limits, policy.lead({}) if lead is None else lead).bounds
    now = policy.outlook(at, limits, timedelta(0)).bounds
    # What is most of declared and named bounds is not known, so such a vertex is not early.
    return _shown(
        {name: now[name] if soon[name].upper == _UNKNOWN.max_parallelism else soon[name] for name in vertices}
    )


def _changes(
    policy: ScheduledPolicy, at: datetime, limits: Mapping[str, VertexLimits], lead: timedelta
) -> Iterator[Change]:
    now, told, steps = policy.outlook(at, limits, lead), at, 0
    while now.next_at is not None and steps < _MOST_STEPS:
        moment = now.next_at
        then = policy.outlook(moment, limits, lead)
        steps += 1
        if then.bounds != now.bounds:
            known = max(moment, then.ready_at or moment)
            yield Change(
                at=moment,
                local=policy.clock.shown(moment).isoformat(),
                before=now.bounds,
                after=then.bounds,
                window=then.window,
                reason=then.reason,
                ready_at=then.ready_at,
                remarks=tuple(remarks(policy, told, known)),
            )
            told, steps = max(told, known), 0
        now = then


def remarks(policy: ScheduledPolicy, after: datetime, until: datetime) -> Iterator[str]:
    """What clocks that are set after an instant and up to another one make of windows and excluded periods, in plain words."""
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
            yield begins, f"{period.name!r} does not take place on {day}: its times do not exist ({clock.zone})"
            continue
        for local, at, verb in ((start, begins, "begins"), (end, ends, "ends")):
            shown = f"{local:%Y-%m-%d %H:%M}"
            instants = len(clock.both(local))
            if instants == 0:
                yield (
                    at,
                    f"{period.name!r} {verb} at {clock.shown(at).isoformat()}: {shown} does not exist ({clock.zone})",
                )
            elif instants > 1:
                which = "the second" if clock.repeated is Repeated.SECOND else "the first"
                yield (
                    at,
                    f"{period.name!r} {verb} at {clock.shown(at).isoformat()}: {shown} comes twice, {which} counts ({clock.zone})",
                )


def _unknown(policy: ScheduledPolicy) -> Mapping[str, VertexLimits]:
    """Limits of a job of which only the vertices are known that the policy names."""
    bounds = [window.bounds for window in policy.windows] + ([] if policy.default is None else [policy.default])
    names = dict.fromkeys([*(name for each in bounds for name in each.vertices), EVERY_VERTEX])
    return dict.fromkeys(names, _UNKNOWN)


def _as_declared(change: Change) -> Change:
    return replace(change, before=_shown(change.before), after=_shown(change.after))


def _shown(bounds: Requirements) -> Requirements:
    return {
        name: ParallelismRange(wanted.lower, RESET_TO_DEFAULT) if wanted.upper > UPPER_BOUND_MAX_PARALLELISM else wanted
        for name, wanted in bounds.items()
    }
