"""The topics of a query's Kafka source, read with the options of the source and the Admin client of Spark's connector.

The module uses the JVM: the source relation of the query's analyzed plan (`org.apache.spark.sql.catalyst.streaming.StreamingRelationV2`),
from which Spark's interface for sources builds a second stream (`org.apache.spark.sql.kafka010.KafkaMicroBatchStream`). This stream has an
Admin client of its own, so that a request that hangs does not affect the query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from py4j.java_gateway import get_java_class
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_adaptive.job.jvm import from_scala, java_class, scala_object
from airflow_adaptive.job.protocol.failures import redact
from airflow_adaptive.job.queries.sources.input_limit import Division
from airflow_adaptive.job.queries.sources.offsets import Offsets, read_offsets
from airflow_adaptive.job.queries.sources.topic_ids import NO_ID, TopicGuard, TopicIds

KAFKA: Final = "kafka"
"""Spark's name of the source."""

CONNECTOR: Final = "org.apache.spark.sql.kafka010"

UNKNOWN_TOPIC: Final = "UnknownTopicOrPartitionException"

RETENTION_POLLS: Final = 30
"""Number of polls after which the retention of the topics is read again."""

MAX_RETENTION_FAILURES: Final = 3
"""First reads of the retention that may fail for a moment. Then the lag is reported without the retention."""

FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"


class KafkaTopics:
    """The topics of one source. A request may take long, and raises the exceptions of the JVM."""

    def __init__(self, spark: SparkSession, relation: Any, checkpoint: str, warn: Callable[[str], None]) -> None:
        """Build a stream of the relation; nothing is read yet.

        Args:
            spark: session of the driver.
            relation: relation of the source in the analyzed plan.
            checkpoint: URI of the query's checkpoint, to which the stream writes nothing.
            warn: see `TopicGuard`.
        """
        self._spark = spark
        scan = relation.table().newScanBuilder(relation.extraOptions()).build()
        self._stream = scan.toMicroBatchStream(checkpoint)
        strict = bool(relation.extraOptions().getBoolean(FAIL_ON_DATA_LOSS, True))
        self._guard = TopicGuard(TopicIds(spark, checkpoint), fail_on_data_loss=strict, warn=warn)
        self._warn = warn
        self._retention_s: float | None = None
        self._retention_reads = 0
        self._retention_failures = 0
        self.description = str(self._stream.toString())
        """Description of the source, as Spark's progress contains it."""

    def end_offsets(self) -> Offsets:
        """Return the end offset of each partition of all topics.

        Raises:
            TopicRecreatedError: a topic was deleted and created again since the query read it.
        """
        offsets = self._to_offsets(self._reader.fetchLatestOffsets(scala_object(self._spark, "scala.None")))
        self._guard.require_same(self._ids({topic for topic, _ in offsets}))
        return offsets

    def count_partitions(self) -> int:
        """Return the number of partitions of all topics, before the query starts."""
        return len(self._to_offsets(self._reader.fetchLatestOffsets(scala_object(self._spark, "scala.None"))))

    def require_known_topics(self) -> None:
        """Compare the topics that the query has read. Topics that do not exist are left to the query. Raises as `end_offsets`."""
        known = self._guard.known()
        if known:
            self._guard.require_same(self._ids(known))

    def retention_s(self, topics: Collection[str]) -> float | None:
        """Return the age in seconds at which the brokers delete a row, or None without a limit, and if the user may not read it.

        A first read that fails for a moment is an error, because None would mean that no row expires; after `MAX_RETENTION_FAILURES`
        of them, the lag of the source is more important.
        """
        if self._retention_reads % RETENTION_POLLS == 0:
            try:
                self._retention_s = min(filter(None, map(_retention_s, self._configs(topics))), default=None)
            except Py4JJavaError as error:
                is_first = not self._retention_reads
                if is_first and self._retention_failures < MAX_RETENTION_FAILURES and self._is_transient(error):
                    self._retention_failures += 1
                    raise
                if is_first:
                    cause = redact(str(error.java_exception.getMessage()))
                    self._warn(
                        f"the retention of the topics cannot be read, so that no warning precedes a loss: {cause}"
                    )
        self._retention_reads += 1
        return self._retention_s

    def _is_transient(self, error: Py4JJavaError) -> bool:
        retriable = java_class(self._spark, "org.apache.kafka.common.errors.RetriableException")
        return bool(get_java_class(retriable).isInstance(error.java_exception.getCause()))

    def division(self) -> Division:
        """Return the options with which the source divides its partitions."""
        ranges = self._reader.rangeCalculator()
        return Division(
            min_partitions=_number(ranges.minPartitions()), max_records=_number(ranges.maxRecordsPerPartition())
        )

    def close(self) -> None:
        """Close the Admin client."""
        self._stream.stop()

    def _configs(self, topics: Collection[str]) -> list[Any]:
        resource = java_class(self._spark, "org.apache.kafka.common.config.ConfigResource")
        kind = java_class(self._spark, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        described = self._reader.admin().describeConfigs([resource(kind, topic) for topic in topics]).all().get()
        return list(described.values())

    def _ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the id of each topic that exists and has an id."""
        described = self._reader.admin().describeTopics(list(topics)).topicNameValues()
        found = {topic: _topic_id(described.get(topic)) for topic in topics}
        return {topic: id_ for topic, id_ in found.items() if id_ is not None}

    @property
    def _reader(self) -> Any:
        return self._stream.kafkaOffsetReader()

    def _to_offsets(self, by_partition: Any) -> Offsets:
        text = scala_object(self._spark, f"{CONNECTOR}.JsonUtils").partitionOffsets(by_partition)
        return read_offsets(str(text)) or {}


def _retention_s(config: Any) -> float | None:
    """Return the retention of a topic in seconds, or None if the brokers delete no row because of its age."""
    retention, policy = config.get("retention.ms"), config.get("cleanup.policy")
    if retention is None or policy is None:  # Some services that speak Kafka's protocol do not have these.
        return None
    retention_ms = int(retention.value())
    return retention_ms / 1000 if "delete" in str(policy.value()) and retention_ms >= 0 else None


def _topic_id(described: Any) -> str | None:
    """Return the id of a topic, or None if the topic does not exist or has no id."""
    try:
        found = str(described.get().topicId().toString())
    except Py4JJavaError as error:
        cause = error.java_exception.getCause()
        if cause is not None and str(cause.getClass().getSimpleName()) == UNKNOWN_TOPIC:
            return None
        raise
    return None if found == NO_ID else found


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
