"""The job directory as the driver accesses it: through Hadoop file systems, like the checkpoints of the queries.

The module uses `org.apache.hadoop.fs.FileSystem` and Spark's `CheckpointFileManager` of the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.documents import MAX_DOCUMENT_BYTES, journal_name, journal_number
from airflow_adaptive.job.control.interfaces import DirectoryError, JournalFiles, StatusFile
from airflow_adaptive.job.spark_internals import class_name, java_class


class HadoopFiles:
    """The files of Hadoop file systems with the credentials of a session, also after its SparkContext has stopped.

    The methods raise the exceptions of Hadoop.

    Attributes:
        conf: configuration of Hadoop.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._manager = class_name("CheckpointFileManager", spark.version)
        self.conf = spark._jsparkSession.sessionState().newHadoopConf()

    def path(self, *parts: Any) -> Any:
        """Return a path of Hadoop."""
        return self._path_class(*parts)

    def system(self, path: Any) -> Any:
        """Return the file system of a path."""
        return path.getFileSystem(self.conf)

    def manager(self, folder: Any) -> Any:
        """Return Spark's access to the files of a checkpoint in a folder."""
        return getattr(self._jvm, self._manager).create(folder, self.conf)

    def read(self, path: Any, max_bytes: int) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        files = self.system(path)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readNBytes(max_bytes))
        finally:
            stream.close()

    def replace(self, path: Any, data: bytes) -> None:
        """Replace a file atomically, as Spark writes the files of a checkpoint."""
        overwrite = True
        stream = self.manager(path.getParent()).createAtomic(path, overwrite)
        try:
            stream.write(bytearray(data))
        except BaseException:
            stream.cancel()
            raise
        stream.close()


class HadoopJobDirectory(JournalFiles, StatusFile):
    """Journal, driver status and checkpoints of a job. `s3://` in the URI stands for Hadoop's `s3a://`."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._root = hadoop_uri(uri)
        self._status = "status.json"
        self._files = HadoopFiles(spark)

    def of_standby(self) -> HadoopJobDirectory:
        """Return the same directory with the status of the standby."""
        directory = copy(self)
        directory._status = "standby.json"
        return directory

    def checkpoint(self, query: str) -> str:
        """Return the URI of a query's checkpoint."""
        folder = quote(query, safe="")
        # A name that consists of dots would refer to this directory or its parent.
        return f"{self._root}/checkpoints/{folder if folder.strip('.') else folder.replace('.', '%2E')}"

    def journal_numbers(self) -> list[int]:
        with _converting_errors(self._root):
            path = self._path("journal")
            files = self._files.system(path)
            names = [entry.getPath().getName() for entry in files.listStatus(path)] if files.exists(path) else []
        return [number for name in names if (number := journal_number(name)) is not None]

    def read_journal(self, number: int) -> bytes | None:
        return self._read(f"journal/{journal_name(number)}")

    def read_status(self) -> bytes | None:
        return self._read(self._status)

    def write_status(self, data: bytes) -> None:
        with _converting_errors(self._root):
            self._files.replace(self._path(self._status), data)

    def _read(self, name: str) -> bytes | None:
        with _converting_errors(self._root):
            return self._files.read(self._path(name), MAX_DOCUMENT_BYTES + 1)

    def _path(self, name: str) -> Any:
        return self._files.path(f"{self._root}/{name}")


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
