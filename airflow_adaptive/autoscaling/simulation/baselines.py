"""Baselines: the rules of other autoscalers, as documented, for comparison with the load policy.

The baselines receive the same metrics, use the same scheduler, and respect the same bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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


Decision = tuple[RuleMemory, Advice | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that decides by the metrics of the first query of a running job, and by the slots of the query."""

    decide: Callable[[RuleMemory, PolicyInput, QueryMetrics, int], Decision]

    def remember(self) -> RuleMemory:
        """Return an empty memory."""
        return RuleMemory()

    def advise(self, memory: RuleMemory, policy_input: PolicyInput) -> Decision:
        """See `RescalePolicy`."""
        query = next(iter(policy_input.queries.values()), None)
        if query is None or not policy_input.parallelism:
            return memory, None
        return self.decide(memory, policy_input, query, max(policy_input.parallelism.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRule:
    """A constant number of slots."""

    slots: int

    def remember(self) -> RuleMemory:
        """Return an empty memory."""
        return RuleMemory()

    def advise(self, memory: RuleMemory, policy_input: PolicyInput) -> Decision:
        """See `RescalePolicy`."""
        return memory, _advice(policy_input, self.slots, "static")


def ds2(memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int) -> Decision:
    """DS2 (OSDI'18): the input rate divided by the true rate of a slot, once per minute."""
    if not _is_due(memory, policy_input):
        return memory, None
    passed = (policy_input.at - memory.decided).total_seconds() if memory.decided else math.inf
    growth = max(0.0, (query.backlog or 0.0) - memory.backlog) / passed
    decided = RuleMemory(decided=policy_input.at, backlog=query.backlog or 0.0)
    if not query.busy_rate:
        return decided, _advice(policy_input, 1, "no rows")
    of_slot = query.busy_rate / effective(slots, max(policy_input.state_partitions.values(), default=1))
    wanted = ((query.input_rate or 0.0) + growth) / of_slot
    return decided, _advice(policy_input, math.ceil(min(wanted, MAX_SLOTS)), f"{wanted:.2f} slots process this rate")


def doubling(memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int) -> Decision:
    """Amazon Managed Service for Apache Flink: doubles at 75 % for 15 minutes, halves at 10 % for 6 hours."""
    now, busy = policy_input.at, query.busy or 0.0
    above = (memory.above or now) if busy >= 0.75 else None  # noqa: PLR2004
    below = (memory.below or now) if busy <= 0.10 else None  # noqa: PLR2004
    if above is not None and now - above >= timedelta(minutes=15):
        return RuleMemory(), _advice(policy_input, slots * 2, "above the upper threshold ")
    if below is not None and now - below >= timedelta(hours=6):
        return RuleMemory(), _advice(policy_input, max(1, slots // 2), "below the lower threshold ")
    return replace(memory, above=above, below=below), None


def dstream(memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int) -> Decision:
    """`ExecutorAllocationManager` of Spark DStreams: the mean of the durations of batches divided by their interval, once per minute.

    Above 0.9, the rule adds the rounded ratio of executors; below 0.3, it removes one executor.
    """
    if not query.trigger_interval:
        return memory, None
    total = memory.total + (query.batch_duration or 0.0) / query.trigger_interval
    summed = replace(memory, total=total, samples=memory.samples + 1, decided=memory.decided or policy_input.at)
    if not _is_due(summed, policy_input):
        return summed, None
    mean, decided = summed.total / summed.samples, RuleMemory(decided=policy_input.at)
    if mean > 0.9:  # noqa: PLR2004
        return decided, _advice(policy_input, slots + max(round(min(mean, MAX_SLOTS)), 1), f"ratio {mean:.2f}")
    if mean < 0.3:  # noqa: PLR2004
        return decided, _advice(policy_input, max(1, slots - 1), f"ratio {mean:.2f}")
    return decided, None


def dynamic_allocation(memory: RuleMemory, policy_input: PolicyInput, query: QueryMetrics, slots: int) -> Decision:
    """Dynamic allocation of Spark core: the requests double while tasks wait for a second, and idle executors end after a minute.

    A batch has as many tasks as the upper bound of the job. The rule does not know batches: a task in each batch keeps an executor.
    """
    seconds = max(query.batch_duration or 0.0, query.running or 0.0) / 1000
    tasks = max(limit.declared.upper for limit in policy_input.limits.values())
    if not query.busy_rate and query.running is None:
        idle = memory.below or policy_input.at
        if policy_input.at - idle >= timedelta(minutes=1):
            return RuleMemory(), _advice(policy_input, 1, "all executors are idle")
        return replace(memory, below=idle), None
    waits = seconds * (1 - 1 / math.ceil(tasks / slots))
    rounds = min(int(waits), tasks.bit_length())
    if rounds > 0 and slots < tasks:
        return RuleMemory(), _advice(policy_input, slots + 2**rounds - 1, f"tasks waited for {waits:.1f} s")
    return RuleMemory(), None


def _advice(policy_input: PolicyInput, slots: int, reason: str) -> Advice:
    bounds = {
        name: ParallelismRange(limit.declared.lower, min(max(slots, limit.declared.lower), limit.declared.upper))
        for name, limit in policy_input.limits.items()
    }
    return Advice(bounds=bounds, reason=reason)


def _is_due(memory: RuleMemory, policy_input: PolicyInput) -> bool:
    return memory.decided is None or policy_input.at - memory.decided >= timedelta(minutes=1)
