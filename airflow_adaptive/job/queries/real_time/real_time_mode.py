"""The queries of a job in Real-Time Mode: checked before their start, with partitions for the slots of the plan.

The number of partitions of the shuffles follows the plan, so that each plan with other slots is a plan with new queries (rescale
tier 1, and tier 2 for state), and no executor leaves a running gang. State whose number of partitions cannot change makes the gang
larger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import DriverPlan
from airflow_adaptive.job.control.interfaces import MissingSlotsError, StateRepartitioner
from airflow_adaptive.job.queries.real_time.gang import Gang, shuffles_of
from airflow_adaptive.job.queries.real_time.preconditions import (
    OLDEST_FORMAT,
    Facts,
    RealTimeModeError,
    Session,
    require_real_time,
)
from airflow_adaptive.job.queries.real_time.writer_settings import physical_plan, read_settings, source_relations
from airflow_adaptive.job.queries.sources.kafka_topics import KafkaTopics
from airflow_adaptive.job.queries.writers import Streams
from airflow_adaptive.job.spark_internals import spark_class
from airflow_adaptive.job.state.repartition import FORMAT, RepartitionError
from airflow_adaptive.job.state.stateful_operators import WITH_STATE

log = logging.getLogger(__name__)

ALLOWLIST_CHECK: Final = "spark.sql.streaming.realTimeMode.allowlistCheck"

GANG_SETTINGS: Final = {
    # Spark refuses gangs with dynamic allocation. The driver sets the number of executors itself, and no executor is ever idle too long.
    "spark.dynamicAllocation.enabled": "false",
    # A preferred executor is often busy with another task of the gang until the batch ends. Spark would wait 3 s for the executor in each batch,
    # and the rows of the batch with it.
    "spark.locality.wait": "0s",
}
"""Settings of the context, which Spark reads before each batch."""

MIN_BATCH: Final = "spark.sql.streaming.realTimeMode.minBatchDuration"

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"


class RealTimeMode:
    """The gangs of the queries that were built last."""

    def __init__(self, spark: SparkSession, checkpoint: Callable[[str], str], repartition: StateRepartitioner) -> None:
        """Create an object without queries.

        Args:
            spark: session of the driver.
            checkpoint: returns the URI of a query's checkpoint.
            repartition: reads and repartitions the state in the checkpoints.
        """
        self._spark = spark
        self._checkpoint = checkpoint
        self._repartition = repartition
        self._gangs: dict[str, Gang] = {}
        self._stateless: set[str] = set()

    @property
    def gangs(self) -> Mapping[str, int]:
        """Slots that each query needs at least, by the name of the query; empty in another mode."""
        return {name: gang.minimum for name, gang in self._gangs.items()}

    def accept(self, writers: Streams, plan: DriverPlan) -> None:
        """Check queries that were built, and compute their gangs.

        Raises:
            RealTimeModeError: the queries cannot run in Real-Time Mode, or on the slots that the bounds of the job permit.
            MissingSlotsError: the plan has too few slots for the queries.
            Exception: any exception of Spark or of Kafka.
        """
        settings = {name: read_settings(self._spark, writer) for name, writer in writers.items()}
        chosen = {name: writers[name] for name, it in settings.items() if it.batch_ms is not None}
        self._gangs, self._stateless = {}, set()
        if not chosen:
            return
        self._spark.conf.set(FORMAT, str(OLDEST_FORMAT))
        for setting, value in GANG_SETTINGS.items():
            self._spark._jsc.sc().conf().set(setting, value)
        plans = {name: physical_plan(self._spark, writer) for name, writer in chosen.items()}
        self._stateless = {name for name, text in plans.items() if not WITH_STATE.search(text)}
        facts = {
            name: Facts(
                settings=settings[name],
                is_stateful=name not in self._stateless,
                checkpoint_format=self._repartition.state_format(self._checkpoint(name)),
            )
            for name in chosen
        }
        require_real_time(facts, [name for name in writers if name not in chosen], self._session())
        self._gangs = {name: self._gang(writer, plans[name], name) for name, writer in chosen.items()}
        self._keep_state_partitions(chosen, plan)
        self._require_slots(plan)

    def partitions(self, name: str, plan: DriverPlan) -> int:
        """Return the number of partitions of the shuffles of a query, which is the number of its state partitions."""
        gang = self._gangs.get(name)
        if gang is None:
            return plan.partitions_of(name)
        slots = self._slots_of(name, plan)
        return gang.partitions(slots, slots if name in self._stateless else plan.partitions_of(name))

    def _session(self) -> Session:
        conf, times = self._spark.conf, spark_class(self._spark, "JavaUtils")
        return Session(
            checks_sinks=conf.get(ALLOWLIST_CHECK, "true") != "false",
            min_batch_ms=int(times.timeStringAsMs(str(conf.get(MIN_BATCH, "5000")))),
            provider=str(conf.get(PROVIDER)),
        )

    def _gang(self, writer: DataStreamWriter, plan: str, name: str) -> Gang:
        fixed, shuffles = shuffles_of(plan)
        return Gang(inputs=self._inputs(writer, name), fixed=fixed, shuffles=shuffles)

    def _inputs(self, writer: DataStreamWriter, name: str) -> int:
        """Return the number of partitions of all topics: in Real-Time Mode, each partition has one task."""
        total = 0
        for number, relation in enumerate(source_relations(self._spark, writer)):
            topics = KafkaTopics(self._spark, number, relation, self._checkpoint(name), log.warning)
            try:
                total += topics.count_partitions()
            finally:
                topics.close()
        return total

    def _keep_state_partitions(self, writers: Streams, plan: DriverPlan) -> None:
        """Make the gangs larger whose state has a number of partitions that cannot change."""
        for name, gang in list(self._gangs.items()):
            has = None if name in self._stateless else self._repartition.state_partitions(self._checkpoint(name))
            wanted = self.partitions(name, plan)
            if has is not None and not self._can_repartition(name, wanted, writers[name], plan):
                self._gangs[name] = Gang(inputs=gang.inputs, fixed=gang.fixed, shuffles=gang.shuffles, kept=has)

    def _can_repartition(self, name: str, wanted: int, writer: DataStreamWriter, plan: DriverPlan) -> bool:
        if not plan.repartition:
            return False
        try:
            self._repartition.check(self._checkpoint(name), wanted, writer)
        except RepartitionError as error:
            log.warning("%s; query %s keeps the current number of state partitions", error, name)
            return False
        return True

    def _slots_of(self, name: str, plan: DriverPlan) -> int:
        """Return the slots of a query: those of its slot sharing group, or its gang and a fair share of the slots that the gangs leave."""
        if name in plan.pool_weights:
            return plan.pool_weights[name]
        sharing = self._sharing(plan)
        spare = _shared_slots(plan, self._gangs) - sum(sharing.values())
        growing = [other for other in sharing if self._gangs[other].can_grow]
        return sharing[name] + max(0, spare) // max(1, len(growing))

    def _sharing(self, plan: DriverPlan) -> dict[str, int]:
        """Return the gangs of the queries without a slot sharing group of their own."""
        return {name: slots for name, slots in self.gangs.items() if name not in plan.pool_weights}

    def _require_slots(self, plan: DriverPlan) -> None:
        needed = sum(self.gangs.values())
        texts = ", ".join(f"query {name!r} needs {slots}" for name, slots in self.gangs.items())
        problem = f"Real-Time Mode runs the tasks of all stages at the same time: {texts}"
        if plan.most_slots and needed > plan.most_slots:
            raise RealTimeModeError(
                f"{problem} slot(s), and the bounds of the job permit {plan.most_slots}: declare an upper bound of at least "
                f"{needed}, or read topics with fewer partitions"
            )
        has_own = all(self.gangs[name] <= slots for name, slots in plan.pool_weights.items() if name in self._gangs)
        if not has_own or sum(self._sharing(plan).values()) > _shared_slots(plan, self._gangs):
            raise MissingSlotsError(f"{problem} slot(s), and the plan has {_slots(plan)}")


def _slots(plan: DriverPlan) -> int:
    return sum(plan.pool_weights.values()) or plan.executors


def _shared_slots(plan: DriverPlan, gangs: Mapping[str, Gang]) -> int:
    """Return the slots of the plan that belong to no single query."""
    return _slots(plan) - sum(slots for name, slots in plan.pool_weights.items() if name in gangs)
