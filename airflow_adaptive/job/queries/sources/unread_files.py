"""The files that Spark has listed for a file source and has not read yet.

A file source lists its directory when a batch begins. With `maxFilesPerTrigger` or `maxBytesPerTrigger`, Spark keeps the files above the limit for
the next batches, and lists the directory again when few of them are left. The driver reads this list in the JVM, because listing a large
directory a second time is slow. Files that arrived after the list are not in it.

The module uses a private field of `FileStreamSource` of the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive.job.queries.sources.source_monitor import error_text
from airflow_adaptive.job.spark_internals import from_scala, private_field

KIND: Final = "FileStreamSource"


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """Files of one source.

    Attributes:
        count: number of files.
        oldest_ms: modification time of the oldest file in Unix milliseconds, None without files.
    """

    count: int
    oldest_ms: int | None


class FileSources:
    """The file sources of one query over all its runs."""

    def __init__(self, spark: SparkSession, warn: Callable[[str], None]) -> None:
        """Describe a query that does not run yet.

        Args:
            spark: session of the driver.
            warn: called once if Spark does not provide the files.
        """
        self._spark = spark
        self._warn = warn
        self._warned = False
        self._execution: Any = None

    def begin(self, execution: Any) -> None:
        """Begin a run (`MicroBatchExecution`)."""
        self._execution = execution

    def unread(self) -> Mapping[int, UnreadFiles]:
        """Return the unread files of the sources, by the number of the source in the query; empty if they are unknown."""
        try:
            sources = list(enumerate(from_scala(self._spark, self._execution.sources())))
            return {number: _read(source) for number, source in sources if source.getClass().getSimpleName() == KIND}
        except Py4JError as error:
            if not self._warned:
                self._warned = True
                self._warn(f"the unread files of the sources are not known: {error_text(error)}")
            return {}


def report_files(files: UnreadFiles | None, now_s: float) -> SourceReport:
    """Return the report of a file source.

    Args:
        files: its unread files, None if unknown.
        now_s: time in seconds since the Unix epoch.
    """
    report = SourceReport(kind=KIND)
    if files is None:
        return report
    if files.oldest_ms is None:
        return replace(report, unread_files=0, lag_s=0.0, is_lag_minimum=True)
    return replace(report, unread_files=files.count, lag_s=round(max(0.0, now_s - files.oldest_ms / 1000), 1))


def _read(source: Any) -> UnreadFiles:
    files = private_field(source, "unreadFiles")
    if files is None or files.isEmpty():
        return UnreadFiles(0, None)
    # The files are in the order of their modification, the oldest first or last.
    return UnreadFiles(files.size(), min(files.head().timestamp(), files.last().timestamp()))
