"""An unmanaged script: a Structured Streaming script that starts its queries itself, without `AdaptiveJob`.

The launcher intercepts the script's first `start()`. The call waits until the scheduler's journal names this driver, so
that an outdated driver starts no query. From then on a driver loop runs in a thread beside the script. When the driver
stops, the queries end at a batch boundary, so the script's `awaitTermination()` returns, and the script has a limited
time to end. A script that calls `AdaptiveJob(...).run()` keeps its calls unchanged.

Each query ends at its own batch boundary, but the script sees the ends of all queries at once: a script that watches its queries would
otherwise stop the others in their batches.

The module replaces methods of pyspark in this process: those with which a script starts queries, stops them and sees that they end, and
`stop` of `SparkContext`.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.conf import read_settings
from airflow_adaptive._core.protocol.documents import Action, Directive, DriverState, FailureReport
from airflow_adaptive._core.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.control.driver_loop import EXIT_FAILED
from airflow_adaptive.job.control.interfaces import DirectiveSource, ExecutorPool
from airflow_adaptive.job.entry.checkpoint_location import QueryStart, TransientFolders
from airflow_adaptive.job.entry.driver import DriverRuntime
from airflow_adaptive.job.entry.submitted_session import SubmittedSession, replace_methods, replace_properties
from airflow_adaptive.job.queries.job_queries import require_startable
from airflow_adaptive.job.queries.script_queries import ScriptQueries, ScriptStoppedError
from airflow_adaptive.job.queries.writers import AdaptiveJobError
from airflow_adaptive.job.state.checkpoint import Checkpoint

log = logging.getLogger(__name__)

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
