"""The queries of a job in Real-Time Mode: checked before their start, with partitions for the slots of the plan.

The number of partitions of the shuffles follows the plan, so that each plan with other slots is a plan with new queries (rescale
tier 1, and tier 2 for state), and no executor leaves a running gang. State whose number of partitions cannot change makes the gang
larger.

Theory: a shuffle of Real-Time Mode streams rows between running tasks, so that Spark starts a batch only if all tasks have a slot
(`CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT`). The first stage has one task for each partition of the topics, and each shuffle adds a
stage with one task for each partition of the shuffle. The script determines the number of topics and the partitions of `repartition(n)`.
The driver chooses the partitions of all other shuffles, so that the gang grows and shrinks with the slots of the plan.

The module uses the JVM: private fields of `org.apache.spark.sql.classic.DataStreamWriter`, and the plans of its DataFrame.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import DriverPlan
from airflow_adaptive.job.control.interfaces import MissingSlotsError, StateRepartitioner
from airflow_adaptive.job.queries.sources.kafka_topics import KafkaTopics
from airflow_adaptive.job.queries.writers import AdaptiveJobError, Streams
from airflow_adaptive.job.spark_internals import describe_plan, from_scala, spark_class, writer_field, writer_plans
from airflow_adaptive.job.state.repartition import FORMAT, WITH_STATE, RepartitionError

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
    """The gangs of the queries that were built last. `checkpoint` returns the URI of a query's checkpoint."""

    def __init__(self, spark: SparkSession, checkpoint: Callable[[str], str], repartition: StateRepartitioner) -> None:
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
            name: replace(
                settings[name],
                is_stateful=name not in self._stateless,
                checkpoint_format=self._repartition.state_format(self._checkpoint(name)),
            )
            for name in chosen
        }
        require_real_time(facts, [name for name in writers if name not in chosen], self._session())
        gangs = {}
        for name, writer in chosen.items():
            fixed, shuffles = shuffles_of(plans[name])
            gangs[name] = Gang(inputs=self._inputs(writer, name), fixed=fixed, shuffles=shuffles)
        self._gangs = gangs  # at once: the loop of the driver reports the gangs meanwhile
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
                self._gangs[name] = replace(gang, kept=has)

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


EXCHANGE: Final = re.compile(r"(?<![A-Za-z])Exchange (\w+)(?:\((?:.*?, )?(\d+)\))?(.*)")
"""A shuffle in the text of a physical plan: its partitioning, the number of partitions, and the rest of the line."""

SINGLE: Final = "SinglePartition"

SET_BY_SCRIPT: Final = "REPARTITION_BY_NUM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The tasks that run at the same time.

    Attributes:
        inputs: tasks that read the sources.
        fixed: tasks of shuffles whose number of partitions is fixed.
        shuffles: number of shuffles whose partitions the driver chooses.
        kept: number of partitions that the checkpoint keeps for these shuffles, None if the number can change.
    """

    inputs: int
    fixed: int = 0
    shuffles: int = 0
    kept: int | None = None

    @property
    def minimum(self) -> int:
        """Slots that the query needs at least."""
        return self.slots(self.kept or 1)

    @property
    def can_grow(self) -> bool:
        """Whether the query can use more slots."""
        return self.shuffles > 0 and self.kept is None

    def slots(self, partitions: int) -> int:
        """Return the slots for this number of partitions of each shuffle."""
        return self.inputs + self.fixed + self.shuffles * partitions

    def partitions(self, slots: int, most: int) -> int:
        """Return the number of partitions of each shuffle on this number of slots, at most `most`."""
        if self.kept is not None:
            return self.kept
        spare = slots - self.inputs - self.fixed
        return max(1, min(most, spare // self.shuffles)) if self.shuffles else most


def shuffles_of(plan: str) -> tuple[int, int]:
    """Return the tasks of shuffles with a fixed number of partitions, and the number of other shuffles, in the text of a physical plan."""
    found = EXCHANGE.findall(plan)
    fixed = [
        1 if kind == SINGLE else int(count) for kind, count, rest in found if kind == SINGLE or SET_BY_SCRIPT in rest
    ]
    return sum(fixed), len(found) - len(fixed)


SINKS: Final = ("kafka", "console", "foreach")
"""Sinks of Spark's `RealTimeModeAllowlist`, by their names in a script."""

SOURCES: Final = ("kafka",)

SOURCE_OPTIONS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "minPartitions",
    "endingTimestamp",
    "maxTriggerDelay",
)
"""Options of Kafka sources with which Spark fails each batch (`KafkaMicroBatchStream.planInputPartitions`)."""

UPDATE: Final = "Update"

ROCKSDB: Final = "RocksDBStateStoreProvider"

OLDEST_FORMAT: Final = 2
"""Oldest format of state-store checkpoints in which a batch that runs again cannot use files of its first run."""


class RealTimeModeError(AdaptiveJobError):
    """A query cannot run in Real-Time Mode. A restart does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the session of the driver determines.

    Attributes:
        checks_sinks: whether Spark rejects sinks that it does not know (`spark.sql.streaming.realTimeMode.allowlistCheck`).
        min_batch_ms: shortest batch that Spark permits, in milliseconds.
        provider: class of the state store provider.
    """

    checks_sinks: bool
    min_batch_ms: int
    provider: str


def require_real_time(queries: Mapping[str, WriterSettings], others: list[str], session: Session) -> None:
    """Raise `RealTimeModeError` with all violations and their remedies if queries cannot run in Real-Time Mode, or beside the others."""
    violations = [f"query {name!r}: {text}" for name, facts in queries.items() for text in _violations(facts, session)]
    if others:
        violations.append(
            f"queries {others} are not in Real-Time Mode and would take slots of its gang: run them in a job of their own"
        )
    if violations:
        raise RealTimeModeError(f"Real-Time Mode cannot start: {'; '.join(violations)}")


def _violations(facts: WriterSettings, session: Session) -> Iterator[str]:
    yield from _setting_violations(facts, session)
    if facts.checkpoint_format is not None and facts.checkpoint_format < OLDEST_FORMAT:
        yield (
            f"its checkpoint has state-store format {facts.checkpoint_format}, in which Real-Time Mode could lose data: give the "
            "query another name, so that it starts with a new checkpoint"
        )
    if facts.is_stateful and not session.provider.endswith(ROCKSDB):
        yield (
            f"the state store {session.provider} has no checkpoint format {OLDEST_FORMAT}: remove "
            f"spark.sql.streaming.stateStore.providerClass, so that the state is in {ROCKSDB}"
        )


def _setting_violations(settings: WriterSettings, session: Session) -> Iterator[str]:
    if session.checks_sinks and settings.sink not in SINKS:
        yield f"the sink {settings.sink or 'without a format'} is not supported: use {', '.join(SINKS)}"
    if settings.output_mode != UPDATE:
        yield f'the output mode {settings.output_mode} is not supported: add .outputMode("update")'
    for source in settings.sources:
        if source not in SOURCES:
            yield f"the source {source} is not supported: use {', '.join(SOURCES)}"
    for option in SOURCE_OPTIONS:
        if option.lower() in settings.source_options:
            yield f"the option {option} of a source is not supported: remove the option"
    if settings.batch_ms is not None and settings.batch_ms < session.min_batch_ms:
        yield f"batches of {settings.batch_ms} ms are too short: set realTime to {session.min_batch_ms} ms or more"


REAL_TIME: Final = "RealTimeTrigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """What the script has set on a query, and what is known about its state before the start.

    Attributes:
        batch_ms: duration of a batch in Real-Time Mode in milliseconds, None in another mode.
        sink: format of the sink, or the kind of the function that processes the rows.
        output_mode: output mode, such as `Append`.
        sources: kinds of the sources, such as `kafka`.
        source_options: names of the options of all sources, in lower case.
        is_stateful: whether the query has state.
        checkpoint_format: format of the state in the checkpoint, None without state.
    """

    batch_ms: int | None
    sink: str
    output_mode: str
    sources: Sequence[str]
    source_options: Sequence[str] = ()
    is_stateful: bool = False
    checkpoint_format: int | None = None


def read_settings(spark: SparkSession, writer: DataStreamWriter) -> WriterSettings:
    """Return the settings of a query. Only the trigger is read of a query that is not in Real-Time Mode."""
    trigger = writer_field(writer, "trigger")
    if str(trigger.getClass().getSimpleName()) != REAL_TIME:
        return WriterSettings(batch_ms=None, sink="", output_mode="", sources=())
    relations = source_relations(spark, writer)
    return WriterSettings(
        batch_ms=int(trigger.batchDurationMs()),
        sink=str(writer_field(writer, "source")),
        output_mode=str(writer_field(writer, "outputMode")),
        sources=[_kind(relation) for relation in relations],
        source_options=[str(name) for it in relations if is_named(it) for name in it.extraOptions().keySet()],
    )


def source_relations(spark: SparkSession, writer: DataStreamWriter) -> list[Any]:
    """Return the relations of the streaming sources of the analyzed plan."""
    leaves = from_scala(spark, writer_plans(writer).analyzed().collectLeaves())
    return [leaf for leaf in leaves if str(leaf.getClass().getSimpleName()).startswith("Streaming")]


def physical_plan(spark: SparkSession, writer: DataStreamWriter) -> str:
    """Return the text of the physical plan, which Spark makes as if the query were in another mode. The shuffles are the same."""
    return describe_plan(spark, writer_plans(writer))


def _kind(relation: Any) -> str:
    return str(relation.sourceName()) if is_named(relation) else "unknown"


def is_named(relation: Any) -> bool:
    """Return whether a relation has the name of its source, and its options: that of the second version of the interface of sources."""
    return str(relation.getClass().getSimpleName()) == "StreamingRelationV2"
