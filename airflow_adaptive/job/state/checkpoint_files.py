"""The files of a checkpoint as the driver reads them: through the Hadoop file systems that Spark uses.

The module uses the JVM: the file systems of Hadoop (`org.apache.hadoop.fs`), `CompressionCodec` of `org.apache.spark.io`, and the checksums that
Spark writes beside files of the state (`ChecksumCheckpointFileManager` of `org.apache.spark.sql.execution.streaming.checkpointing`).

Readers of a file sink's folder read its metadata log (`_spark_metadata`) batch by batch and fail at a missing batch, and so does the sink when it
compacts the log (`CompactibleFileStreamLog`). The module uses `FileStreamSink` and `FileStreamSinkLog` of the JVM.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive.job.hadoop_directory import HadoopFiles
from airflow_adaptive.job.spark_internals import java_class, spark_class, spark_object, writer_option
from airflow_adaptive.job.state.damage import (
    DamagedCheckpointError,
    Files,
    UnreadableContentError,
    find_damage,
    require_sound_logs,
)

log = logging.getLogger(__name__)

CODEC: Final = "spark.sql.streaming.stateStore.compression.codec"

REPAIR: Final = "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled"

ASYNC: Final = "asyncProgressTrackingEnabled"

CHECKSUM_SUFFIX: Final = ".crc"

MAX_CHECKSUM: Final = 0xFFFFFFFF
"""Spark writes the checksum as a signed number of 32 bits."""

FILE_SINK: Final = re.compile(r"FileSink\[(.+)\]", re.DOTALL)
"""The text of a file sink of a query, with its folder."""

CHECKSUM_ERROR: Final = "org.apache.hadoop.fs.ChecksumException"


class CheckpointFiles(Files):
    """The files of one checkpoint, or of the metadata log of a file sink."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        files = HadoopFiles(spark)
        self._spark = spark
        self._path_class = files.path
        self._root = files.path(uri)
        self._files = files.system(self._root)
        self._listed: dict[str, tuple[dict[str, int], list[str]]] = {}

    @property
    def uri(self) -> str:
        return str(self._root)

    def sizes(self, folder: str) -> Mapping[str, int]:
        return self._list(folder)[0]

    def folders(self, folder: str) -> list[str]:
        return self._list(folder)[1]

    def read(self, file: str) -> bytes:
        stream = self._files.open(self._path(file))
        try:
            return bytes(stream.readAllBytes())
        except Py4JJavaError as error:
            raise _damage(error) or error from None
        finally:
            stream.close()

    def verify(self, file: str) -> None:
        computed = java_class(self._spark, "java.util.zip.CRC32C")()
        checked = java_class(self._spark, "java.util.zip.CheckedInputStream")
        self._drain(checked(self._files.open(self._path(file)), computed))
        folder, _, name = file.rpartition("/")
        checksum = f"{name}{CHECKSUM_SUFFIX}"
        if checksum not in self.sizes(folder):
            return
        try:
            expected = json.loads(self.read(f"{folder}/{checksum}"))
            found = computed.getValue(), self.sizes(folder)[name]
            is_equal = (expected["value"] & MAX_CHECKSUM, expected["mainFileSize"]) == found
        except (ValueError, LookupError, TypeError):
            text = f"{checksum} is empty or cut; without it, Spark does not compare the checksum"
            raise UnreadableContentError(text) from None
        if not is_equal:
            raise UnreadableContentError(f"it does not match its checksum in {checksum}")

    def decompress(self, file: str) -> None:
        """See `damage.Files`. The storage reads the file, which `verify` does first, so an error of the decompression is one of the content."""
        codec = spark_object(self._spark, "CompressionCodec").createCodec(
            self._spark._jsparkSession.sparkContext().conf(), self._spark.conf.get(CODEC, "lz4")
        )
        try:
            self._drain(codec.compressedInputStream(self._files.open(self._path(file))))
        except Py4JJavaError as error:
            raise UnreadableContentError(_text(error)) from None

    def _drain(self, stream: Any) -> None:
        try:
            stream.transferTo(java_class(self._spark, "java.io.OutputStream").nullOutputStream())
        except Py4JJavaError as error:
            raise _damage(error) or error from None
        finally:
            stream.close()

    def _list(self, folder: str) -> tuple[dict[str, int], list[str]]:
        if folder not in self._listed:
            path = self._path(folder)
            entries = self._files.listStatus(path) if self._files.exists(path) else []
            sizes = {entry.getPath().getName(): entry.getLen() for entry in entries if entry.isFile()}
            self._listed[folder] = sizes, [entry.getPath().getName() for entry in entries if entry.isDirectory()]
        return self._listed[folder]

    def _path(self, file: str) -> Any:
        return self._path_class(self._root, file) if file else self._root


def require_sound_checkpoint(spark: SparkSession, writer: DataStreamWriter, checkpoint: str) -> None:
    """Require that a query can start from its checkpoint, see `damage.require_sound_logs`."""
    is_async = (writer_option(writer, ASYNC) or "").lower() == "true"
    folder = writer_option(writer, "path")
    sink = None if folder is None else _sink_files(spark, folder)
    require_sound_logs(CheckpointFiles(spark, checkpoint), is_contiguous=not is_async, sink=sink)


def explain_by_damage(
    spark: SparkSession, execution: Any, failure: FailureReport, partitions: int | None
) -> FailureReport:
    """Return the failure of a query (`StreamExecution`), with the damaged file of its checkpoint as the cause if there is one."""
    checkpoint = str(execution.resolvedCheckpointRoot())
    try:
        folder = FILE_SINK.fullmatch(str(execution.sink().toString()))
        sink = None if folder is None else _sink_files(spark, folder[1])
        repairs = str(spark.conf.get(REPAIR, "true")).lower() == "true"
        text = " ".join((failure.error_class, *failure.causes, failure.message))
        files = CheckpointFiles(spark, checkpoint)
        problem = find_damage(files, text, repairs=repairs, partitions=partitions, sink=sink)
    except (Py4JError, PySparkException, UnreadableContentError) as error:
        log.warning("the checkpoint %s cannot be inspected now: %s", checkpoint, error)
        return failure
    if problem is None:
        return failure
    name = DamagedCheckpointError.__name__
    causes = (name, failure.error_class, *failure.causes)
    return FailureReport(
        error_class=name, message=f"{problem}. Spark reports: {failure.error_class}", causes=causes, query=failure.query
    )


def _sink_files(spark: SparkSession, folder: str) -> CheckpointFiles | None:
    """Return the metadata log of a file sink in a folder, None without a log."""
    log = sink_metadata_path(spark, folder)
    return None if log is None else CheckpointFiles(spark, log)


def is_damage(failure: FailureReport) -> bool:
    """Return whether a damaged file of a checkpoint has caused a failure."""
    return failure.error_class == DamagedCheckpointError.__name__


def _damage(error: Py4JJavaError) -> UnreadableContentError | None:
    """Return the error for a file that does not match its checksum, None for an error of the storage."""
    is_damage = error.java_exception.getClass().getName() == CHECKSUM_ERROR
    return UnreadableContentError(_text(error)) if is_damage else None


def _text(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString()).partition("\n")[0]


def add_empty_batch(spark: SparkSession, writer: DataStreamWriter, batch: int) -> None:
    """Add a batch without files, which the sink has not processed, to its log, unless the sink is not a file sink."""
    folder = writer_option(writer, "path")
    metadata = None if folder is None else sink_metadata_path(spark, folder)
    if metadata is None:
        return
    version = spark_object(spark, "FileStreamSinkLog").VERSION()
    retention = java_class(spark, "scala.Option").empty()
    log = spark_class(spark, "FileStreamSinkLog")(version, spark._jsparkSession, metadata, retention)
    newest = log.getLatestBatchId()
    if newest.isDefined() and newest.get() < batch:
        gateway: Any = spark.sparkContext._gateway
        log.add(batch, gateway.new_array(spark_class(spark, "SinkFileStatus"), 0))


def sink_metadata_path(spark: SparkSession, folder: str) -> str | None:
    """Return where the log of a sink in that folder is, or None without a log."""
    hadoop = HadoopFiles(spark)
    path = hadoop.path(folder)
    files, sink = hadoop.system(path), spark_object(spark, "FileStreamSink")
    metadata = sink.getMetadataLogPath(files, path, spark._jsparkSession.sessionState().conf())
    return str(metadata.toString()) if files.exists(metadata) else None
