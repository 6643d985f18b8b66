"""An unmanaged script: a Structured Streaming script that starts its queries itself, without `AdaptiveJob`.

The launcher intercepts the script's first `start()`. The call waits until the scheduler's journal names this driver, so
that an outdated driver starts no query. From then on a driver loop runs in a thread beside the script. When the driver
stops, the queries end at a batch boundary, so the script's `awaitTermination()` returns, and the script has a limited
time to end. A script that calls `AdaptiveJob(...).run()` keeps its calls unchanged.

Each query ends at its own batch boundary, but the script sees the ends of all queries at once: a script that watches its queries would
otherwise stop the others in their batches.

The module replaces methods of pyspark in this process: those with which a script starts queries, stops them and sees that they end, and
`stop` of `SparkContext`.

The next driver may run on another worker, and always has a working folder and a copy of the script of its own. A query whose checkpoint is
in one of these folders starts from an empty checkpoint after each restart, so its sink loses or repeats rows without an error of Spark.

Theory: the location is resolved as Spark resolves it (`ResolveWriteToStream`, `StreamingQueryManager`): relative to the working folder of
the JVM on a local file system, and to the home folder of the user on HDFS. A location in the job directory is durable, because the loop and
all drivers use that directory; the staged code in it is not, because it is removed. Otherwise a local location is refused in the folders of
this process, and in the temporary folders of its host. A temporary folder that contains the job directory is evidently kept, for example on
a cluster for tests. A file system that is mounted below such a folder may be durable. All other locations may be durable.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.conf import read_settings
from airflow_adaptive._core.protocol.documents import Action, Directive, DriverState, FailureReport
from airflow_adaptive._core.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED
from airflow_adaptive.job.control.interfaces import DirectiveSource, ExecutorPool
from airflow_adaptive.job.entry.driver import DriverRuntime
from airflow_adaptive.job.entry.submitted_session import SubmittedSession, replace_methods, replace_properties
from airflow_adaptive.job.hadoop_directory import HadoopFiles, hadoop_uri
from airflow_adaptive.job.queries.job_queries import require_startable
from airflow_adaptive.job.queries.script_queries import ScriptQueries, ScriptStoppedError
from airflow_adaptive.job.queries.writers import AdaptiveJobError, query_name
from airflow_adaptive.job.spark_internals import java_class, writer_option
from airflow_adaptive.job.state.checkpoint import Checkpoint

log = logging.getLogger(__name__)

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


NOTE: Final = (
    "the script starts its queries itself, without AdaptiveJob: a rescale adds and removes executors, and every other change needs a "
    "new driver"
)

NO_CHECKPOINT: Final = "has no checkpointLocation, so each restart starts from the beginning: set it, on storage that all workers can access"

THREADS_GRACE_S: Final = 10.0
"""Time in seconds for which threads of the script may keep a process that has completed its work."""


class UnmanagedScript:
    """The script of this process, and its session. `end` ends the process regardless of its threads."""

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        self._end_process = end
        self.session = SubmittedSession()
        self._folders = TransientFolders(None)
        self._lock = threading.Lock()
        self._hooks_disabled = False
        self._directory = ""
        self._queries: ScriptQueries | None = None
        self._state: DriverState | None = None
        self._loop: threading.Thread | None = None
        self._script_ended = threading.Event()
        self._warned = {""}
        self._thread = threading.local()

    @property
    def has_started(self) -> bool:
        """Whether the script has tried to start a query itself."""
        return self._queries is not None

    @property
    def refusal(self) -> AdaptiveJobError | None:
        """Error that the script got for its session, or None."""
        return self.session.refusal

    def install_hooks(self, script: Path | None, submitted: Mapping[str, str]) -> None:
        """Intercept the script's calls. `submitted` are the Spark properties, empty if spark-submit has not started this process."""
        self._folders = TransientFolders(script)
        replace_methods(tempfile, ("mkdtemp",), self._folders.create)
        self.session.install_hooks(submitted)
        replace_methods(DataStreamWriter, ("start", "toTable"), self._on_start)
        replace_methods(DataStreamWriter, ("foreachBatch",), self._on_foreach_batch)
        replace_methods(StreamingQuery, ("awaitTermination", "exception", "stop"), self._on_view)
        replace_properties(StreamingQuery, ("isActive", "status"), self._on_view)
        replace_methods(StreamingQueryManager, ("awaitAnyTermination", "get"), self._on_view)
        replace_properties(StreamingQueryManager, ("active",), self._on_view)
        replace_methods(JStreamingQueryListener, ("onQueryTerminated",), self._on_view)
        replace_methods(SparkContext, ("stop",), self._on_stop)

    def disable_hooks(self) -> None:
        """Disable the hooks, because the script uses `AdaptiveJob`. Raises `AdaptiveJobError` if it has started a query before."""
        if self.has_started:
            raise AdaptiveJobError(
                "the script started a query before AdaptiveJob(...).run(): pass AdaptiveJob a function that returns "
                "all queries, not started"
            )
        self._hooks_disabled = True

    def finish(self, error: BaseException | None) -> int:
        """Wait for the driver loop after the end of the script, and return the exit code of the process."""
        assert self._queries is not None
        assert self._loop is not None
        self._queries.finish(None if error is None or _is_normal_end(error) else report_end(error))
        self._script_ended.set()
        self._loop.join()
        code = EXIT_FAILED if self._state is DriverState.FAILED or self._queries.failed else 0
        self._exit_after(THREADS_GRACE_S, code)
        return code

    # ---- calls of the script ----

    def _on_start(self, start: Callable[..., Any], writer: DataStreamWriter, *args: Any, **options: Any) -> Any:
        if self._hooks_disabled:
            return start(writer, *args, **options)
        query = QueryStart(start, writer, args, options)
        without = "" if query.location else query.label
        with self._lock:
            queries = self._queries or self._start_control_loop(writer, without)
            if without not in self._warned:
                log.warning("%s %s", without, NO_CHECKPOINT)
            self._warned.add(without)
        self._require_durable(writer, query, queries)

        def begin() -> StreamingQuery:
            if query.location:
                Checkpoint(writer._spark, query.location).remove_partial_offsets()
                require_startable(writer._spark, writer, query.location)
            started: StreamingQuery = start(writer, *args, **options)
            return started

        return queries.start_query(begin)

    def _require_durable(self, writer: DataStreamWriter, query: QueryStart, queries: ScriptQueries) -> None:
        """Check the checkpoint of a query. The job fails at once with a refusal, whatever the script does with the error."""
        try:
            self._folders.require_durable(writer._spark, query, self._directory)
        except AdaptiveJobError as error:
            queries.finish(report_end(error))
            raise

    def _on_foreach_batch(self, set_function: Callable[..., Any], writer: DataStreamWriter, function: Any) -> Any:
        """Mark the thread of a batch: a query that waits in its batch for the ends of all queries would never end."""

        @functools.wraps(function)
        def in_batch(*args: Any) -> Any:
            self._thread.is_in_batch = True
            try:
                return function(*args)
            finally:
                self._thread.is_in_batch = False

        return set_function(writer, in_batch)

    def _on_view(self, view: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Let the script see the ends of all queries at once."""
        is_own = threading.current_thread() is self._loop or getattr(self._thread, "is_in_batch", False)
        if self._queries is None or is_own:
            return view(*args, **options)
        return self._queries.view(lambda: view(*args, **options))

    def _on_stop(self, stop: Callable[[SparkContext], None], context: SparkContext) -> None:
        """End the queries now; the session ends with the process, because the driver needs it for the last status."""
        if self._queries is None:
            stop(context)
        else:
            self._queries.stop_queries()

    # ---- the driver loop ----

    def _start_control_loop(self, writer: DataStreamWriter, without: str) -> ScriptQueries:
        """Start the driver loop in a thread."""
        spark = writer._spark
        driver = DriverRuntime(spark, read_settings(lambda name: spark.sparkContext.getConf().get(name, None)))
        self._directory = driver.settings.directory
        queries = ScriptQueries(spark, job=driver.settings.job)
        driver.journal = _StopOnHold(driver.journal)
        driver.executors = _ExecutorPoolOfScript(driver.executors, queries)
        notice = f"{NOTE}; {without} {NO_CHECKPOINT}" if without else NOTE
        self._loop = threading.Thread(
            target=self._run_control_loop, args=(driver, queries, notice), name="control-loop", daemon=True
        )
        self._loop.start()
        self._queries = queries
        return queries

    def _run_control_loop(self, driver: DriverRuntime, queries: ScriptQueries, notice: str) -> None:
        """Execute directives; after that, the script has a limited time to end by itself."""
        try:
            self._state = driver.run(queries, notice)
        except Exception:
            log.exception("the driver loop failed")
            self._exit(EXIT_FAILED)
            return
        queries.reject_starts()
        queries.reveal_ends()
        if not self._script_ended.wait(driver.settings.stop_timeout_s):
            log.warning("the script has not ended within %g s of its queries: exiting", driver.settings.stop_timeout_s)
            self._exit(EXIT_FAILED if self._state is DriverState.FAILED else 0)

    def _exit_after(self, seconds: float, code: int) -> None:
        """Exit after a time, because Python waits for the threads of a script that has failed."""
        timer = threading.Timer(seconds, self._exit, (code,))
        timer.daemon = True
        timer.start()

    def _exit(self, code: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._end_process(code)


class _StopOnHold:
    """A journal in which HOLD means STOP, because the script continues when its queries end."""

    def __init__(self, journal: DirectiveSource) -> None:
        self._journal = journal

    def newest(self) -> Directive | None:
        directive = self._journal.newest()
        if directive is None or directive.action is not Action.HOLD:
            return directive
        return replace(directive, action=Action.STOP)


class _ExecutorPoolOfScript:
    """An executor pool that is not alive any more when the driver loop has handled the failure of the script."""

    def __init__(self, executors: ExecutorPool, queries: ScriptQueries) -> None:
        self._queries = queries
        self._executors = executors
        self.registered, self.exiting, self.are_warm = executors.registered, executors.exiting, executors.are_warm
        self.request_total, self.release = executors.request_total, executors.release
        self.decommission, self.load = executors.decommission, executors.load

    def alive(self) -> bool:
        return self._executors.alive() and not self._queries.is_over


_script = UnmanagedScript()


def install_hooks(script: Path | None, submitted: Mapping[str, str]) -> UnmanagedScript:
    """Intercept the calls of this process's script, before the script starts; see `UnmanagedScript.install_hooks`."""
    _script.install_hooks(script, submitted)
    return _script


def disable_hooks() -> None:
    """See `UnmanagedScript.disable_hooks`."""
    _script.disable_hooks()


def _is_normal_end(error: BaseException) -> bool:
    return isinstance(error, ScriptStoppedError) or (isinstance(error, SystemExit) and not error.code)


def report_end(error: BaseException) -> FailureReport:
    """Return the report of the exception that ended the script. Of an exit without another cause, only the code is known."""
    report = report_build_failure(error) if isinstance(error, Exception) else report_exception(error)
    if isinstance(error, SystemExit) and report.error_class == "SystemExit":
        return replace(report, message=f"the script ended itself with exit code {report.message}")
    return report
