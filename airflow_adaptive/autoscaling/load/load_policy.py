"""`LoadPolicy`: as many slots as the load takes, after DS2 (OSDI'18) and Flink's autoscaler, fitted to micro-batches.

Theory: every query has a share of the trigger interval in which it is busy. `load_model` tells what share another number of slots
would give. Above `high` the query gets, in one step, the slots that bring it to `target`, its backlog worked off within
`catch_up`; below, it gives back what it has not needed for all of `down_delay`. Between the two nothing moves. A rise that
did not make the query faster is taken back and not tried again for a while. The advice is an upper bound within the declared
bounds, never a higher lower bound: a job must not stop for a wish (FLINK-34311).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive.autoscaling.load.query_load import Allowed, QueryMemory, Seen, follow, hold
from airflow_adaptive.autoscaling.load.settings import LoadSettings, setting_violations
from airflow_adaptive.autoscaling.policy import (
    Advice,
    PolicyInput,
    QueryMetrics,
    RescalePolicyError,
    VertexLimits,
    dry_run_violations,
)
from airflow_adaptive.scheduler.config.durations import parse_duration
from airflow_adaptive.scheduler.errors import did_you_mean
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import ParallelismRange

SOURCE = "load"

DAY = timedelta(days=1)

RESERVE = 0.25
"""Share of the day's budget that is kept for rises: a job that has used up the rest keeps what it has."""

ASSUMED_COST = timedelta(seconds=12)
"""Of a rescale, before one was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMemory:
    """What the policy remembers of a job.

    Attributes:
        queries: per query.
        rescales: when it asked for another parallelism within the last day, oldest first.
    """

    queries: Mapping[str, QueryMemory] = field(default_factory=dict)
    rescales: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPolicy(LoadSettings):
    """Advises as many slots as the load takes; see `LoadSettings` for what can be set.

    Attributes:
        dry_run: advice is told, and not acted on.
    """

    dry_run: bool = False

    def __post_init__(self) -> None:
        """Check the settings. Raises `RescalePolicyError`."""
        wrong = [*setting_violations(self), *dry_run_violations(self.dry_run)]
        if wrong:
            raise RescalePolicyError("load policy", wrong)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> LoadPolicy:
        """From plain values, as in JSON: durations as text ("10 min") or seconds.

        Raises:
            RescalePolicyError: listing every unknown setting and every impossible value.
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
        """Nothing was seen yet."""
        return LoadMemory()

    def advise(self, memory: LoadMemory, seen: PolicyInput) -> tuple[LoadMemory, Advice | None]:
        """See `RescalePolicy`; None before any query has told figures that can be believed."""
        overridden = override(seen)
        if overridden is not None:
            return memory, replace(overridden, dry_run=self.dry_run)
        allowed = self._allowed(memory, seen.at)
        queries: dict[str, QueryMemory] = {}
        reasons: list[str] = []
        for name, figures in seen.queries.items():
            known = memory.queries.get(name, QueryMemory())
            queries[name], reason = self._query(name, known, figures, seen, allowed)
            reasons.append(f"query {name!r}: {reason}")
        changed = any(is_changed(memory.queries.get(name), query) for name, query in queries.items())
        rescales = (*allowed.rescales, seen.at) if changed else allowed.rescales
        kept = replace(memory, queries={**memory.queries, **queries}, rescales=rescales)
        if all(query.target is None for query in kept.queries.values()):
            return kept, None
        bounds = {name: limit.declared for name, limit in seen.limits.items()} | dict(_bounds(kept.queries, seen))
        reason = "; ".join(reasons) or "no query tells figures"
        return kept, Advice(bounds=bounds, reason=reason, source=SOURCE, dry_run=self.dry_run)

    def _query(
        self, name: str, memory: QueryMemory, figures: QueryMetrics, seen: PolicyInput, allowed: Allowed
    ) -> tuple[QueryMemory, str]:
        limits = _limits(figures.vertices, seen)
        if not limits:
            return memory, "it names no vertex of the job: its figures are ignored"
        memory = replace(memory, vertices=tuple(limits))
        partitions = seen.state_partitions.get(name, 1)
        lower = max(limit.declared.lower for limit in limits.values())
        upper = max(limit.declared.upper for limit in limits.values())
        if seen.parallelism is None:
            return hold(memory, lower, upper), "the job does not run"
        look = Seen(
            at=seen.at,
            figures=figures,
            slots=max(1, *(seen.parallelism.get(vertex, 1) for vertex in limits)),
            lower=lower,
            upper=upper,
            partitions=partitions,
            cost=_cost(seen),
            pauses=seen.tier is not Tier.EXECUTORS,
        )
        return follow(self, memory, look, allowed)

    def _allowed(self, memory: LoadMemory, now: datetime) -> Allowed:
        recent = tuple(at for at in memory.rescales if now - DAY < at <= now)
        left = self.rescales_per_day - len(recent)
        return Allowed(rescales=recent, up=left > 0, down=left > RESERVE * self.rescales_per_day)


def override(seen: PolicyInput) -> Advice | None:
    """What is advised while a person's bounds hold: these. None if there are none, or they have expired."""
    person = seen.override
    if person is None or (person.until is not None and person.until <= seen.at):
        return None
    until = "until they are lifted" if person.until is None else f"until {person.until.isoformat()}"
    return Advice(
        bounds=seen.requirements,
        reason=f"the bounds of {person.by} hold {until}",
        next_at=person.until,
        source=person.by,
    )


def is_changed(before: QueryMemory | None, after: QueryMemory) -> bool:
    """Whether another parallelism is asked for than before; the first that is asked for is what runs."""
    return before is not None and before.target is not None and before.target != after.target


def _limits(vertices: tuple[str, ...], seen: PolicyInput) -> Mapping[str, VertexLimits]:
    return {name: seen.limits[name] for name in vertices if name in seen.limits}


def _bounds(queries: Mapping[str, QueryMemory], seen: PolicyInput) -> Iterator[tuple[str, ParallelismRange]]:
    """Of the vertices of all queries that were ever seen: one that tells nothing now keeps what it has.

    Where queries share their slots, the one that needs the most decides.
    """
    targets: dict[str, int] = {}
    for query in queries.values():
        for vertex in query.vertices:
            targets[vertex] = max(query.target or 0, targets.get(vertex, 0))
    for vertex, target in targets.items():
        if target and vertex in seen.limits:
            lower, upper = seen.limits[vertex].declared.lower, seen.limits[vertex].declared.upper
            yield vertex, ParallelismRange(lower, min(max(target, lower), upper))


def _cost(seen: PolicyInput) -> timedelta:
    """Of the rescale that a change would take: as measured for its tier, else the dearest one known."""
    measured = seen.rescale_costs
    if seen.tier is not None and seen.tier in measured:
        return measured[seen.tier]
    return max(measured.values(), default=ASSUMED_COST)
