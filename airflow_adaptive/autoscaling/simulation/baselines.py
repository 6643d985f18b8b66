"""Baselines: the rules of other autoscalers, as documented, for comparison with the load policy.

The baselines receive the same metrics, use the same scheduler, and respect the same bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, QueryMetrics
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.load.batch_cost import MAX_SLOTS, effective


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMemory:
    """Memory of a rule.

    Attributes:
        decided: time of the last decision.
        above: time since which the load is above the upper threshold, None if it is not.
        below: time since which the load is below the lower threshold, None if it is not.
        total: sum of the averaged values since the last decision.
        samples: number of these values.
        backlog: backlog at the last decision.
    """

    decided: datetime | None = None
    above: datetime | None = None
    below: datetime | None = None
    total: float = 0.0
    samples: int = 0
    backlog: float = 0.0


class Rule(ABC):
    """A rule that decides by the metrics of the first query of a running job."""

    __slots__ = ()

    def remember(self) -> RuleMemory:
        """Return an empty memory."""
        return RuleMemory()

    def advise(self, memory: RuleMemory, policy_input: PolicyInput) -> tuple[RuleMemory, Advice | None]:
        """See `RescalePolicy`."""
        query = next(iter(policy_input.queries.values()), None)
        if query is None or not policy_input.parallelism:
            return memory, None
        return self.decide(memory, policy_input, query, max(policy_input.parallelism.values()))

    @abstractmethod
    def decide(
        self, memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """`advise`, with the metrics and the slots of the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRule:
    """A constant number of slots."""

    slots: int

    def remember(self) -> RuleMemory:
        """Return an empty memory."""
        return RuleMemory()

    def advise(self, memory: RuleMemory, policy_input: PolicyInput) -> tuple[RuleMemory, Advice | None]:
        """See `RescalePolicy`."""
        return memory, _advice(policy_input, self.slots, "static")


@dataclass(frozen=True, slots=True, kw_only=True)
class DS2Rule(Rule):
    """DS2 (OSDI'18): the input rate divided by the true rate of a slot, once per interval.

    Attributes:
        interval: time between two decisions.
    """

    interval: timedelta = timedelta(minutes=1)

    def decide(
        self, memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        if not _is_due(memory, policy_input, self.interval):
            return memory, None
        passed = (policy_input.at - memory.decided).total_seconds() if memory.decided else math.inf
        growth = max(0.0, (query.backlog or 0.0) - memory.backlog) / passed
        decided = RuleMemory(decided=policy_input.at, backlog=query.backlog or 0.0)
        if not query.busy_rate:
            return decided, _advice(policy_input, 1, "no rows")
        of_slot = query.busy_rate / effective(slots, max(policy_input.state_partitions.values(), default=1))
        wanted = ((query.input_rate or 0.0) + growth) / of_slot
        return decided, _advice(
            policy_input, math.ceil(min(wanted, MAX_SLOTS)), f"{wanted:.2f} slots process this rate"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoublingRule(Rule):
    """Amazon Managed Service for Apache Flink: doubles at 75 % for 15 minutes, halves at 10 % for 6 hours."""

    high: float = 0.75
    high_for: timedelta = timedelta(minutes=15)
    low: float = 0.10
    low_for: timedelta = timedelta(hours=6)

    def decide(
        self, memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        busy = query.busy or 0.0
        above = (memory.above or policy_input.at) if busy >= self.high else None
        below = (memory.below or policy_input.at) if busy <= self.low else None
        if above is not None and policy_input.at - above >= self.high_for:
            return RuleMemory(), _advice(policy_input, slots * 2, "above the upper threshold ")
        if below is not None and policy_input.at - below >= self.low_for:
            return RuleMemory(), _advice(policy_input, max(1, slots // 2), "below the lower threshold ")
        return replace(memory, above=above, below=below), None


@dataclass(frozen=True, slots=True, kw_only=True)
class DStreamRule(Rule):
    """`ExecutorAllocationManager` of Spark DStreams: duration of batches divided by their interval, once per minute.

    Attributes:
        up: ratio above which the rule adds the rounded ratio of executors.
        down: ratio below which the rule removes one executor.
        interval: time over which the rule averages durations.
    """

    up: float = 0.9
    down: float = 0.3
    interval: timedelta = timedelta(seconds=60)

    def decide(
        self, memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        if not query.trigger_interval:
            return memory, None
        ratio = (query.batch_duration or 0.0) / query.trigger_interval
        summed = replace(
            memory, total=memory.total + ratio, samples=memory.samples + 1, decided=memory.decided or policy_input.at
        )
        if not _is_due(summed, policy_input, self.interval):
            return summed, None
        mean = summed.total / summed.samples
        decided = RuleMemory(decided=policy_input.at)
        if mean > self.up:
            return decided, _advice(policy_input, slots + max(round(min(mean, MAX_SLOTS)), 1), f"ratio {mean:.2f}")
        if mean < self.down:
            return decided, _advice(policy_input, max(1, slots - 1), f"ratio {mean:.2f}")
        return decided, None


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicAllocationRule(Rule):
    """Dynamic allocation of Spark core: the requests double while tasks wait for a second, and idle executors end after a minute.

    A batch has as many tasks as the upper bound of the job. The rule does not know batches: a task in each batch keeps an executor.

    Attributes:
        backlog: `schedulerBacklogTimeout`, also the sustained timeout.
        idle: `executorIdleTimeout`.
    """

    backlog: timedelta = timedelta(seconds=1)
    idle: timedelta = timedelta(seconds=60)

    def decide(
        self, memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int
    ) -> tuple[RuleMemory, Advice | None]:
        """See `Rule`."""
        seconds = max(query.batch_duration or 0.0, query.running or 0.0) / 1000
        tasks = max(limit.declared.upper for limit in policy_input.limits.values())
        if not query.busy_rate and query.running is None:
            idle = memory.below or policy_input.at
            if policy_input.at - idle >= self.idle:
                return RuleMemory(), _advice(policy_input, 1, "all executors are idle")
            return replace(memory, below=idle), None
        waits = seconds * (1 - 1 / math.ceil(tasks / slots))
        rounds = min(int(waits / self.backlog.total_seconds()), tasks.bit_length())
        if rounds > 0 and slots < tasks:
            return RuleMemory(), _advice(policy_input, slots + 2**rounds - 1, f"tasks waited for {waits:.1f} s")
        return RuleMemory(), None


def _advice(policy_input: PolicyInput, slots: int, reason: str) -> Advice:
    bounds = {
        name: ParallelismRange(limit.declared.lower, min(max(slots, limit.declared.lower), limit.declared.upper))
        for name, limit in policy_input.limits.items()
    }
    return Advice(bounds=bounds, reason=reason)


def _is_due(memory: RuleMemory, policy_input: PolicyInput, interval: timedelta) -> bool:
    return memory.decided is None or policy_input.at - memory.decided >= interval
