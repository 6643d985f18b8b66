"""One query under `LoadPolicy`: the settings, the metrics that are plausible, its memory, and the target that follows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta

from airflow_adaptive._core.requirements.advice import QueryMetrics
from airflow_adaptive._core.scheduler.config.parsing import LONGEST
from airflow_adaptive.autoscaling.load.batch_cost import BatchCost, aligned, effective

NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Settings of `LoadPolicy`. The defaults were tuned on recorded loads (docs/concepts/policies.md).

    Attributes:
        target: busy share of the trigger interval after a change (Flink's autoscaler: utilization.target).
        high: busy share above which the query gets more slots (Flink: utilization.max).
        catch_up: time within which the query processes its backlog (Flink: catch-up.duration).
        up_delay: time for which the query is too busy before it gets more slots.
        down_delay: time for which the query needs fewer slots before it releases slots.
        idle_delay: time without input and backlog before the query releases all slots above its lower bound.
        up_factor: largest factor of a scale-up.
        down_factor: smallest factor of a scale-down.
        effectiveness: smallest share of the expected gain with which a scale-up is kept (Flink: scaling.effectiveness.threshold).
        ineffective_memory: time for which the policy does not repeat a scale-up without effect.
        rescales_per_day: maximum number of changes within 24 hours; the last quarter is reserved for scale-ups.
        frozen_after: time after which unchanged metrics count as frozen.
    """

    target: float = 0.7
    high: float = 0.9
    catch_up: timedelta = timedelta(minutes=5)
    up_delay: timedelta = timedelta(seconds=10)
    down_delay: timedelta = timedelta(minutes=30)
    idle_delay: timedelta = timedelta(minutes=2)
    up_factor: float = 10.0
    down_factor: float = 0.2
    effectiveness: float = 0.1
    ineffective_memory: timedelta = timedelta(hours=1)
    rescales_per_day: int = 96
    frozen_after: timedelta = timedelta(minutes=2)


def setting_violations(settings: LoadSettings) -> list[str]:
    """Return all violations of the settings; each text names the setting and the fix."""
    return list(_kinds(settings)) or list(_ranges(settings))


def _kinds(settings: LoadSettings) -> Iterator[str]:
    for row in fields(LoadSettings):
        value = getattr(settings, row.name)
        if isinstance(row.default, timedelta):
            if not isinstance(value, timedelta) or not NO_TIME < value <= LONGEST:
                yield f"{row.name} must be a duration longer than zero, not {value!r}"
        elif isinstance(row.default, int):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                yield f"{row.name} must be a whole number of at least 1, not {value!r}"
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            yield f"{row.name} must be a number, not {value!r}"


def _ranges(settings: LoadSettings) -> Iterator[str]:
    if not 0 < settings.target < settings.high <= 1:
        yield f"target {settings.target} and high {settings.high} must satisfy 0 < target < high <= 1"
    if not settings.up_factor > 1:
        yield f"up_factor must be a number above 1, not {settings.up_factor}"
    if not 0 <= settings.down_factor < 1:
        yield f"down_factor must be a number from 0 to below 1, not {settings.down_factor}"
    if not 0 <= settings.effectiveness < 1:
        yield f"effectiveness must be a number from 0 to below 1, not {settings.effectiveness}"


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


def _is_unchanged(metrics: QueryMetrics, newest: AcceptedMetrics) -> bool:
    """Return whether the metrics are the ones that were accepted last."""
    return (metrics.epoch, metrics.sequence) == (newest.epoch, newest.sequence)


def _impossible(metrics: QueryMetrics) -> Iterator[str]:
    """Yield the reasons why metrics are implausible. A driver may report any numbers."""
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
        if value is not None and not 0 <= value <= MAX_VALUE:
            yield f"{name} is {value!r}, which is not a valid amount"
    if metrics.busy_rate and metrics.batch_duration == 0:
        yield "rows were processed in a batch without a duration"


def _outdated(metrics: QueryMetrics, newest: AcceptedMetrics, now: datetime, frozen_after: timedelta) -> Iterator[str]:
    if metrics.epoch < newest.epoch:
        yield f"the metrics are of epoch {metrics.epoch}, and the newest epoch is {newest.epoch}"
    elif metrics.epoch == newest.epoch and metrics.sequence < newest.sequence:
        yield f"the sequence number decreased from {newest.sequence} to {metrics.sequence}"
    elif newest.at is not None and now < newest.at:
        yield f"the clock stepped back from {newest.at.isoformat()}"
    elif _is_unchanged(metrics, newest) and newest.at is not None and now - newest.at >= frozen_after:
        yield f"the metrics have not changed since {newest.at.isoformat()}"


BUCKETS = 8
"""Number of maxima that cover the needs of `down_delay`."""

TRIAL_PERIOD = timedelta(seconds=30)
"""Minimum time between a scale-up and its evaluation, beside the duration of the rescale: new slots may still warm up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentNeed:
    """Maximum of the needed slots in an interval that began at `at`."""

    at: datetime
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A scale-up that is not evaluated yet.

    Attributes:
        before: slots before the scale-up.
        after: slots after the scale-up.
        rate: rows per busy second before the scale-up.
        at: time of the advice.
    """

    before: int
    after: int
    rate: float
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpBlock:
    """Until `until`, the policy advises no more than `slots`, because more slots had no effect."""

    slots: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMemory:
    """Memory of a query.

    Attributes:
        vertices: vertices of the query.
        newest: the metrics that were accepted last.
        cost: cost of the batches.
        sample_rate: rows per busy second of the batch that was counted last.
        sample_ms: duration of that batch, in milliseconds.
        slots: active slots at the last input, 0 before the first.
        slots_since: time since which these slots are active.
        target: advised slots; None before the first metrics.
        needs: needs within `down_delay`, oldest first.
        over_since: time since which the query is too busy, None if the query is not too busy.
        last_need: needed slots at the last input at which the query was too busy, 0 otherwise.
        idle_since: time since which the query has neither input nor backlog, None otherwise.
        trial: the scale-up that is not evaluated yet, None without one.
        blocked: the block of further scale-ups, None without one.
    """

    vertices: tuple[str, ...] = ()
    newest: AcceptedMetrics = field(default_factory=AcceptedMetrics)
    cost: BatchCost = field(default_factory=BatchCost)
    sample_rate: float = 0.0
    sample_ms: float = 0.0
    slots: int = 0
    slots_since: datetime | None = None
    target: int | None = None
    needs: tuple[RecentNeed, ...] = ()
    over_since: datetime | None = None
    last_need: int = 0
    idle_since: datetime | None = None
    trial: Trial | None = None
    blocked: ScaleUpBlock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryInput:
    """Input for one query.

    Attributes:
        at: time of the poll.
        metrics: metrics of the query.
        slots: active slots.
        lower: smallest number of slots that may be advised.
        upper: largest number of slots that may be advised.
        partitions: state partitions of the query, 1 for a stateless query.
        cost: duration of a rescale.
        pauses: whether a rescale pauses the query.
        may_rise: whether the remaining rescales of the day allow more slots.
        may_fall: whether they allow fewer slots.
    """

    at: datetime
    metrics: QueryMetrics
    slots: int
    lower: int
    upper: int
    partitions: int
    cost: timedelta
    pauses: bool
    may_rise: bool
    may_fall: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLoad:
    """The load of a query.

    Attributes:
        rate: input rows per second.
        wanted: rows per second that the query must process to finish its backlog within `catch_up`, too.
        trigger: seconds between two triggers, None without a trigger interval.
    """

    rate: float
    wanted: float
    trigger: float | None


def keep_target(memory: QueryMemory, lower: int, upper: int) -> QueryMemory:
    """Keep the target within the bounds, and keep the needs."""
    return memory if memory.target is None else replace(memory, target=_within(memory.target, lower, upper))


def update_target(policy: LoadSettings, memory: QueryMemory, query_input: QueryInput) -> tuple[QueryMemory, str]:
    """Return the memory with the target that follows from the metrics, and the reason."""
    if query_input.metrics.is_real_time:
        kept = keep_target(memory, query_input.lower, query_input.upper)
        return kept, "Real-Time Mode has no busy share: the target stays"
    metrics, newest, now = query_input.metrics, memory.newest, query_input.at
    wrong = list(_impossible(metrics)) or list(_outdated(metrics, newest, now, policy.frozen_after))
    if wrong:
        return keep_target(memory, query_input.lower, query_input.upper), f"metrics are ignored: {', '.join(wrong)}"
    known = _with_target(memory, query_input)
    if _is_unchanged(metrics, newest):
        return known, "no new metrics"
    learned = _with_batch(known, query_input)
    load = _load(policy, learned, query_input)
    found = AcceptedMetrics(epoch=metrics.epoch, sequence=metrics.sequence, at=now, backlog=metrics.backlog)
    fresh = replace(learned, newest=found)
    if load.rate > 0 and not fresh.cost.is_known:
        return fresh, "no batch with rows has ended"
    if load.trigger is None and load.rate > 0 and not fresh.cost.has_spread:
        return fresh, "all batches have the same size and no trigger interval, so the busy share is unknown"
    return _decide(policy, fresh, query_input, load)


def _with_target(memory: QueryMemory, query_input: QueryInput) -> QueryMemory:
    """Start with the active slots as the target, and record the active slots."""
    target = _within(
        query_input.slots if memory.target is None else memory.target, query_input.lower, query_input.upper
    )
    if memory.slots == query_input.slots:
        return replace(memory, target=target)
    return replace(memory, target=target, slots=query_input.slots, slots_since=query_input.at)


def _with_batch(memory: QueryMemory, query_input: QueryInput) -> QueryMemory:
    """Count the batch once, unless it began on other slots."""
    rate, duration = query_input.metrics.busy_rate or 0.0, query_input.metrics.batch_duration or 0.0
    if (rate, duration) == (memory.sample_rate, memory.sample_ms):
        return memory
    noted = replace(memory, sample_rate=rate, sample_ms=duration)
    began_before = memory.slots_since is not None and query_input.at - memory.slots_since < timedelta(
        milliseconds=min(duration, 1e9)
    )
    if began_before and memory.cost.is_known:
        return noted
    seconds = duration / 1000
    return replace(
        noted, cost=memory.cost.count(rate * seconds, seconds, effective(query_input.slots, query_input.partitions))
    )


def _load(policy: LoadSettings, memory: QueryMemory, query_input: QueryInput) -> QueryLoad:
    """Return the input rate: rows that the query reads, growth of the backlog, and rows that a long running batch hides."""
    metrics, newest = query_input.metrics, memory.newest
    trigger = (metrics.trigger_interval or 0.0) / 1000
    duration = (metrics.batch_duration or 0.0) / 1000
    rate = (metrics.input_rate or 0.0) + _growth(metrics, newest, query_input.at)
    interval = max(trigger, duration) or 1.0
    running = (metrics.running or 0.0) / 1000
    # The duration of a running batch is unknown: on average, half of the batch is done at a poll.
    estimate = 2 * running if running > interval else running
    running = memory.cost.rows(estimate, effective(query_input.slots, query_input.partitions))
    rate = max(rate, running / interval)
    late = rate * max(0.0, duration - trigger) if trigger else 0.0
    # The unread rows include those of the running batch and those that arrive during the batch.
    behind = late + max(0.0, max(metrics.backlog or 0.0, metrics.unread or 0.0) - rate * interval)
    return QueryLoad(rate=rate, wanted=rate + behind / policy.catch_up.total_seconds(), trigger=trigger or None)


def _growth(metrics: QueryMetrics, newest: AcceptedMetrics, now: datetime) -> float:
    if metrics.backlog is None or newest.backlog is None or newest.at is None or metrics.epoch != newest.epoch:
        return 0.0
    passed = (now - newest.at).total_seconds()
    return max(0.0, metrics.backlog - newest.backlog) / passed if passed > 0 else 0.0


def _decide(
    policy: LoadSettings, memory: QueryMemory, query_input: QueryInput, load: QueryLoad
) -> tuple[QueryMemory, str]:
    judged, reversal = _evaluate_trial(policy, memory, query_input)
    if reversal:
        return judged, reversal
    ceiling = query_input.upper if judged.blocked is None else min(query_input.upper, judged.blocked.slots)
    wanted = _slots(judged.cost, load, policy.target, query_input.partitions)
    need = _trimmed(_within(wanted, query_input.lower, max(ceiling, query_input.lower)), query_input)
    idle = (judged.idle_since or query_input.at) if load.wanted <= 0 else None
    noted = replace(judged, needs=_with_need(judged.needs, need, query_input.at, policy.down_delay), idle_since=idle)
    target = noted.target or query_input.slots
    busy = judged.cost.busy(load.wanted, load.trigger, effective(target, query_input.partitions))
    if busy > policy.high:
        return _scale_up(policy, noted, query_input, need, busy)
    return _scale_down(policy, replace(noted, over_since=None, last_need=0), query_input, busy)


# ---- up -------------------------------------------------------------------------------------------------------------


def _scale_up(
    policy: LoadSettings, memory: QueryMemory, query_input: QueryInput, need: int, busy: float
) -> tuple[QueryMemory, str]:
    """More slots after `up_delay`: the smaller need of the last two inputs."""
    since = memory.over_since or query_input.at
    agreed = min(need, memory.last_need)
    waiting = replace(memory, over_since=since, last_need=need)
    target = memory.target or query_input.slots
    wanted = _trimmed(min(agreed, math.ceil(target * policy.up_factor)), query_input)
    load = f"busy for {min(busy, 99):.0%} of the time with {target} slot(s)"
    if memory.last_need == 0 or query_input.at - since < policy.up_delay:
        return waiting, f"{load}, shorter than up_delay"
    if wanted <= target:
        blocked = "" if memory.blocked is None else ", and more slots had no effect"
        return waiting, f"{load}, and the upper bound is reached{blocked}"
    if not query_input.may_rise:
        return waiting, f"{load}, but the limit rescales_per_day is reached"
    if query_input.pauses and not _is_worth_a_pause(policy, target, wanted, query_input):
        return waiting, f"{load}, but {wanted} slot(s) do not compensate the pause within catch_up"
    trial = Trial(before=target, after=wanted, rate=query_input.metrics.busy_rate or 0.0, at=query_input.at)
    risen = replace(waiting, target=wanted, trial=trial, over_since=None, last_need=0)
    return risen, f"{load}: {target} -> {wanted}"


def _is_worth_a_pause(policy: LoadSettings, target: int, wanted: int, query_input: QueryInput) -> bool:
    """Return whether the gain within `catch_up` exceeds the loss during the pause."""
    before, after = effective(target, query_input.partitions), effective(wanted, query_input.partitions)
    return (after - before) * policy.catch_up.total_seconds() > after * query_input.cost.total_seconds()


def _evaluate_trial(policy: LoadSettings, memory: QueryMemory, query_input: QueryInput) -> tuple[QueryMemory, str]:
    """Evaluate a scale-up after its slots have worked for a while; the reason is "" if the scale-up is kept."""
    blocked = memory.blocked if memory.blocked is not None and memory.blocked.until > query_input.at else None
    memory = replace(memory, blocked=blocked)
    trial, since = memory.trial, memory.slots_since
    if trial is None or since is None or query_input.slots <= trial.before or since < trial.at:
        return memory, ""
    warm_up = max(TRIAL_PERIOD, 2 * timedelta(milliseconds=min(query_input.metrics.batch_duration or 0.0, 1e9)))
    if query_input.at - since < warm_up + query_input.cost:
        return memory, ""
    done = replace(memory, trial=None)
    if not query_input.metrics.trigger_interval:
        return done, ""  # without a trigger interval, the query is always busy and its speed follows the input
    gain = effective(query_input.slots, query_input.partitions) / effective(trial.before, query_input.partitions) - 1
    grown = (query_input.metrics.busy_rate or 0.0) / trial.rate - 1 if trial.rate > 0 else math.inf
    if (query_input.metrics.busy or 0.0) < policy.high or grown >= policy.effectiveness * gain:
        return done, ""
    before = _within(trial.before, query_input.lower, query_input.upper)
    until = query_input.at + policy.ineffective_memory
    undone = replace(done, target=before, blocked=ScaleUpBlock(slots=before, until=until))
    reason = (
        f"{query_input.slots} slot(s) are not faster than {trial.before}: back to {before} until {until.isoformat()}"
    )
    return replace(undone, over_since=None, last_need=0), reason


# ---- down -----------------------------------------------------------------------------------------------------------


def _scale_down(
    policy: LoadSettings, memory: QueryMemory, query_input: QueryInput, busy: float
) -> tuple[QueryMemory, str]:
    """Fewer slots after `down_delay`, if the saved slot-seconds exceed the cost of the rescale."""
    target = memory.target or query_input.slots
    idle = memory.idle_since is not None and query_input.at - memory.idle_since >= policy.idle_delay
    needed = max((need.slots for need in memory.needs), default=target)
    wanted = query_input.lower if idle else max(needed, math.ceil(target * policy.down_factor), query_input.lower)
    load = f"busy for {busy:.0%} of the time with {target} slot(s)"
    if wanted >= target:
        return memory, load
    if not idle and query_input.at - memory.needs[0].at < policy.down_delay:
        return memory, f"{load}: {wanted} are sufficient, shorter than down_delay"
    if not query_input.may_fall:
        return memory, f"{load}: {wanted} are sufficient, but the remaining daily rescales are reserved for scale-ups"
    saved = (target - wanted) * policy.down_delay.total_seconds()
    if saved <= target * query_input.cost.total_seconds():
        return memory, f"{load}: {wanted} are sufficient, but a rescale costs more than it saves"
    fallen = replace(memory, target=wanted, trial=None)
    return fallen, f"{load}: {target} -> {wanted}"


def _with_need(needs: tuple[RecentNeed, ...], slots: int, now: datetime, delay: timedelta) -> tuple[RecentNeed, ...]:
    """Return the needs of the last `delay` as maxima of intervals; one older entry shows that the history covers `delay`."""
    if needs and now - needs[-1].at < delay / BUCKETS:
        last = needs[-1]
        return (*needs[:-1], replace(last, slots=max(last.slots, slots)))
    first = next((index for index in range(len(needs) - 1, 0, -1) if now - needs[index].at >= delay), 0)
    return (*needs[first:], RecentNeed(at=now, slots=slots))


# ---- slots ----------------------------------------------------------------------------------------------------------


def _slots(cost: BatchCost, load: QueryLoad, share: float, partitions: int) -> int:
    return aligned(cost.effective_slots(load.wanted, load.trigger, share), partitions) if cost.is_known else 1


def _within(slots: int, lower: int, upper: int) -> int:
    return min(max(slots, lower), upper)


def _trimmed(slots: int, query_input: QueryInput) -> int:
    """Return the slots without those that stay idle in the last wave of tasks."""
    if query_input.partitions <= 1:
        return slots
    return max(query_input.lower, math.ceil(query_input.partitions / math.ceil(query_input.partitions / max(slots, 1))))
