"""The job directory as the driver reaches it: through Hadoop's file systems, like the checkpoint beside it.

All of it reaches into the JVM: `org.apache.hadoop.fs.FileSystem` and
`org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager` (Spark >= 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_adaptive.job.control.interfaces import DirectoryError
from airflow_adaptive.job.jvm import java_class
from airflow_adaptive.job.protocol.codec import MAX_DOCUMENT_BYTES, journal_name, journal_number

FILE_MANAGER: Final = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


class HadoopJobDirectory:
    """Journal, status and checkpoints of a job."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Point to a directory; nothing is read or written yet.

        Args:
            spark: its Hadoop configuration has the credentials.
            uri: of the directory; `s3://` means Hadoop's `s3a://`.
        """
        self._root = hadoop_uri(uri)
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._managers = java_class(spark, FILE_MANAGER)
        # Kept: it stays usable when the SparkContext is dead and its failure has to be reported.
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()

    def checkpoint(self, query: str) -> str:
        """URI of a query's checkpoint."""
        folder = quote(query, safe="")
        # A name of dots alone would be this directory, or the one above.
        return f"{self._root}/checkpoints/{folder if folder.strip('.') else folder.replace('.', '%2E')}"

    def journal_numbers(self) -> list[int]:
        """Numbers of the log's documents, in no order. Raises `DirectoryError`."""
        with _reaching(self._root):
            path = self._path("journal")
            files = path.getFileSystem(self._conf)
            names = [entry.getPath().getName() for entry in files.listStatus(path)] if files.exists(path) else []
        return [number for name in names if (number := journal_number(name)) is not None]

    def read_journal(self, number: int) -> bytes | None:
        """A document of the log, None if it is not there. Raises `DirectoryError`."""
        return self._read(self._path("journal", journal_name(number)))

    def read_status(self) -> bytes | None:
        """The status, whoever wrote it, None if there is none. Raises `DirectoryError`."""
        return self._read(self._path("status.json"))

    def write_status(self, data: bytes) -> None:
        """Replace the status in one step, as Spark does with the files of a checkpoint. Raises `DirectoryError`."""
        with _reaching(self._root):
            path = self._path("status.json")
            stream = self._managers.create(path.getParent(), self._conf).createAtomic(path, True)
            try:
                stream.write(bytearray(data))
            except BaseException:
                stream.cancel()
                raise
            stream.close()

    def _read(self, path: Any) -> bytes | None:
        with _reaching(self._root):
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
    """The URI as Hadoop knows it, without a slash at its end."""
    scheme, colon, rest = uri.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}{colon}{rest}".rstrip("/")


@contextmanager
def _reaching(root: str) -> Iterator[None]:
    """Java's exceptions as ours; a dead JVM (`Py4JNetworkError`) is none of them."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        cause = getattr(error, "java_exception", error)
        raise DirectoryError(f"job directory {root}: {cause}") from error
