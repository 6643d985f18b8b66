"""An unmanaged script: a Structured Streaming script that starts its queries itself, without `AdaptiveJob`.

The launcher intercepts the script's first `start()`. The call waits until the scheduler's journal names this driver, so
that an outdated driver starts no query. From then on a driver loop runs in a thread beside the script. When the driver
stops, the queries end at a batch boundary, so the script's `awaitTermination()` returns, and the script has a limited
time to end. A script that calls `AdaptiveJob(...).run()` keeps its calls unchanged.

The module replaces methods of pyspark in this process: `start` and `toTable` of `DataStreamWriter`, `awaitTermination`
of `StreamingQuery`, `awaitAnyTermination` of `StreamingQueryManager`, and `stop` of `SparkContext`.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.control.driver_run import EXIT_FAILED
from airflow_adaptive.job.control.interfaces import ExecutorPool, Journal
from airflow_adaptive.job.entry.driver import Driver
from airflow_adaptive.job.jvm import writer_option
from airflow_adaptive.job.protocol.conf import read_settings
from airflow_adaptive.job.protocol.documents import Action, Directive, DriverState, FailureReport
from airflow_adaptive.job.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.queries.script_queries import ScriptQueries, ScriptStoppedError
from airflow_adaptive.job.queries.writers import AdaptiveJobError, query_name
from airflow_adaptive.job.state.checkpoint import Checkpoint

log = logging.getLogger(__name__)

NOTE: Final = (
    "the script starts its queries itself, without AdaptiveJob: a rescale adds and removes executors, and every other change needs a "
    "new driver"
)

NO_CHECKPOINT: Final = "has no checkpointLocation, so each restart starts from the beginning: set it, on storage that all workers can access"

THREADS_GRACE_S: Final = 10.0
"""Time in seconds for which threads of the script may keep a process that has completed its work."""

CHECKPOINT_OPTION: Final = "checkpointLocation"
CHECKPOINT_CONF: Final = "spark.sql.streaming.checkpointLocation"


class UnmanagedScript:
    """The script of this process, from its first query."""

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        """Create an object that intercepts nothing yet; `end` ends the process regardless of its threads."""
        self._end_process = end
        self._lock = threading.Lock()
        self._hooks_disabled = False
        self._queries: ScriptQueries | None = None
        self._state: DriverState | None = None
        self._loop: threading.Thread | None = None
        self._script_ended = threading.Event()
        self._warned = {""}

    @property
    def has_started(self) -> bool:
        """Whether the script has tried to start a query itself."""
        return self._queries is not None

    def install_hooks(self) -> None:
        """Intercept the script's calls."""
        _replace_methods(DataStreamWriter, ("start", "toTable"), self._on_start)
        _replace_methods(StreamingQuery, ("awaitTermination",), self._on_await)
        _replace_methods(StreamingQueryManager, ("awaitAnyTermination",), self._on_await)
        _replace_methods(SparkContext, ("stop",), self._on_stop)

    def disable_hooks(self) -> None:
        """Disable the hooks, because the script uses `AdaptiveJob`.

        Raises `AdaptiveJobError` if it has started a query before.
        """
        if self.has_started:
            raise AdaptiveJobError(
                "the script started a query before AdaptiveJob(...).run(): pass AdaptiveJob a function that returns "
                "all queries, not started"
            )
        self._hooks_disabled = True

    def finish(self, error: BaseException | None) -> int:
        """Wait for the driver loop after the end of the script.

        Args:
            error: exception of the script, or None.

        Returns:
            The exit code of the process.
        """
        assert self._queries is not None
        assert self._loop is not None
        raised = None if error is None or _is_normal_end(error) else error
        self._queries.finish(None if raised is None else report_end(raised))
        self._script_ended.set()
        self._loop.join()
        code = EXIT_FAILED if self._state is DriverState.FAILED or raised is not None else 0
        self._exit_after(THREADS_GRACE_S, code)
        return code

    # ---- calls of the script ----

    def _on_start(self, start: Callable[..., Any], writer: DataStreamWriter, *args: Any, **options: Any) -> Any:
        if self._hooks_disabled:
            return start(writer, *args, **options)
        checkpoint = _checkpoint_location(writer, options)
        without = "" if checkpoint else _label(writer, options)
        with self._lock:
            queries = self._queries or self._start_control_loop(writer, without)
            if without not in self._warned:
                log.warning("%s %s", without, NO_CHECKPOINT)
            self._warned.add(without)

        def begin() -> StreamingQuery:
            if checkpoint:
                Checkpoint(writer._spark, checkpoint).remove_partial_offsets()
            query: StreamingQuery = start(writer, *args, **options)
            return query

        return queries.start_query(begin)

    def _on_await(self, wait: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return wait(*args, **options)
        finally:
            if self._queries is not None:
                self._queries.block_if_halted()

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
        master = str(spark.sparkContext.master)
        if master.startswith("local"):
            raise AdaptiveJobError(
                f"the script sets the master {master!r} itself, so its queries would not run on the cluster: remove .master(...)"
            )
        driver = Driver(spark, read_settings(lambda name: spark.sparkContext.getConf().get(name, None)))
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

    def _run_control_loop(self, driver: Driver, queries: ScriptQueries, notice: str) -> None:
        """Execute directives; after that, the script has a limited time to end by itself."""
        try:
            self._state = driver.run(queries, notice)
        except Exception:
            log.exception("the driver loop failed")
            self._exit(EXIT_FAILED)
            return
        queries.reject_starts()
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

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def newest(self) -> Directive | None:
        directive = self._journal.newest()
        if directive is None or directive.action is not Action.HOLD:
            return directive
        return replace(directive, action=Action.STOP)


class _ExecutorPoolOfScript:
    """An executor pool that is not alive any more when the script has failed."""

    def __init__(self, executors: ExecutorPool, queries: ScriptQueries) -> None:
        self._queries = queries
        self._executors = executors
        self.registered, self.exiting, self.are_warm = executors.registered, executors.exiting, executors.are_warm
        self.request_total, self.release = executors.request_total, executors.release

    def alive(self) -> bool:
        return self._executors.alive() and not (self._queries.failed and self._queries.plan is None)


_script = UnmanagedScript()


def install_hooks() -> UnmanagedScript:
    """Intercept the calls of this process's script, before the script starts."""
    _script.install_hooks()
    return _script


def disable_hooks() -> None:
    """Disable the hooks, because the script uses `AdaptiveJob`. Raises `AdaptiveJobError` if it has started a query."""
    _script.disable_hooks()


def _replace_methods(owner: type, names: tuple[str, ...], around: Callable[..., Any]) -> None:
    for name in names:
        original = getattr(owner, name)
        setattr(owner, name, _replacement(original, around))


def _replacement(original: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return around(original, *args, **options)

    return call


def _checkpoint_location(writer: DataStreamWriter, options: dict[str, Any]) -> str | None:
    """Return the URI of the checkpoint of a query, or None if Spark creates a new checkpoint for each start."""
    given = options.get(CHECKPOINT_OPTION) or writer_option(writer, CHECKPOINT_OPTION)
    if given:
        return str(given)
    root, name = writer._spark.conf.get(CHECKPOINT_CONF, None), options.get("queryName") or query_name(writer)
    return f"{root}/{name}" if root and name else None


def _label(writer: DataStreamWriter, options: dict[str, Any]) -> str:
    name = options.get("queryName") or query_name(writer)
    return f"query {name!r}" if name else "a query without a name"


def _is_normal_end(error: BaseException) -> bool:
    return isinstance(error, ScriptStoppedError) or (isinstance(error, SystemExit) and not error.code)


def report_end(error: BaseException) -> FailureReport:
    """Return the report of the exception that ended the script.

    Of an exit without another cause, only the code is known.
    """
    report = report_build_failure(error) if isinstance(error, Exception) else report_exception(error)
    if isinstance(error, SystemExit) and report.error_class == "SystemExit":
        return replace(report, message=f"the script ended itself with exit code {report.message}")
    return report
