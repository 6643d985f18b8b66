"""The job directory as the driver accesses it: through Hadoop file systems, like the checkpoints of the queries.

The module uses `org.apache.hadoop.fs.FileSystem` and Spark's `CheckpointFileManager` of the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.codec import MAX_DOCUMENT_BYTES, journal_name, journal_number
from airflow_adaptive.job.control.interfaces import DirectoryError
from airflow_adaptive.job.spark_internals import java_class, spark_class


class HadoopJobDirectory:
    """Journal, driver status and checkpoints of a job."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Refer to a directory; nothing is read or written yet.

        Args:
            spark: session whose Hadoop configuration has the credentials.
            uri: URI of the directory; `s3://` stands for Hadoop's `s3a://`.
        """
        self._root = hadoop_uri(uri)
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._managers = spark_class(spark, "CheckpointFileManager")
        # The configuration is kept, so that the driver can write its status after the SparkContext has stopped.
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()

    def checkpoint(self, query: str) -> str:
        """Return the URI of a query's checkpoint."""
        folder = quote(query, safe="")
        # A name that consists of dots would refer to this directory or its parent.
        return f"{self._root}/checkpoints/{folder if folder.strip('.') else folder.replace('.', '%2E')}"

    def journal_numbers(self) -> list[int]:
        """Return the numbers of the journal documents, in no order. Raises `DirectoryError`."""
        with _converting_errors(self._root):
            path = self._path("journal")
            files = path.getFileSystem(self._conf)
            names = [entry.getPath().getName() for entry in files.listStatus(path)] if files.exists(path) else []
        return [number for name in names if (number := journal_number(name)) is not None]

    def read_journal(self, number: int) -> bytes | None:
        """Return a journal document, or None if it does not exist. Raises `DirectoryError`."""
        return self._read(self._path("journal", journal_name(number)))

    def read_status(self) -> bytes | None:
        """Return the driver status of any driver, or None if there is none. Raises `DirectoryError`."""
        return self._read(self._path("status.json"))

    def write_status(self, data: bytes) -> None:
        """Replace the driver status atomically, as Spark writes the files of a checkpoint. Raises `DirectoryError`."""
        with _converting_errors(self._root):
            path = self._path("status.json")
            stream = self._managers.create(path.getParent(), self._conf).createAtomic(path, True)
            try:
                stream.write(bytearray(data))
            except BaseException:
                stream.cancel()
                raise
            stream.close()

    def _read(self, path: Any) -> bytes | None:
        with _converting_errors(self._root):
            files = path.getFileSystem(self._conf)
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                return bytes(stream.readNBytes(MAX_DOCUMENT_BYTES + 1))
            finally:
                stream.close()

    def _path(self, *names: str) -> Any:
        return self._path_class("/".join((self._root, *names)))


def hadoop_uri(uri: str) -> str:
    """Return the URI as Hadoop expects it, without a trailing slash."""
    scheme, colon, rest = uri.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}{colon}{rest}".rstrip("/")


@contextmanager
def _converting_errors(root: str) -> Iterator[None]:
    """Convert exceptions of the JVM to `DirectoryError`. A dead JVM (`Py4JNetworkError`) is not converted."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        cause = getattr(error, "java_exception", error)
        raise DirectoryError(f"job directory {root}: {cause}") from error
