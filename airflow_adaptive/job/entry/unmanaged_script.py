"""An ordinary Structured Streaming script under the scheduler: one that starts its queries itself, without `AdaptiveJob`.

The launcher watches for the script's first `start()`. That waits until the scheduler's log names this driver, so a driver that
is outdated starts no query; and from then on a control loop runs in a thread beside the script. When the script is told to
stop, its queries end at a batch boundary, so its `awaitTermination()` returns, and what it does then it may do for a while.
A script that calls `AdaptiveJob(...).run()` is left alone.

Changes classes of pyspark in this process: `start` and `toTable` of `DataStreamWriter`, `awaitTermination` of `StreamingQuery`,
`awaitAnyTermination` of `StreamingQueryManager`, and `stop` of `SparkContext`.
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

from airflow_adaptive.job.control.interfaces import ExecutorPool, Journal
from airflow_adaptive.job.control.watchdog import EXIT_FENCED
from airflow_adaptive.job.entry.driver import EXIT_FAILED, Driver
from airflow_adaptive.job.protocol.conf import read_settings
from airflow_adaptive.job.protocol.documents import Action, Directive, DriverState, FailureReport
from airflow_adaptive.job.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.queries.script_queries import ScriptQueries, ScriptStoppedError
from airflow_adaptive.job.queries.writers import AdaptiveJobError, query_option

log = logging.getLogger(__name__)

NOTE: Final = (
    "the script starts its queries itself, without AdaptiveJob: executors come and go under them, every other change takes a "
    "new driver"
)

NO_CHECKPOINT: Final = (
    "has no checkpointLocation, so each restart begins anew: set it, on storage that all workers reach"
)

THREADS_GRACE_S: Final = 10.0
"""How long threads that the script has left behind may keep a process whose work is over."""

CHECKPOINT_OPTION: Final = "checkpointLocation"
CHECKPOINT_CONF: Final = "spark.sql.streaming.checkpointLocation"


class UnmanagedScript:
    """The script of this process, from its first query on."""

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        """Nothing is watched yet; `end` ends the process, whatever its threads do."""
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
        """Whether the script has wanted to start a query itself."""
        return self._queries is not None

    def install_hooks(self) -> None:
        """Have the script's calls pass through here."""
        _replace_methods(DataStreamWriter, ("start", "toTable"), self._on_start)
        _replace_methods(StreamingQuery, ("awaitTermination",), self._on_await)
        _replace_methods(StreamingQueryManager, ("awaitAnyTermination",), self._on_await)
        _replace_methods(SparkContext, ("stop",), self._on_stop)

    def disable_hooks(self) -> None:
        """The script hands its queries to `AdaptiveJob`. Raises `AdaptiveJobError` if it has started one before."""
        if self.has_started:
            raise AdaptiveJobError(
                "the script started a query before AdaptiveJob(...).run(): let the function that AdaptiveJob is given return "
                "all queries, not started"
            )
        self._hooks_disabled = True

    def finish(self, error: BaseException | None) -> int:
        """The script has come to its end: wait for the control loop's.

        Args:
            error: what the script raised, None if nothing.

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
        without = _label_without_checkpoint(writer, options)
        with self._lock:
            queries = self._queries or self._start_control_loop(writer, without)
            if without not in self._warned:
                log.warning("%s %s", without, NO_CHECKPOINT)
            self._warned.add(without)
        return queries.start_query(lambda: start(writer, *args, **options))

    def _on_await(self, wait: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return wait(*args, **options)
        finally:
            if self._queries is not None:
                self._queries.block_if_halted()

    def _on_stop(self, stop: Callable[[SparkContext], None], context: SparkContext) -> None:
        """The session is needed until the last report: the queries are ended now, and it ends with the process."""
        if self._queries is None:
            stop(context)
        else:
            self._queries.stop_queries()

    # ---- the control loop ----

    def _start_control_loop(self, writer: DataStreamWriter, without: str) -> ScriptQueries:
        """Start the control loop."""
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
        """Obey the scheduler; then the script may come to its end by itself, but not for ever."""
        try:
            self._state = driver.run(queries, notice)
        except Exception:
            log.exception("the control loop failed")
            self._exit(EXIT_FAILED)
            return
        queries.reject_starts()
        if self._state is DriverState.FENCED:
            self._exit(EXIT_FENCED)
        elif not self._script_ended.wait(driver.settings.stop_timeout_s):
            log.warning("the script has not ended within %g s of its queries: exit", driver.settings.stop_timeout_s)
            self._exit(EXIT_FAILED if self._state is DriverState.FAILED else 0)

    def _exit_after(self, seconds: float, code: int) -> None:
        """Python waits for threads of a script that has failed; they have that long."""
        timer = threading.Timer(seconds, self._exit, (code,))
        timer.daemon = True
        timer.start()

    def _exit(self, code: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._end_process(code)


class _StopOnHold:
    """A log: the queries of a script can't be held, since it goes on with their end. Where others are held it is stopped."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def newest(self) -> Directive | None:
        directive = self._journal.newest()
        if directive is None or directive.action is not Action.HOLD:
            return directive
        return replace(directive, action=Action.STOP)


class _ExecutorPoolOfScript:
    """Executors that are of no use any more when the script has failed."""

    def __init__(self, executors: ExecutorPool, queries: ScriptQueries) -> None:
        self._queries = queries
        self._executors = executors
        self.registered, self.exiting, self.are_warm = executors.registered, executors.exiting, executors.are_warm
        self.request_total, self.release = executors.request_total, executors.release

    def alive(self) -> bool:
        return self._executors.alive() and not (self._queries.failed and self._queries.plan is None)


_script = UnmanagedScript()


def install_hooks() -> UnmanagedScript:
    """Watch the script of this process, from before it begins."""
    _script.install_hooks()
    return _script


def disable_hooks() -> None:
    """The script of this process hands its queries to `AdaptiveJob`. Raises `AdaptiveJobError` if it has started one."""
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


def _label_without_checkpoint(writer: DataStreamWriter, options: dict[str, Any]) -> str:
    """What to call a query that is started without a checkpoint location, "" if it has one."""
    given = options.get(CHECKPOINT_OPTION) or query_option(writer, CHECKPOINT_OPTION)
    if given or writer._spark.conf.get(CHECKPOINT_CONF, None):
        return ""
    name = options.get("queryName") or query_option(writer, "queryName")
    return f"query {name!r}" if name else "a query without a name"


def _is_normal_end(error: BaseException) -> bool:
    return isinstance(error, ScriptStoppedError) or (isinstance(error, SystemExit) and not error.code)


def report_end(error: BaseException) -> FailureReport:
    """Report of what ended the script: what the script raised; of an exit that stands for nothing else its code is all that is known."""
    report = report_build_failure(error) if isinstance(error, Exception) else report_exception(error)
    if isinstance(error, SystemExit) and report.error_class == "SystemExit":
        return replace(report, message=f"the script ended itself with exit code {report.message}")
    return report
