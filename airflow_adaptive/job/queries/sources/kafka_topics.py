"""The topics of a query's Kafka source, read with the options of the source and the Admin client of Spark's connector.

The module uses the JVM: the source relation of the query's analyzed plan (`org.apache.spark.sql.catalyst.streaming.StreamingRelationV2`),
from which Spark's interface for sources builds a second stream (`org.apache.spark.sql.kafka010.KafkaMicroBatchStream`). This stream has an
Admin client of its own, so that a request that hangs does not affect the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

from airflow_adaptive.job.jvm import from_scala, scala_object
from airflow_adaptive.job.queries.sources.input_limit import Division
from airflow_adaptive.job.queries.sources.offsets import Offsets, read_offsets

KAFKA: Final = "kafka"
"""Spark's name of the source."""

CONNECTOR: Final = "org.apache.spark.sql.kafka010"


class KafkaTopics:
    """The topics of one source. A request may take long, and raises the exceptions of the JVM."""

    def __init__(self, spark: SparkSession, relation: Any, checkpoint: str) -> None:
        """Build a stream of the relation; nothing is read yet.

        Args:
            spark: session of the driver.
            relation: relation of the source in the analyzed plan.
            checkpoint: URI of the query's checkpoint, to which the stream writes nothing.
        """
        self._spark = spark
        scan = relation.table().newScanBuilder(relation.extraOptions()).build()
        self._stream = scan.toMicroBatchStream(checkpoint)
        self.description = str(self._stream.toString())
        """Description of the source, as Spark's progress contains it."""

    def end_offsets(self) -> Offsets:
        """Return the end offset of each partition of all topics."""
        offsets = self._reader.fetchLatestOffsets(scala_object(self._spark, "scala.None"))
        return self._to_offsets(offsets)

    def division(self) -> Division:
        """Return the options with which the source divides its partitions."""
        ranges = self._reader.rangeCalculator()
        return Division(
            min_partitions=_number(ranges.minPartitions()), max_records=_number(ranges.maxRecordsPerPartition())
        )

    def close(self) -> None:
        """Close the Admin client."""
        self._stream.stop()

    @property
    def _reader(self) -> Any:
        return self._stream.kafkaOffsetReader()

    def _to_offsets(self, by_partition: Any) -> Offsets:
        text = scala_object(self._spark, f"{CONNECTOR}.JsonUtils").partitionOffsets(by_partition)
        return read_offsets(str(text)) or {}


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
