"""The location of a checkpoint that a script chooses: where Spark would write it, and whether it outlives the driver.

The next driver may run on another worker, and always has a working folder and a copy of the script of its own. A query whose checkpoint is
in one of these folders starts from an empty checkpoint after each restart, so its sink loses or repeats rows without an error of Spark.

Theory: the location is resolved as Spark resolves it (`ResolveWriteToStream`, `StreamingQueryManager`): relative to the working folder of
the JVM on a local file system, and to the home folder of the user on HDFS. A location in the job directory is durable, because the loop and
all drivers use that directory; the staged code in it is not, because it is removed. Otherwise a local location is refused in the folders of
this process, and in the temporary folders of its host. A temporary folder that contains the job directory is evidently kept, for example on
a cluster for tests. A file system that is mounted below such a folder may be durable. All other locations may be durable.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.hadoop_directory import HadoopFiles, hadoop_uri
from airflow_adaptive.job.queries.writers import AdaptiveJobError, query_name
from airflow_adaptive.job.spark_internals import java_class, writer_option

OPTION: Final = "checkpointLocation"
ROOT_PROPERTY: Final = "spark.sql.streaming.checkpointLocation"

TEMPORARY: Final = ("/tmp", "/var/tmp", "/usr/tmp", "/dev/shm")
"""Temporary folders of a host, whatever the environment of a process names."""

WORKING: Final = "the working folder of this driver"
UNIQUE_NAME: Final = re.compile(r".+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Name of a temporary folder of Spark (`JavaUtils.createDirectory`), for example with a copy of the script."""

COPY: Final = "the folder of this driver with a copy of the script"
STAGED: Final = "the staged code of the job, which is removed"
CREATED: Final = "a temporary folder with another name in each driver"
HOST: Final = "a temporary folder of this worker"


class QueryStart:
    """A call of `start` or `toTable`: the name of the query, and the location of its checkpoint.

    Attributes:
        name: name of the query, or None.
        location: location of the checkpoint as the script gives it, or None if Spark creates a new checkpoint for each start.
    """

    def __init__(
        self, start: Callable[..., Any], writer: DataStreamWriter, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        """Read the arguments, the options of the writer and the properties of its session, in the order of Spark."""
        given = signature(start).bind(writer, *args, **options).arguments
        in_call = {str(name).lower(): value for name, value in given.get("options", {}).items()}
        self.name: str | None = given.get("queryName") or query_name(writer)
        location = in_call.get(OPTION.lower()) or writer_option(writer, OPTION)
        root = writer._spark.conf.get(ROOT_PROPERTY, None)
        if not location and root and self.name:
            location = f"{root}/{self.name}"
        self.location = str(location) if location else None

    @property
    def label(self) -> str:
        """The query in a message."""
        return f"query {self.name!r}" if self.name else "a query without a name"


class TransientFolders:
    """The folders of this process that do not outlive it."""

    def __init__(self, script: Path | None) -> None:
        """Record the folders before the script runs; the script may change its working folder."""
        self._working = Path.cwd()
        self._script = script
        self._created: list[Path] = []

    def create(self, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Record a temporary folder that the script creates (`tempfile.mkdtemp`)."""
        folder = make(*args, **options)
        self._created.append(Path(os.fsdecode(folder)))
        return folder

    def require_durable(self, spark: SparkSession, query: QueryStart, directory: str) -> None:
        """Raise `AdaptiveJobError` if the checkpoint of a query is in a folder that does not outlive this driver; `directory` is the job directory."""
        if query.location is None:
            return
        root = hadoop_uri(directory)
        try:
            location, kept = _qualified(spark, query.location), _qualified(spark, root)
        except (
            Py4JError,
            PySparkException,
        ):  # Spark reports a location that is not valid, and a storage that does not answer
            return
        transient = self._transient(spark, query.location, location, kept)
        if transient is not None:
            is_given = query.location in (location, location.removeprefix("file:"))
            given = "" if is_given else f" ({query.location!r} in the script)"
            example = f"{root}/checkpoints/{quote(query.name or 'name', safe='')}"
            raise AdaptiveJobError(
                f"the checkpoint {location}{given} of {query.label} is in {transient}, so the next driver would start from an empty checkpoint: "
                f"use an absolute location on storage that all workers can access, for example {example}"
            )

    def _transient(self, spark: SparkSession, given: str, location: str, directory: str) -> str | None:
        """Return the folder of the location that does not outlive this driver, or None."""
        path, kept = _local(location), _local(directory)
        if path is None:
            return STAGED if location.startswith(f"{directory}/code/") else None
        if kept is not None and _is_below(path, kept):
            return STAGED if _is_below(path, kept / "code") else None
        temporary = _temporary_folders(spark)
        if any(_is_below(path, folder) for folder in (*self._created, *_named_by_spark(path, kept, temporary))):
            return CREATED
        if any(_is_on(path, folder) for folder in self._working_folders(spark, given)):
            return WORKING
        if self._script is not None and _is_on(path, self._script.parent):
            return COPY
        lost = (folder for folder in temporary if kept is None or not _is_on(kept, folder))
        return HOST if any(_is_on(path, folder) for folder in lost) else None

    def _working_folders(self, spark: SparkSession, given: str) -> Iterator[Path]:
        is_relative = not given.startswith("/") and ":" not in given
        for folder in (self._working, _property(spark, "user.dir")):
            if is_relative or folder != Path("/"):
                yield folder


def _temporary_folders(spark: SparkSession) -> Collection[Path]:
    scratch = spark.sparkContext.getConf().get("spark.local.dir", None) or ""
    listed = ",".join((scratch, os.environ.get("SPARK_LOCAL_DIRS", ""))).split(",")
    folders = {_property(spark, "java.io.tmpdir"), Path(tempfile.gettempdir()), *map(Path, TEMPORARY)}
    return folders | {Path(folder) for folder in listed if folder}


def _named_by_spark(path: Path, kept: Path | None, temporary: Iterable[Path]) -> Iterator[Path]:
    """Yield the parents of a path in a temporary folder that have the name of a folder of Spark, unless the job directory is in the same one."""
    for parent in path.parents:
        is_named = UNIQUE_NAME.fullmatch(parent.name) and any(_is_below(parent, folder) for folder in temporary)
        if is_named and (kept is None or not _is_below(kept, parent)):
            yield parent


def _property(spark: SparkSession, name: str) -> Path:
    return Path(str(java_class(spark, "java.lang.System").getProperty(name)))


def _qualified(spark: SparkSession, location: str) -> str:
    """Return the absolute URI of a location, relative to the working folder of its file system. Raises as Py4J."""
    files = HadoopFiles(spark)
    path = files.path(location)
    return str(files.system(path).makeQualified(path).toString())


def _local(uri: str) -> Path | None:
    """Return the path of a URI of the local file system, None for another file system."""
    scheme, _, path = uri.partition(":")
    return Path("/", path.lstrip("/")) if scheme == "file" else None


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _is_on(path: Path, folder: Path) -> bool:
    """Return whether a path is below a folder and on its file system: another file system may be mounted in between."""
    path, folder = path.resolve(), folder.resolve()
    between = (parent for parent in (path, *path.parents) if parent != folder and parent.is_relative_to(folder))
    return path.is_relative_to(folder) and not any(map(os.path.ismount, between))
