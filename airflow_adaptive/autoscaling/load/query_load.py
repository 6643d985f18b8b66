"""One query under `LoadPolicy`: what is remembered of it, and what a look at its figures leads to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from airflow_adaptive.autoscaling.load.batch_cost import BatchCost, aligned, effective
from airflow_adaptive.autoscaling.load.metrics_check import Newest, believed, doubts, is_repeated
from airflow_adaptive.autoscaling.load.settings import LoadSettings
from airflow_adaptive.autoscaling.policy import QueryMetrics

BUCKETS = 8
"""What was needed is remembered as this many maxima over `down_delay`."""

SETTLING = timedelta(seconds=30)
"""After a rise it is not judged for so long, and for as long as a rescale takes: slots that came may still be warming up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Most slots that were needed in a bucket of time which began then."""

    at: datetime
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rise whose effect is not known yet: slots before and after, rows per busy second before, when it was asked for."""

    before: int
    after: int
    rate: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """More slots than these gained nothing; none above are tried before `until`."""

    slots: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMemory:
    """What is remembered of a query.

    Attributes:
        vertices: that it consists of.
        newest: figures that were believed last.
        cost: of its batches.
        sample_rate: rows per busy second of the batch that was counted last.
        sample_ms: its duration.
        slots: in force when it was looked at last, 0 before.
        slots_since: since when these have been in force.
        target: slots that are advised; None before the first figures.
        changed_at: when the target changed last.
        needs: what was needed lately, oldest first.
        over_since: since when it has been too busy, None if it is not.
        last_need: slots that the last look asked for while it was too busy, 0 while it is not.
        idle_since: since when no row has come in, and none waited; None if there are some.
        trial: see `Trial`.
        barred: see `Barred`.
    """

    vertices: tuple[str, ...] = ()
    newest: Newest = field(default_factory=Newest)
    cost: BatchCost = field(default_factory=BatchCost)
    sample_rate: float = 0.0
    sample_ms: float = 0.0
    slots: int = 0
    slots_since: datetime | None = None
    target: int | None = None
    changed_at: datetime | None = None
    needs: tuple[Need, ...] = ()
    over_since: datetime | None = None
    last_need: int = 0
    idle_since: datetime | None = None
    trial: Trial | None = None
    barred: Barred | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A query at an instant.

    Attributes:
        at: the instant.
        figures: as they came in.
        slots: in force.
        lower: least that may be advised.
        upper: most that may be advised.
        partitions: of its state, 1 without any.
        cost: of a rescale.
        pauses: whether the query stands still for it.
    """

    at: datetime
    figures: QueryMetrics
    slots: int
    lower: int
    upper: int
    partitions: int
    cost: timedelta
    pauses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the budget of the day leaves: past rescales, whether parallelism may still rise, and fall."""

    rescales: tuple[datetime, ...]
    up: bool
    down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a query.

    Attributes:
        rate: rows per second that come in.
        wanted: rows per second that it has to process to work off its backlog in time as well.
        trigger: seconds between two triggers, None for as fast as possible.
    """

    rate: float
    wanted: float
    trigger: float | None


def hold(memory: QueryMemory, lower: int, upper: int) -> QueryMemory:
    """The target stays, within the bounds; so does what was needed before."""
    return memory if memory.target is None else replace(memory, target=_within(memory.target, lower, upper))


def follow(policy: LoadSettings, memory: QueryMemory, seen: Seen, allowed: Allowed) -> tuple[QueryMemory, str]:
    """The memory with the target that the figures lead to, and why."""
    wrong = doubts(seen.figures, memory.newest, seen.at, policy.frozen_after)
    if wrong:
        return hold(memory, seen.lower, seen.upper), f"figures are ignored: {', '.join(wrong)}"
    known = _started(memory, seen)
    if is_repeated(seen.figures, memory.newest):
        return known, "no news"
    learned = _learned(known, seen)
    load = _load(policy, learned, seen)
    fresh = replace(learned, newest=believed(seen.figures, memory.newest, seen.at))
    if load.rate > 0 and not fresh.cost.is_known:
        return fresh, "no batch with rows has ended yet"
    if load.trigger is None and load.rate > 0 and not fresh.cost.has_spread:
        return fresh, "its batches are all alike, and triggered as fast as possible: how busy it is can't be told"
    return _decided(policy, fresh, seen, load, allowed)


def _started(memory: QueryMemory, seen: Seen) -> QueryMemory:
    """The target is within the bounds, at first what runs; what runs is noted."""
    target = _within(seen.slots if memory.target is None else memory.target, seen.lower, seen.upper)
    if memory.slots == seen.slots:
        return replace(memory, target=target)
    return replace(memory, target=target, slots=seen.slots, slots_since=seen.at)


def _learned(memory: QueryMemory, seen: Seen) -> QueryMemory:
    """The batch is counted, unless it was before, or began on other slots."""
    rate, duration = seen.figures.busy_rate or 0.0, seen.figures.batch_duration or 0.0
    if (rate, duration) == (memory.sample_rate, memory.sample_ms):
        return memory
    noted = replace(memory, sample_rate=rate, sample_ms=duration)
    began_before = memory.slots_since is not None and seen.at - memory.slots_since < timedelta(
        milliseconds=min(duration, 1e9)
    )
    if began_before and memory.cost.is_known:
        return noted
    seconds = duration / 1000
    return replace(noted, cost=memory.cost.count(rate * seconds, seconds, effective(seen.slots, seen.partitions)))


def _load(policy: LoadSettings, memory: QueryMemory, seen: Seen) -> Load:
    """Rows that come in: those that are read, and those by which the backlog grows; a batch that overruns hides some more."""
    figures, newest = seen.figures, memory.newest
    trigger = (figures.trigger_interval or 0.0) / 1000
    duration = (figures.batch_duration or 0.0) / 1000
    rate = (figures.input_rate or 0.0) + _growth(figures, newest, seen.at)
    interval = max(trigger, duration) or 1.0
    running = (figures.running or 0.0) / 1000
    # How long a batch that overruns will last is not known: on average it is half done when one looks at it.
    lasts = 2 * running if running > interval else running
    running = memory.cost.rows(lasts, effective(seen.slots, seen.partitions))
    rate = max(rate, running / interval)
    late = rate * max(0.0, duration - trigger) if trigger else 0.0
    behind = late + max(0.0, (figures.backlog or 0.0) - rate * interval)
    return Load(rate=rate, wanted=rate + behind / policy.catch_up.total_seconds(), trigger=trigger or None)


def _growth(figures: QueryMetrics, newest: Newest, now: datetime) -> float:
    if figures.backlog is None or newest.backlog is None or newest.at is None or figures.epoch != newest.epoch:
        return 0.0
    passed = (now - newest.at).total_seconds()
    return max(0.0, figures.backlog - newest.backlog) / passed if passed > 0 else 0.0


def _decided(
    policy: LoadSettings, memory: QueryMemory, seen: Seen, load: Load, allowed: Allowed
) -> tuple[QueryMemory, str]:
    judged, verdict = _judged(policy, memory, seen)
    if verdict:
        return judged, verdict
    ceiling = seen.upper if judged.barred is None else min(seen.upper, judged.barred.slots)
    desired_state = _slots(judged.cost, load, policy.target, seen.partitions)
    need = _trimmed(_within(desired_state, seen.lower, max(ceiling, seen.lower)), seen)
    idle = (judged.idle_since or seen.at) if load.wanted <= 0 else None
    noted = replace(judged, needs=_noted(judged.needs, need, seen.at, policy.down_delay), idle_since=idle)
    target = noted.target or seen.slots
    busy = judged.cost.busy(load.wanted, load.trigger, effective(target, seen.partitions))
    if busy > policy.high:
        return _rising(policy, noted, seen, need, busy, allowed)
    return _falling(policy, replace(noted, over_since=None, last_need=0), seen, busy, allowed)


# ---- up -------------------------------------------------------------------------------------------------------------


def _rising(
    policy: LoadSettings, memory: QueryMemory, seen: Seen, need: int, busy: float, allowed: Allowed
) -> tuple[QueryMemory, str]:
    """More slots once it has been too busy for `up_delay`: as many as the last two looks agree on."""
    since = memory.over_since or seen.at
    agreed = min(need, memory.last_need)
    waiting = replace(memory, over_since=since, last_need=need)
    target = memory.target or seen.slots
    wanted = _trimmed(min(agreed, math.ceil(target * policy.up_factor)), seen)
    load = f"it would be busy for {min(busy, 99):.0%} of the time on {target} slot(s)"
    if memory.last_need == 0 or seen.at - since < policy.up_delay:
        return waiting, f"{load}, not yet for up_delay"
    if wanted <= target:
        barred = "" if memory.barred is None else ", more gained nothing"
        return waiting, f"{load}, and has all that it may have{barred}"
    if not allowed.up:
        return waiting, f"{load}, but the rescales of the day are used up"
    if seen.pauses and not _is_worth_a_pause(policy, target, wanted, seen):
        return waiting, f"{load}, but {wanted} would not make up for the pause within catch_up"
    trial = Trial(before=target, after=wanted, rate=seen.figures.busy_rate or 0.0, at=seen.at)
    risen = replace(waiting, target=wanted, changed_at=seen.at, trial=trial, over_since=None, last_need=0)
    return risen, f"{load}: {target} -> {wanted}"


def _is_worth_a_pause(policy: LoadSettings, target: int, wanted: int, seen: Seen) -> bool:
    """Whether what is gained within `catch_up` is more than what is lost while the query stands still."""
    before, after = effective(target, seen.partitions), effective(wanted, seen.partitions)
    return (after - before) * policy.catch_up.total_seconds() > after * seen.cost.total_seconds()


def _judged(policy: LoadSettings, memory: QueryMemory, seen: Seen) -> tuple[QueryMemory, str]:
    """Whether a rise was worth it, once its slots have worked for a while; "" if there is nothing to undo."""
    barred = memory.barred if memory.barred is not None and memory.barred.until > seen.at else None
    memory = replace(memory, barred=barred)
    trial, since = memory.trial, memory.slots_since
    if trial is None or since is None or seen.slots <= trial.before or since < trial.at:
        return memory, ""
    settled = max(SETTLING, 2 * timedelta(milliseconds=min(seen.figures.batch_duration or 0.0, 1e9)))
    if seen.at - since < settled + seen.cost:
        return memory, ""
    done = replace(memory, trial=None)
    if not seen.figures.trigger_interval:
        return done, ""  # always busy, and as fast as rows come in: it can't be told
    gain = effective(seen.slots, seen.partitions) / effective(trial.before, seen.partitions) - 1
    grown = (seen.figures.busy_rate or 0.0) / trial.rate - 1 if trial.rate > 0 else math.inf
    if (seen.figures.busy or 0.0) < policy.high or grown >= policy.effectiveness * gain:
        return done, ""
    before = _within(trial.before, seen.lower, seen.upper)
    until = seen.at + policy.ineffective_memory
    undone = replace(done, target=before, changed_at=seen.at, barred=Barred(slots=before, until=until))
    reason = f"{seen.slots} slot(s) are no faster than {trial.before}: back to {before}, until {until.isoformat()}"
    return replace(undone, over_since=None, last_need=0), reason


# ---- down -----------------------------------------------------------------------------------------------------------


def _falling(
    policy: LoadSettings, memory: QueryMemory, seen: Seen, busy: float, allowed: Allowed
) -> tuple[QueryMemory, str]:
    """Fewer slots once it has needed less for all of `down_delay`, if that saves more than the rescale costs."""
    target = memory.target or seen.slots
    idle = memory.idle_since is not None and seen.at - memory.idle_since >= policy.idle_delay
    needed = max((need.slots for need in memory.needs), default=target)
    wanted = seen.lower if idle else max(needed, math.ceil(target * policy.down_factor), seen.lower)
    load = f"it is busy for {busy:.0%} of the time on {target} slot(s)"
    if wanted >= target:
        return memory, load
    if not idle and seen.at - memory.needs[0].at < policy.down_delay:
        return memory, f"{load}: {wanted} would do, not yet for down_delay"
    if not allowed.down:
        return memory, f"{load}: {wanted} would do, but what is left of the day's rescales is for rises"
    saved = (target - wanted) * policy.down_delay.total_seconds()
    if saved <= target * seen.cost.total_seconds():
        return memory, f"{load}: {wanted} would do, which saves less than a rescale costs"
    fallen = replace(memory, target=wanted, changed_at=seen.at, trial=None)
    return fallen, f"{load}: {target} -> {wanted}"


def _noted(needs: tuple[Need, ...], slots: int, now: datetime, delay: timedelta) -> tuple[Need, ...]:
    """The needs of the last `delay`, as maxima of buckets; one older than that shows that the window is full."""
    if needs and now < needs[-1].at:
        needs = ()
    if needs and now - needs[-1].at < delay / BUCKETS:
        last = needs[-1]
        return (*needs[:-1], replace(last, slots=max(last.slots, slots)))
    first = next((index for index in range(len(needs) - 1, 0, -1) if now - needs[index].at >= delay), 0)
    return (*needs[first:], Need(at=now, slots=slots))


# ---- slots ----------------------------------------------------------------------------------------------------------


def _slots(cost: BatchCost, load: Load, share: float, partitions: int) -> int:
    return aligned(cost.effective_slots(load.wanted, load.trigger, share), partitions) if cost.is_known else 1


def _within(slots: int, lower: int, upper: int) -> int:
    return min(max(slots, lower), upper)


def _trimmed(slots: int, seen: Seen) -> int:
    """Without the slots that would only idle in a last wave that is short."""
    if seen.partitions <= 1:
        return slots
    return max(seen.lower, math.ceil(seen.partitions / math.ceil(seen.partitions / max(slots, 1))))
