"""How a script that starts its queries itself comes under the scheduler, and how its process ends."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.conf import MissingSettingsError
from airflow_adaptive._core.protocol.documents import Action, DriverState, FailureReport
from airflow_adaptive.job.control.driver_loop import EXIT_FENCED
from airflow_adaptive.job.entry import unmanaged_script
from airflow_adaptive.job.entry.unmanaged_script import NO_CHECKPOINT, NOTE, UnmanagedScript
from airflow_adaptive.job.queries.script_queries import ScriptQueries, ScriptStoppedError
from airflow_adaptive.job.queries.writers import AdaptiveJobError
from airflow_adaptive.job.state.checkpoint import Checkpoint
from tests.support.driver.fake_spark import Query, Spark, Stream
from tests.support.driver.simulated_driver import directive, plan

TIMEOUT_S = 60.0

IDENTITY = {
    "spark.airflow.adaptive.job": "departures",
    "spark.airflow.adaptive.directory": "file:///jobs/departures",
    "spark.airflow.adaptive.epoch": "1",
    "spark.airflow.adaptive.nonce": "n",
    "spark.airflow.adaptive.stopTimeout": "0.01",
}


class Session(Spark):
    """A session of a driver that was submitted, and its context."""

    def __init__(self) -> None:
        super().__init__()
        self.settings |= IDENTITY


class Driver:
    """In place of `job.entry.driver.DriverRuntime`: permits queries, and ends when the test requests the end."""

    permits = True
    exit: Callable[[int], None]

    def __init__(self, spark: Session, settings: Any) -> None:
        self.spark = spark
        self.settings = settings
        self.executors = SimpleNamespace(
            alive=lambda: True,
            registered=None,
            are_warm=None,
            exiting=None,
            decommission=None,
            load=None,
            request_total=None,
            release=None,
        )
        self.journal = SimpleNamespace(newest=lambda: directive(Action.HOLD, 1))
        self.state: DriverState | None = DriverState.STOPPED
        self.ends, self.exited = threading.Event(), threading.Event()
        self.queries: ScriptQueries
        self.notice: str | None = None

    def run(self, queries: ScriptQueries, notice: str | None = None) -> DriverState:
        self.queries, self.notice = queries, notice
        if self.permits:
            queries.start(plan(1), plan(1))
        self.ends.wait(TIMEOUT_S)
        if self.state is None:
            raise RuntimeError("the loop broke")
        if self.state is DriverState.FENCED:
            queries.halt()
            self.exit(EXIT_FENCED)
            self.exited.wait(TIMEOUT_S)  # an exit does not return
        queries.end(1.0, lambda _: None)
        return self.state


class ScriptProcess:
    """A script, and what became of its process."""

    def __init__(self, drivers: list[Driver]) -> None:
        self.spark = Session()
        self.exits: list[int] = []
        self.cleaned: list[str] = []
        self.exited = threading.Event()
        self.script = UnmanagedScript(self.exit)
        self.drivers = drivers

    def exit(self, code: int) -> None:
        self.exits.append(code)
        self.exited.set()

    @property
    def driver(self) -> Driver:
        return self.drivers[0]

    def starts(self, **given: str) -> Query:
        writer = Stream(spark=self.spark)
        writer.given |= {"queryName": "daily", "checkpointLocation": "file:///c"} | given
        query = DataStreamWriter.start(writer)
        assert isinstance(query, Query)
        return query

    def ends(self, state: DriverState | None) -> None:
        self.driver.state = state
        self.driver.ends.set()


def start(writer: Stream, path: str | None = None, queryName: str | None = None, **options: Any) -> Query:
    return Stream.start(writer)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptProcess]:
    drivers: list[Driver] = []

    def driver(*arguments: Any) -> Driver:
        drivers.append(Driver(*arguments))
        drivers[-1].exit = made.exit
        return drivers[-1]

    monkeypatch.setattr(unmanaged_script, "DriverRuntime", driver)
    monkeypatch.setattr("airflow_adaptive.job.queries.script_queries.end_at_boundary", lambda *_: True)
    monkeypatch.setattr("airflow_adaptive.job.queries.job_query.JobQuery.boundary", lambda _: None)
    originals: list[tuple[Any, str, Any]] = [
        (DataStreamWriter, "start", start),
        (DataStreamWriter, "toTable", start),
        (DataStreamWriter, "foreachBatch", lambda _, function: function),
        (StreamingQuery, "awaitTermination", lambda _: None),
        (StreamingQuery, "exception", lambda _: None),
        (StreamingQuery, "stop", lambda query: query.over()),
        (StreamingQuery, "isActive", property(lambda query: query.running)),
        (StreamingQuery, "status", StreamingQuery.status),
        (StreamingQueryManager, "awaitAnyTermination", lambda _: None),
        (StreamingQueryManager, "get", StreamingQueryManager.get),
        (StreamingQueryManager, "active", StreamingQueryManager.active),
        (JStreamingQueryListener, "onQueryTerminated", JStreamingQueryListener.onQueryTerminated),
        (SparkContext, "stop", lambda context: context.stopped()),
        (tempfile, "mkdtemp", tempfile.mkdtemp),
    ]
    for owner, name, original in originals:
        monkeypatch.setattr(owner, name, original)
    made = ScriptProcess(drivers)
    monkeypatch.setattr(Checkpoint, "remove_partial_offsets", lambda found: made.cleaned.append(found.uri))
    made.script.install_hooks(None, {})
    yield made
    for one in drivers:
        one.ends.set()
        one.exited.set()
    if made.script._loop is not None:
        made.script._loop.join(TIMEOUT_S)


def test_first_query_starts_the_control_loop_and_waits_for_its_permission(process):
    query = process.starts()
    assert (query.name, query.isActive, process.script.has_started) == ("daily", True, True)
    assert process.driver.settings.job == "departures"
    assert process.driver.notice == NOTE


def test_second_query_has_the_same_control_loop(process):
    process.starts()
    process.starts(queryName="weekly")
    assert len(process.drivers) == 1


def test_query_without_a_checkpoint_is_reported_once(process, caplog):
    for _ in range(2):
        process.starts(checkpointLocation="")
    assert process.driver.notice == f"{NOTE}; query 'daily' {NO_CHECKPOINT}"
    assert [record.getMessage() for record in caplog.records] == [f"query 'daily' {NO_CHECKPOINT}"]


def test_checkpoint_location_of_the_session_counts(process):
    process.spark.set("spark.sql.streaming.checkpointLocation", "file:///checkpoints")
    process.starts(checkpointLocation="")
    assert process.driver.notice == NOTE
    assert process.cleaned == ["file:///checkpoints/daily"]


def test_checkpoint_location_of_the_session_does_not_count_for_a_query_without_a_name(process):
    process.spark.set("spark.sql.streaming.checkpointLocation", "file:///checkpoints")
    process.starts(checkpointLocation="", queryName="")
    assert process.driver.notice == f"{NOTE}; a query without a name {NO_CHECKPOINT}"
    assert process.cleaned == []


@pytest.mark.parametrize("given", ["checkpoints/orders", "/work/driver-1/orders"])
def test_checkpoint_that_does_not_outlive_its_driver_fails_the_job(process, given):
    with pytest.raises(
        AdaptiveJobError,
        match=r"the checkpoint file:/work/driver-1/.*orders.* of query 'daily' is in the working folder",
    ):
        process.starts(checkpointLocation=given)
    failure = process.driver.queries.failure()
    assert failure is not None
    assert failure.error_class.endswith("AdaptiveJobError")
    assert not process.spark.queries
    process.ends(DriverState.FAILED)
    assert process.script.finish(SystemExit(3)) == 1
    assert process.driver.queries.failure() == failure


def test_script_sees_the_end_of_queries_together_and_not_in_a_batch(process, monkeypatch):
    """A batch that waited for the ends of all queries would never end."""
    query = process.starts()
    seen: list[bool] = []

    def reads_state(*_: object) -> None:
        seen.append(StreamingQuery.isActive.fget(query))  # type: ignore[attr-defined]

    in_batch: Any = DataStreamWriter.foreachBatch(Stream(spark=process.spark), reads_state)
    watch = threading.Thread(target=reads_state, daemon=True)

    def end_at_boundary(*_: object) -> bool:
        writes = threading.Thread(target=in_batch, args=(None, 1))
        writes.start()
        writes.join(TIMEOUT_S)
        watch.start()
        watch.join(0.05)
        assert watch.is_alive()
        query.over()
        return True

    monkeypatch.setattr("airflow_adaptive.job.queries.script_queries.end_at_boundary", end_at_boundary)
    process.ends(DriverState.STOPPED)
    process.script._loop.join(TIMEOUT_S)
    watch.join(TIMEOUT_S)
    assert seen == [True, False]


def test_partial_offsets_are_removed_when_the_driver_permits_the_query(process):
    process.starts()
    assert process.cleaned == ["file:///c"]
    process.ends(DriverState.STOPPED)
    process.script._loop.join(TIMEOUT_S)
    with pytest.raises(ScriptStoppedError):
        process.starts()
    assert process.cleaned == ["file:///c"]


def test_script_with_an_adaptive_job_keeps_its_calls(process):
    process.script.disable_hooks()
    process.starts()
    assert not process.script.has_started
    assert not process.drivers


def test_query_before_an_adaptive_job_is_refused(process):
    process.starts()
    with pytest.raises(
        AdaptiveJobError, match=r"started a query before AdaptiveJob\(...\).run\(\): pass AdaptiveJob a function"
    ):
        process.script.disable_hooks()


def test_script_that_was_not_submitted_starts_no_query(process):
    del process.spark.settings["spark.airflow.adaptive.nonce"]
    with pytest.raises(MissingSettingsError):
        process.starts()
    assert not process.spark.queries


@pytest.mark.parametrize(
    ("state", "error", "code"),
    [
        (DriverState.FINISHED, None, 0),
        (DriverState.FINISHED, SystemExit(0), 0),
        (DriverState.STOPPED, ScriptStoppedError(0), 0),
        (DriverState.FAILED, ValueError("no such airport"), 1),
        (DriverState.FAILED, None, 1),
        (DriverState.FAILED, SystemExit(3), 1),
    ],
)
def test_exit_code_of_the_process_follows_the_job(process, state, error, code):
    process.starts()
    process.ends(state)
    assert process.script.finish(error) == code


def test_threads_of_a_script_do_not_keep_the_process(process, monkeypatch):
    monkeypatch.setattr(unmanaged_script, "THREADS_GRACE_S", 0.01)
    process.starts()
    process.ends(DriverState.FAILED)
    assert process.script.finish(ValueError("no such airport")) == 1
    assert process.exited.wait(TIMEOUT_S)
    assert process.exits == [1]


def test_an_exception_of_the_script_is_reported_as_a_build_failure(process):
    process.starts()
    process.ends(DriverState.FAILED)
    process.script.finish(ValueError("no such airport"))
    failure = process.driver.queries.failure()
    assert failure is not None
    assert (failure.error_class, failure.message) == ("ValueError", "no such airport")
    assert failure.causes == ("BUILD_FUNCTION_ERROR", "ValueError")


def test_exit_code_of_the_script_is_reported(process):
    process.starts()
    process.ends(DriverState.FAILED)
    process.script.finish(SystemExit(3))
    assert process.driver.queries.failure() == FailureReport(
        error_class="SystemExit", message="the script ended itself with exit code 3", causes=("SystemExit",)
    )


def test_script_that_outlasts_its_queries_is_ended(process, caplog):
    process.starts()
    process.ends(DriverState.STOPPED)
    assert process.exited.wait(TIMEOUT_S)
    assert process.exits == [0]
    assert "the script has not ended within 0.01 s of its queries: exiting" in caplog.text


def test_outdated_driver_exits_immediately_and_its_script_does_not_continue(process):
    query = process.starts()
    process.ends(DriverState.FENCED)
    assert process.exited.wait(TIMEOUT_S)
    assert process.exits == [3]
    waits = threading.Thread(target=lambda: StreamingQuery.awaitTermination(query), daemon=True)
    waits.start()
    waits.join(0.05)
    assert waits.is_alive()


def test_process_ends_with_a_broken_control_loop(process, caplog):
    process.starts()
    process.ends(None)
    assert process.exited.wait(TIMEOUT_S)
    assert (process.exits, caplog.records[-1].getMessage()) == ([1], "the driver loop failed")


def test_session_stays_when_the_script_stops_it(process):
    query, context = process.starts(), SimpleNamespace(stopped=lambda: pytest.fail("it was stopped"))
    SparkContext.stop(context)  # type: ignore[arg-type]
    assert not query.isActive


def test_script_without_a_query_stops_its_own_session(process):
    stopped: list[bool] = []
    SparkContext.stop(SimpleNamespace(stopped=lambda: stopped.append(True)))  # type: ignore[arg-type]
    StreamingQuery.awaitTermination(SimpleNamespace())  # type: ignore[arg-type]
    assert stopped == [True]


def test_hold_stops_the_script(process):
    process.starts()
    held = process.driver.journal.newest()
    assert held is not None
    assert (held.action, held.version) == (Action.STOP, 1)
    process.ends(DriverState.STOPPED)


def test_other_directives_are_unchanged(monkeypatch):
    for word in (None, directive(Action.RUN, 1, plan(1))):
        log = SimpleNamespace(newest=lambda word=word: word)
        assert unmanaged_script._StopOnHold(log).newest() == word


def test_driver_of_a_failed_script_is_not_alive(process):
    process.starts()
    assert process.driver.executors.alive()
    process.driver.queries.finish(FailureReport(error_class="ValueError", message=""))
    process.driver.queries.close()
    assert not process.driver.executors.alive()


def test_script_that_fails_before_its_plan_ends_its_driver_with_its_error(process, monkeypatch):
    """The loop reports that the session has stopped if the executors are not alive before it has read the error."""
    monkeypatch.setattr(Driver, "permits", False)
    with pytest.raises(AdaptiveJobError):
        process.starts(checkpointLocation="checkpoints")
    assert process.driver.executors.alive()
    assert process.driver.queries.has_ended()
    process.driver.queries.close()
    assert not process.driver.executors.alive()


def test_hooks_of_the_process_are_installed_once_and_disabled_by_adaptive_jobs(process, monkeypatch):
    monkeypatch.setattr(unmanaged_script, "_script", process.script)
    assert unmanaged_script.install_hooks(None, {}) is process.script
    unmanaged_script.disable_hooks()
    process.starts()
    assert not process.script.has_started
