"""The topics of a query's Kafka source, read with the options of the source and the Admin client of Spark's connector.

The module uses the JVM: the source relation of the query's analyzed plan (`org.apache.spark.sql.catalyst.streaming.StreamingRelationV2`),
from which Spark's interface for sources builds a second stream (`org.apache.spark.sql.kafka010.KafkaMicroBatchStream`). This stream has an
Admin client of its own, so that a request that hangs does not affect the query.

The connector reads each partition in one task, and divides partitions by two options (`org.apache.spark.sql.kafka010.KafkaOffsetRangeCalculator`):

* `maxRecordsPerPartition` divides a partition with more rows into ranges of at most this size.
* `minPartitions` divides the largest ranges until there are at least as many ranges.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import get_java_class
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.failures import redact
from airflow_adaptive._core.protocol.sources import NO_RETENTION, KafkaSource
from airflow_adaptive.job.queries.sources.offsets import Offsets, Partition, read_offsets
from airflow_adaptive.job.queries.sources.topic_ids import NO_ID, TopicGuard, TopicIds
from airflow_adaptive.job.spark_internals import from_scala, java_class, scala_object, spark_object

KAFKA: Final = "kafka"
"""Spark's name of the source."""

ADMIN: Final = "org.apache.kafka.clients.admin"

UNKNOWN_TOPIC: Final = "UnknownTopicOrPartitionException"

NO_ANSWER: Final = "TimeoutException"

REQUEST_TIMEOUT_MS: Final = 10_000
"""Limit for the requests that find out whether the brokers answer, and which topics exist. Spark's own requests take minutes."""

RETENTION_POLLS: Final = 30
"""Number of polls after which the retention of the topics is read again."""

FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"

SERVERS: Final = "kafka.bootstrap.servers"

ISOLATION: Final = "kafka.isolation.level"


class KafkaSourceError(Exception):
    """The brokers of a source do not answer, refuse a request, or do not know a topic. The message names the topics and the servers."""


class KafkaTopics:
    """The topics of one source. A request may take long, and raises `KafkaSourceError`, and the exceptions of the JVM."""

    def __init__(
        self, spark: SparkSession, number: int, relation: Any, checkpoint: str, warn: Callable[[str], None]
    ) -> None:
        """Build a stream of the relation in the analyzed plan. The stream writes nothing to the checkpoint; see `TopicGuard` for `warn`."""
        self._spark = spark
        self._options = relation.extraOptions()
        scan = relation.table().newScanBuilder(self._options).build()
        self._stream = scan.toMicroBatchStream(checkpoint)
        self._may_lose_data = not self._options.getBoolean(FAIL_ON_DATA_LOSS, True)
        ids = TopicIds(spark, checkpoint)
        self._guard = TopicGuard(ids, number, fail_on_data_loss=not self._may_lose_data, warn=warn)
        self._warn = warn
        self._retention_s: dict[str, float | None] = {}
        self._retention_reads = 0
        self._without_retention: set[str] = set()
        """Topics whose retention could not be read."""
        self.source: KafkaSource | None = None
        """Identity of the source, None before the brokers have answered."""
        self.description = str(self._stream.toString())
        """Description of the source, as Spark's progress contains it."""
        self.text = f"{_subscription(self._options)} on {_servers(self._options)}"
        """Topics and servers of the source, for a user."""

    def end_offsets(self) -> Offsets:
        """Return the end offset of each partition of all topics. Raises `TopicRecreatedError`; see `TopicGuard`."""
        cluster = self._identify()
        with self._answers():
            offsets = self._latest()
            self._guard.require_same(cluster, self._ids({topic for topic, _ in offsets}))
        return offsets

    def count_partitions(self) -> int:
        """Return the number of partitions of all topics, before the query starts."""
        self._identify()
        with self._answers():
            return len(self._latest())

    def require_known_topics(self, position: Offsets) -> None:
        """Check the position from which the query will start. Topics that do not exist are left to the query.

        If the source accepts a loss of data, warn about records that the brokers have deleted after the position. Raises `TopicRecreatedError`.
        """
        known = self._guard.known()
        if not known and not (position and self._may_lose_data):
            return
        cluster = self._identify()
        with self._answers():
            if known:
                self._guard.require_same(cluster, self._ids(known))
            if self._may_lose_data:
                self._report_lost(position)

    def retention_s(self, topics: Collection[str]) -> Mapping[str, float]:
        """Return the age in seconds at which the brokers delete a row of each topic, or `NO_RETENTION`. A topic is missing if it is unknown.

        An error that passes is repeated with the next poll; a missing permission only with the next complete read.
        """
        is_complete = self._retention_reads % RETENTION_POLLS == 0
        self._retention_reads += 1
        due = [topic for topic in topics if is_complete or topic not in self._retention_s]
        if due:
            with self._answers():
                self._read_retention(due)
        return {topic: found for topic in topics if (found := self._retention_s.get(topic)) is not None}

    def division(self) -> Division:
        """Return the options with which the source divides its partitions."""
        ranges = self._reader.rangeCalculator()
        return Division(
            min_partitions=_number(ranges.minPartitions()), max_records=_number(ranges.maxRecordsPerPartition())
        )

    def close(self) -> None:
        """Close the Admin client."""
        self._stream.stop()

    def explain(self) -> None:
        """Check whether the brokers answer, and know all topics. Raises `KafkaSourceError` otherwise."""
        self._identify()
        with self._answers():
            missing = self._missing()
        if missing:
            raise KafkaSourceError(self._missing_text(missing))

    def _identify(self) -> str | None:
        """Find the identity of the source, and return the cluster. The request fails soon if no broker answers."""
        with self._answers():
            cluster = self._reader.admin().describeCluster(self._limited("DescribeClusterOptions")).clusterId().get()
        if not cluster:
            self.source = None
            return None
        self.source = KafkaSource(
            cluster=str(cluster),
            pattern=_option(self._options, "subscribePattern"),
            assigned=_option(self._options, "assign") is not None,
            committed=(_option(self._options, ISOLATION) or "").lower() == "read_committed",
        )
        return self.source.cluster

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Name the topics and the servers in errors of the brokers."""
        try:
            yield
        except Py4JJavaError as error:
            cause = _root(error)
            name = str(cause.getClass().getSimpleName())
            if not str(cause.getClass().getName()).startswith("org.apache.kafka."):
                raise
            if name == NO_ANSWER:
                text = f"no broker of {_servers(self._options)} answers"
            elif name == UNKNOWN_TOPIC and (missing := self._missing()):
                text = self._missing_text(missing)
            else:
                text = f"{self.text} cannot be read"
            raise KafkaSourceError(redact(f"{text} ({name}: {cause.getMessage()})")) from None

    def _missing(self) -> list[str]:
        """Return the topics of the options `subscribe` and `assign` that do not exist."""
        topics = _fixed_topics(self._options)
        described = self._described(topics)
        return [topic for topic in topics if _description(described.get(topic)) is None]

    def _missing_text(self, topics: list[str]) -> str:
        return f"{_names(topics)} {'do' if len(topics) > 1 else 'does'} not exist on {_servers(self._options)}"

    def _latest(self) -> Offsets:
        return self._to_offsets(self._reader.fetchLatestOffsets(scala_object(self._spark, "scala.None")))

    def _report_lost(self, position: Offsets) -> None:
        first = self._to_offsets(self._reader.fetchEarliestOffsets())
        lost = {it: first[it] - row for it, row in position.items() if first.get(it, 0) > row}
        for (topic, number), rows in sorted(lost.items()):
            row = position[topic, number]
            self._warn(
                f"{rows} records of partition {topic}-{number} have been lost: the brokers deleted the records from offset {row} to "
                f"{row + rows - 1} before the query read them. The query continues, because failOnDataLoss is false"
            )

    def _read_retention(self, topics: Collection[str]) -> None:
        resource = java_class(self._spark, "org.apache.kafka.common.config.ConfigResource")
        kind = java_class(self._spark, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        resources = {topic: resource(kind, topic) for topic in topics}
        described = self._reader.admin().describeConfigs(list(resources.values())).values()
        failed: dict[str, str] = {}
        for topic, key in resources.items():
            try:
                self._retention_s[topic] = _retention_s(described.get(key).get())
            except Py4JJavaError as error:
                failed[topic] = str(_root(error).getMessage())
                self._retention_s.pop(topic, None)
                if not self._is_transient(error):
                    self._retention_s[topic] = None
        unreported = failed.keys() - self._without_retention
        self._without_retention = set(failed) | (self._without_retention - set(topics))
        if unreported:
            cause = redact(failed[min(unreported)])
            self._warn(
                f"the retention of {_names(sorted(unreported))} cannot be read, so that no warning precedes a loss: {cause}"
            )

    def _is_transient(self, error: Py4JJavaError) -> bool:
        retriable = java_class(self._spark, "org.apache.kafka.common.errors.RetriableException")
        return bool(get_java_class(retriable).isInstance(_root(error)))

    def _ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the id of each topic that exists and has an id."""
        described = self._described(topics)
        found = {topic: _description(described.get(topic)) for topic in topics}
        ids = {topic: str(it.topicId().toString()) for topic, it in found.items() if it is not None}
        return {topic: id_ for topic, id_ in ids.items() if id_ != NO_ID}

    def _described(self, topics: Collection[str]) -> Any:
        names = java_class(self._spark, "org.apache.kafka.common.TopicCollection").ofTopicNames(list(topics))
        return self._reader.admin().describeTopics(names, self._limited("DescribeTopicsOptions")).topicNameValues()

    def _limited(self, options: str) -> Any:
        return java_class(self._spark, f"{ADMIN}.{options}")().timeoutMs(REQUEST_TIMEOUT_MS)

    @property
    def _reader(self) -> Any:
        return self._stream.kafkaOffsetReader()

    def _to_offsets(self, by_partition: Any) -> Offsets:
        text = spark_object(self._spark, "JsonUtils").partitionOffsets(by_partition)
        return read_offsets(str(text)) or {}


def _retention_s(config: Any) -> float | None:
    """Return the retention of a topic in seconds, `NO_RETENTION` if the brokers delete no row because of its age, or None if unknown."""
    retention, policy = config.get("retention.ms"), config.get("cleanup.policy")
    if retention is None or policy is None:  # Some services that speak Kafka's protocol do not have these.
        return None
    retention_ms, policies = int(retention.value()), str(policy.value()).split(",")
    return retention_ms / 1000 if "delete" in policies and retention_ms >= 0 else NO_RETENTION


def _description(described: Any) -> Any:
    """Return the description of a topic, or None if the topic does not exist."""
    try:
        return described.get()
    except Py4JJavaError as error:
        if str(_root(error).getClass().getSimpleName()) == UNKNOWN_TOPIC:
            return None
        raise


def _root(error: Py4JJavaError) -> Any:
    """Return the exception of Kafka in an error of a request (`ExecutionException`)."""
    return error.java_exception.getCause() or error.java_exception


def _option(options: Any, name: str) -> str | None:
    value = options.get(name)
    return None if value is None else str(value)


def _servers(options: Any) -> str:
    """Return the servers of a source. What precedes an `@` may be a credential."""
    return ",".join(server.rpartition("@")[2].strip() for server in (_option(options, SERVERS) or "").split(","))


def _subscription(options: Any) -> str:
    pattern = _option(options, "subscribePattern")
    return _names(_fixed_topics(options)) if pattern is None else f"each topic that matches {pattern!r}"


def _fixed_topics(options: Any) -> list[str]:
    """Return the topics of the options `subscribe` (separated by commas) and `assign` (an object of JSON with the topics as its keys)."""
    subscribed, assigned = _option(options, "subscribe"), _option(options, "assign")
    if assigned is not None:
        return sorted(json.loads(assigned))
    return [topic.strip() for topic in (subscribed or "").split(",") if topic.strip()]


def _names(topics: list[str]) -> str:
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(map(repr, topics))}"


def _number(option: Any) -> int | None:
    return int(option.get()) if option.isDefined() else None


def kafka_relations(spark: SparkSession, plan: Any) -> Iterator[tuple[int, Any]]:
    """Yield the relation of each Kafka source of an analyzed plan, and its number among the sources of the query."""
    for number, relation in enumerate(_source_relations(spark, plan)):
        if str(relation.getClass().getSimpleName()) == "StreamingRelationV2" and str(relation.sourceName()) == KAFKA:
            yield number, relation


def _source_relations(spark: SparkSession, plan: Any) -> list[Any]:
    """Return the relations of all streaming sources, in the order in which Spark numbers the sources. Equal relations are one source."""
    relations: list[Any] = []
    for leaf in from_scala(spark, plan.collectLeaves()):
        is_source = str(leaf.getClass().getSimpleName()).startswith("Streaming")
        if is_source and not any(leaf.equals(relation) for relation in relations):
            relations.append(leaf)
    return relations


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The options with which a source divides its partitions.

    Attributes:
        min_partitions: value of `minPartitions`, or None.
        max_records: value of `maxRecordsPerPartition`, or None.
    """

    min_partitions: int | None = None
    max_records: int | None = None


def limit_of(partitions: Collection[Partition], rows: Mapping[Partition, int], division: Division) -> int:
    """Return the maximum number of tasks that read the source in one batch, if it has the rows of the newest batch."""
    most = division.max_records
    # A partition without rows may have rows in the next batch.
    tasks = [1 if most is None else max(1, -(-rows.get(partition, 0) // most)) for partition in partitions]
    return max(sum(tasks), division.min_partitions or 0)
