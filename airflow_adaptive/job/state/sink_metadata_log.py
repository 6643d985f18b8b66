"""The log in which a file sink keeps the files of each batch, `_spark_metadata` in its folder.

Readers of the folder go through it batch by batch and fail at one that is missing, and so does the sink itself when it
compacts its log (`CompactibleFileStreamLog` of `org.apache.spark.sql.execution.streaming.runtime`). All of it reaches
into the JVM: `FileStreamSink` and `FileStreamSinkLog` of `org.apache.spark.sql.execution.streaming.sinks`.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.jvm import java_class, scala_object

SINKS: Final = "org.apache.spark.sql.execution.streaming.sinks"


def add_empty_batch(spark: SparkSession, writer: DataStreamWriter, batch: int) -> None:
    """Say in the log that a batch has written no files, unless it has the batch, or the sink is none of files.

    Args:
        spark: the session.
        writer: of the query.
        batch: that the sink never saw.
    """
    folder = _folder(writer)
    log = None if folder is None else _log(spark, folder)
    if log is None:
        return
    newest, gateway = log.getLatestBatchId(), _gateway(spark)
    if newest.isDefined() and newest.get() < batch:
        log.add(batch, gateway.new_array(java_class(spark, f"{SINKS}.SinkFileStatus"), 0))


def _gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def _folder(writer: DataStreamWriter) -> str | None:
    options = writer._jwrite.getClass().getDeclaredField("extraOptions")
    options.setAccessible(True)
    path = options.get(writer._jwrite).get("path")
    return str(path.get()) if path.isDefined() else None


def _log(spark: SparkSession, folder: str) -> Any:
    """The log of a sink in that folder, None if there is none."""
    session = spark._jsparkSession
    path = java_class(spark, "org.apache.hadoop.fs.Path")(folder)
    files = path.getFileSystem(session.sessionState().newHadoopConf())
    sink = scala_object(spark, f"{SINKS}.FileStreamSink")
    metadata = sink.getMetadataLogPath(files, path, session.sessionState().conf())
    if not files.exists(metadata):
        return None
    version = scala_object(spark, f"{SINKS}.FileStreamSinkLog").VERSION()
    retention = java_class(spark, "scala.Option").empty()
    return java_class(spark, f"{SINKS}.FileStreamSinkLog")(version, session, metadata.toString(), retention)
