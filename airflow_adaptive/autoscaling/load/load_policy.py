"""`LoadPolicy`: the slots that the load requires, after DS2 (OSDI'18) and Flink's autoscaler, adapted to micro-batches.

Theory: each query is busy for a share of the trigger interval. `batch_cost` computes the share for another number of slots. Above
`high`, the query gets in one step the slots that bring the share to `target` and process the backlog within `catch_up`. The
query releases the slots that it did not need during `down_delay`. In between, the policy changes nothing. If a scale-up did
not make the query faster, the policy reverts it and does not repeat it for a while. The policy advises an upper bound within the
declared bounds and never a higher lower bound, because advice must not stop a job (FLINK-34311).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, QueryMetrics
from airflow_adaptive._core.scheduler.config.parsing import parse_duration
from airflow_adaptive._core.scheduler.errors import did_you_mean
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.load.query_load import (
    LoadSettings,
    QueryInput,
    QueryMemory,
    keep_target,
    setting_violations,
    update_target,
)
from airflow_adaptive.autoscaling.policy import RescalePolicyError, dry_run_violations

SOURCE = "load"

DAY = timedelta(days=1)

RESERVE = 0.25
"""Share of the daily rescales that is reserved for scale-ups: without the others, a job keeps its slots."""

ASSUMED_COST = timedelta(seconds=12)
"""Assumed duration of a rescale before the first measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMemory:
    """Memory of the policy for one job.

    Attributes:
        queries: memory for each query, by name.
        rescales: times within the last day at which the policy advised another parallelism, oldest first.
    """

    queries: Mapping[str, QueryMemory] = field(default_factory=dict)
    rescales: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPolicy(LoadSettings):
    """Advises the slots that the load requires. `LoadSettings` documents the settings.

    Attributes:
        dry_run: whether the advice is reported only.
    """

    dry_run: bool = False

    def __post_init__(self) -> None:
        """Check the settings. Raises `RescalePolicyError`."""
        wrong = [*setting_violations(self), *dry_run_violations(self.dry_run)]
        if wrong:
            raise RescalePolicyError("load policy", wrong)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> LoadPolicy:
        """Create a policy from JSON values: durations as text ("10 min") or seconds.

        Raises:
            RescalePolicyError: lists every unknown setting and every invalid value.
        """
        known = {row.name: row.default for row in fields(cls)}
        wrong = [f"there is no setting {name!r}{did_you_mean(name, known)}" for name in settings if name not in known]
        given = dict(settings)
        for name, value in settings.items():
            if isinstance(known.get(name), timedelta):
                try:
                    given[name] = parse_duration(value)
                except ValueError as error:
                    wrong.append(f"{name}: {error}")
        if wrong:
            raise RescalePolicyError("load policy", wrong)
        return cls(**given)

    def remember(self) -> LoadMemory:
        """Return an empty memory."""
        return LoadMemory()

    def advise(self, memory: LoadMemory, policy_input: PolicyInput) -> tuple[LoadMemory, Advice | None]:
        """See `RescalePolicy`; None before the first plausible metrics of any query."""
        recent = tuple(at for at in memory.rescales if policy_input.at - DAY < at <= policy_input.at)
        queries: dict[str, QueryMemory] = {}
        reasons: list[str] = []
        for name, metrics in policy_input.queries.items():
            known = memory.queries.get(name, QueryMemory())
            queries[name], reason = self._query(name, known, metrics, policy_input, len(recent))
            reasons.append(f"query {name!r}: {reason}")
        changed = any(is_changed(memory.queries.get(name), query) for name, query in queries.items())
        rescales = (*recent, policy_input.at) if changed else recent
        kept = replace(memory, queries={**memory.queries, **queries}, rescales=rescales)
        if all(query.target is None for query in kept.queries.values()):
            return kept, None
        bounds = {name: limit.declared for name, limit in policy_input.limits.items()} | dict(
            _bounds(kept.queries, policy_input)
        )
        reason = "; ".join(reasons) or "no query reports metrics"
        return kept, Advice(bounds=bounds, reason=reason, source=SOURCE)

    def _query(
        self,
        name: str,
        memory: QueryMemory,
        metrics: QueryMetrics,
        policy_input: PolicyInput,
        rescales: int,
    ) -> tuple[QueryMemory, str]:
        limits = {name: policy_input.limits[name] for name in metrics.vertices if name in policy_input.limits}
        if not limits:
            return memory, "the query names no vertex of the job, so its metrics are ignored"
        memory = replace(memory, vertices=tuple(limits))
        partitions = policy_input.state_partitions.get(name, 1)
        lower = max(limit.declared.lower for limit in limits.values())
        upper = max(limit.declared.upper for limit in limits.values())
        if policy_input.parallelism is None:
            return keep_target(memory, lower, upper), "the job is not running"
        left = self.rescales_per_day - rescales
        query_input = QueryInput(
            at=policy_input.at,
            metrics=metrics,
            slots=max(1, *(policy_input.parallelism.get(vertex, 1) for vertex in limits)),
            lower=lower,
            upper=upper,
            partitions=partitions,
            cost=_cost(policy_input),
            pauses=policy_input.tier is not Tier.EXECUTORS,
            may_rise=left > 0,
            may_fall=left > RESERVE * self.rescales_per_day,
        )
        return update_target(self, memory, query_input)


def is_changed(before: QueryMemory | None, after: QueryMemory) -> bool:
    """Return whether the advised parallelism has changed; the first advised parallelism is the active one."""
    return before is not None and before.target is not None and before.target != after.target


def _bounds(queries: Mapping[str, QueryMemory], policy_input: PolicyInput) -> Iterator[tuple[str, ParallelismRange]]:
    """Yield the bounds of the vertices of all known queries; a query without metrics keeps its slots.

    If queries share their slots, the query with the largest need decides.
    """
    targets: dict[str, int] = {}
    for query in queries.values():
        for vertex in query.vertices:
            targets[vertex] = max(query.target or 0, targets.get(vertex, 0))
    for vertex, target in targets.items():
        if target and vertex in policy_input.limits:
            lower, upper = policy_input.limits[vertex].declared.lower, policy_input.limits[vertex].declared.upper
            yield vertex, ParallelismRange(lower, min(max(target, lower), upper))


def _cost(policy_input: PolicyInput) -> timedelta:
    """Return the duration of the rescale that a change requires: the measurement of its tier, or the longest known one."""
    measured = policy_input.rescale_costs
    if policy_input.tier is not None and policy_input.tier in measured:
        return measured[policy_input.tier]
    return max(measured.values(), default=ASSUMED_COST)
