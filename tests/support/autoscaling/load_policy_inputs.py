"""A query with the metrics of a model, and a policy that observes the query, for the tests of the load policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, QueryMetrics, VertexLimits
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.load.batch_cost import effective
from airflow_adaptive.autoscaling.load.load_policy import LoadMemory, LoadPolicy

START = datetime(2030, 1, 7, tzinfo=UTC)
QUERY = "default"
VERTEX = "job"


def query_metrics(rate: float, slots: int, sequence: int = 1, **changes: Any) -> QueryMetrics:
    """Of a query that reads so many rows per second, 100 of them on a slot, with batches every 10 s."""
    partitions = changes.pop("partitions", 1)
    seconds = rate * 10 / (100 * effective(slots, partitions))
    given = QueryMetrics(
        vertices=(VERTEX,),
        input_rate=rate,
        busy_rate=rate * 10 / seconds if seconds else 0.0,
        backlog=0.0,
        busy=min(1.0, seconds / 10),
        batch_duration=seconds * 1000,
        trigger_interval=10_000.0,
        epoch=1,
        sequence=sequence,
    )
    return replace(given, **changes)


def seen(at: datetime, slots: int, queries: Mapping[str, QueryMetrics], **changes: Any) -> PolicyInput:
    """A job of one vertex with bounds 1 to 20."""
    limits = {VERTEX: VertexLimits(max_parallelism=20, declared=ParallelismRange(1, 20))}
    given = PolicyInput(
        at=at,
        requirements={VERTEX: ParallelismRange(1, slots)},
        limits=limits,
        parallelism={VERTEX: slots},
        queries=queries,
        rescale_costs={Tier.QUERY: timedelta(seconds=12)},
        tier=Tier.QUERY,
    )
    return replace(given, **changes)


def bounds(lower: int, upper: int) -> Mapping[str, VertexLimits]:
    """Limits of the only vertex."""
    return {VERTEX: VertexLimits(max_parallelism=20, declared=ParallelismRange(lower, upper))}


@dataclass
class Watched:
    """A job that consults the policy every 15 seconds and follows the advice at once, unless `follows` is false."""

    policy: LoadPolicy
    slots: int = 4
    follows: bool = True

    def __post_init__(self) -> None:
        self.memory: LoadMemory = self.policy.remember()
        self.now = START
        self.advice: Advice | None = None
        self.polls = 0
        self.path = [self.slots]

    @property
    def upper(self) -> int:
        """The bound that was advised last."""
        assert self.advice is not None
        return self.advice.bounds[VERTEX].upper

    @property
    def reason(self) -> str:
        """The reason that was given last."""
        assert self.advice is not None
        return self.advice.reason

    def poll(self, rate: float = 0.0, seconds: float = 15.0, **changes: Any) -> Watched:
        """Consult the policy once."""
        observed = changes.pop("seen", {})
        self.polls += 1
        self.now += timedelta(seconds=seconds)
        metrics = changes.pop("query_metrics", None) or query_metrics(
            rate, self.slots, **{"sequence": self.polls} | changes
        )
        self.memory, self.advice = self.policy.advise(
            self.memory, seen(self.now, self.slots, {QUERY: metrics}, **observed)
        )
        if self.follows and self.advice is not None:
            self.slots = self.upper
            if self.path[-1] != self.slots:
                self.path.append(self.slots)
        return self

    def watch(self, rate: float, minutes: float, **changes: Any) -> Watched:
        """Consult the policy every 15 seconds for some minutes."""
        for _ in range(int(minutes * 4)):
            self.poll(rate, **changes)
        return self
