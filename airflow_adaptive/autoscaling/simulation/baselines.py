"""Rules of other autoscalers, as their documents state them: what the load policy is compared with.

They see the same figures, go through the same scheduler, and are kept within the same bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive.autoscaling.load.batch_cost import MAX_SLOTS, effective
from airflow_adaptive.autoscaling.policy import Advice, PolicyInput, QueryMetrics
from airflow_adaptive.scheduler.requirements import ParallelismRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMemory:
    """What a rule remembers.

    Attributes:
        decided: when it decided last.
        above: since when the load has been above its upper threshold, None if it is not.
        below: since when it has been below its lower one.
        total: of what it averages since it decided.
        looks: how many values that is of.
        backlog: at the last decision.
    """

    decided: datetime | None = None
    above: datetime | None = None
    below: datetime | None = None
    total: float = 0.0
    looks: int = 0
    backlog: float = 0.0


class Rule(ABC):
    """One that decides by the figures of a job's first query, and only while they are there and the job runs."""

    __slots__ = ()

    def remember(self) -> RuleMemory:
        """Nothing was seen yet."""
        return RuleMemory()

    def advise(self, memory: RuleMemory, seen: PolicyInput) -> tuple[RuleMemory, Advice | None]:
        """See `RescalePolicy`."""
        query = next(iter(seen.queries.values()), None)
        if query is None or not seen.parallelism:
            return memory, None
        return self.decide(memory, seen, query, max(seen.parallelism.values()))

    @abstractmethod
    def decide(
        self, memory: RuleMemory, seen: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """`advise`, with the query's figures and the slots that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRule:
    """The same number of slots all the time."""

    slots: int

    def remember(self) -> RuleMemory:
        """Nothing."""
        return RuleMemory()

    def advise(self, memory: RuleMemory, seen: PolicyInput) -> tuple[RuleMemory, Advice | None]:
        """See `RescalePolicy`."""
        return memory, _advice(seen, self.slots, "static")


@dataclass(frozen=True, slots=True, kw_only=True)
class DS2Rule(Rule):
    """DS2 (OSDI'18): the rate that comes in, by the true rate of a slot, once in each interval.

    Attributes:
        interval: between two decisions.
    """

    interval: timedelta = timedelta(minutes=1)

    def decide(
        self, memory: RuleMemory, seen: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        if not _is_due(memory, seen, self.interval):
            return memory, None
        passed = (seen.at - memory.decided).total_seconds() if memory.decided else math.inf
        growth = max(0.0, (query.backlog or 0.0) - memory.backlog) / passed
        decided = RuleMemory(decided=seen.at, backlog=query.backlog or 0.0)
        if not query.busy_rate:
            return decided, _advice(seen, 1, "no rows")
        of_slot = query.busy_rate / effective(slots, _partitions(seen))
        wanted = ((query.input_rate or 0.0) + growth) / of_slot
        return decided, _advice(seen, math.ceil(min(wanted, MAX_SLOTS)), f"{wanted:.2f} slots take this rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoublingRule(Rule):
    """Amazon Managed Service for Apache Flink: twice as many at 75 % for 15 minutes, half at 10 % for 6 hours."""

    high: float = 0.75
    high_for: timedelta = timedelta(minutes=15)
    low: float = 0.10
    low_for: timedelta = timedelta(hours=6)

    def decide(
        self, memory: RuleMemory, seen: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        busy = query.busy or 0.0
        above = (memory.above or seen.at) if busy >= self.high else None
        below = (memory.below or seen.at) if busy <= self.low else None
        if above is not None and seen.at - above >= self.high_for:
            return RuleMemory(), _advice(seen, slots * 2, "above the upper threshold for long enough")
        if below is not None and seen.at - below >= self.low_for:
            return RuleMemory(), _advice(seen, max(1, slots // 2), "below the lower threshold for long enough")
        return replace(memory, above=above, below=below), None


@dataclass(frozen=True, slots=True, kw_only=True)
class DStreamRule(Rule):
    """Spark's `ExecutorAllocationManager` of DStreams: duration of batches by their interval, once a minute.

    Attributes:
        up: ratio above which as many executors as the rounded ratio are added.
        down: ratio below which one is removed.
        interval: over which durations are averaged.
    """

    up: float = 0.9
    down: float = 0.3
    interval: timedelta = timedelta(seconds=60)

    def decide(
        self, memory: RuleMemory, seen: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        if not query.trigger_interval:
            return memory, None
        ratio = (query.batch_duration or 0.0) / query.trigger_interval
        summed = replace(memory, total=memory.total + ratio, looks=memory.looks + 1, decided=memory.decided or seen.at)
        if not _is_due(summed, seen, self.interval):
            return summed, None
        mean = summed.total / summed.looks
        decided = RuleMemory(decided=seen.at)
        if mean > self.up:
            return decided, _advice(seen, slots + max(round(min(mean, MAX_SLOTS)), 1), f"ratio {mean:.2f}")
        if mean < self.down:
            return decided, _advice(seen, max(1, slots - 1), f"ratio {mean:.2f}")
        return decided, None


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicAllocationRule(Rule):
    """Spark core's dynamic allocation: tasks that wait for a second double what is asked for, idle executors go after a minute.

    A batch has as many tasks as the job may have slots. It knows nothing of batches: a task in each of them keeps an executor.

    Attributes:
        backlog: `schedulerBacklogTimeout`; the sustained one is the same.
        idle: `executorIdleTimeout`.
    """

    backlog: timedelta = timedelta(seconds=1)
    idle: timedelta = timedelta(seconds=60)

    def decide(
        self, memory: RuleMemory, seen: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        seconds = max(query.batch_duration or 0.0, query.running or 0.0) / 1000
        tasks = max(limit.declared.upper for limit in seen.limits.values())
        if not query.busy_rate and query.running is None:
            idle = memory.below or seen.at
            if seen.at - idle >= self.idle:
                return RuleMemory(), _advice(seen, 1, "all executors are idle")
            return replace(memory, below=idle), None
        waits = seconds * (1 - 1 / math.ceil(tasks / slots))
        rounds = min(int(waits / self.backlog.total_seconds()), tasks.bit_length())
        if rounds > 0 and slots < tasks:
            return RuleMemory(), _advice(seen, slots + 2**rounds - 1, f"tasks waited for {waits:.1f} s")
        return RuleMemory(), None


def _advice(seen: PolicyInput, slots: int, reason: str) -> Advice:
    bounds = {
        name: ParallelismRange(limit.declared.lower, min(max(slots, limit.declared.lower), limit.declared.upper))
        for name, limit in seen.limits.items()
    }
    return Advice(bounds=bounds, reason=reason)


def _partitions(seen: PolicyInput) -> int:
    return max(seen.state_partitions.values(), default=1)


def _is_due(memory: RuleMemory, seen: PolicyInput, interval: timedelta) -> bool:
    return memory.decided is None or seen.at - memory.decided >= interval
