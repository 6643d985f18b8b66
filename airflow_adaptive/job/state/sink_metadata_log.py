"""The metadata log of a file sink, `_spark_metadata` in its folder, which lists the files of each batch.

Readers of the folder read the log batch by batch and fail at a missing batch, and so does the sink when it compacts the
log (`CompactibleFileStreamLog`). The module uses `FileStreamSink` and `FileStreamSinkLog` of the JVM.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.spark_internals import java_class, spark_class, spark_object, writer_option


def add_empty_batch(spark: SparkSession, writer: DataStreamWriter, batch: int) -> None:
    """Add a batch without files to the log, unless the log has the batch or the sink is not a file sink.

    Args:
        spark: session of the driver.
        writer: writer of the query.
        batch: number of a batch that the sink has not processed.
    """
    folder = writer_option(writer, "path")
    log = None if folder is None else _log(spark, folder)
    if log is None:
        return
    newest = log.getLatestBatchId()
    if newest.isDefined() and newest.get() < batch:
        gateway: Any = spark.sparkContext._gateway
        log.add(batch, gateway.new_array(spark_class(spark, "SinkFileStatus"), 0))


def sink_metadata_path(spark: SparkSession, folder: str) -> str | None:
    """Return where the log of a sink in that folder is, or None without a log."""
    session = spark._jsparkSession
    path = java_class(spark, "org.apache.hadoop.fs.Path")(folder)
    files = path.getFileSystem(session.sessionState().newHadoopConf())
    sink = spark_object(spark, "FileStreamSink")
    metadata = sink.getMetadataLogPath(files, path, session.sessionState().conf())
    return str(metadata.toString()) if files.exists(metadata) else None


def _log(spark: SparkSession, folder: str) -> Any:
    """Return the log of a sink in that folder, or None."""
    metadata = sink_metadata_path(spark, folder)
    if metadata is None:
        return None
    version = spark_object(spark, "FileStreamSinkLog").VERSION()
    retention = java_class(spark, "scala.Option").empty()
    return spark_class(spark, "FileStreamSinkLog")(version, spark._jsparkSession, metadata, retention)
