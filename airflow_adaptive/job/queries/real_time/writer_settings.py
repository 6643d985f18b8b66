"""The settings of a query that was built and not started.

The module uses the JVM: private fields of `org.apache.spark.sql.classic.DataStreamWriter`, and the plans of its DataFrame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.spark_internals import describe_plan, from_scala, writer_field, writer_plans

REAL_TIME: Final = "RealTimeTrigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """What the script has set on a query.

    Attributes:
        batch_ms: duration of a batch in Real-Time Mode in milliseconds, None in another mode.
        sink: format of the sink, or the kind of the function that processes the rows.
        output_mode: output mode, such as `Append`.
        sources: kinds of the sources, such as `kafka`.
        source_options: names of the options of all sources, in lower case.
    """

    batch_ms: int | None
    sink: str
    output_mode: str
    sources: Sequence[str]
    source_options: Sequence[str] = ()


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
        source_options=[str(name) for it in relations if _is_named(it) for name in it.extraOptions().keySet()],
    )


def source_relations(spark: SparkSession, writer: DataStreamWriter) -> list[Any]:
    """Return the relations of the streaming sources of the analyzed plan."""
    leaves = from_scala(spark, writer_plans(writer).analyzed().collectLeaves())
    return [leaf for leaf in leaves if str(leaf.getClass().getSimpleName()).startswith("Streaming")]


def physical_plan(spark: SparkSession, writer: DataStreamWriter) -> str:
    """Return the text of the physical plan, which Spark makes as if the query were in another mode. The shuffles are the same."""
    return describe_plan(spark, writer_plans(writer))


def _kind(relation: Any) -> str:
    return str(relation.sourceName()) if _is_named(relation) else "unknown"


def _is_named(relation: Any) -> bool:
    return str(relation.getClass().getSimpleName()) == "StreamingRelationV2"
