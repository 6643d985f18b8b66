"""One query over its runs: its progress, its failure, its first trigger and its stateful run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive.job.control.interfaces import StatefulRun
from airflow_adaptive.job.queries.job_query import JobQuery, boundaries
from airflow_adaptive.job.queries.sources.source_monitor import SourceMonitor
from airflow_adaptive.job.queries.sources.topic_ids import TopicRecreatedError
from airflow_adaptive.job.spark_internals import class_name
from tests.support.driver.fake_spark import Query, Spark, Stream
from tests.unit.job.queries.test_progress import progress

NAME = "departures"
INITIALIZING, ACTIVE = object(), object()


@pytest.fixture
def spark() -> Spark:
    session = Spark()
    setattr(
        session._jvm, f"{class_name('INITIALIZING', session.version)}$", SimpleNamespace(**{"MODULE$": INITIALIZING})
    )
    return session


def query_of(spark: Spark, name: str = NAME) -> JobQuery:
    session: Any = spark
    return JobQuery(session, name, f"at/{name}")


def started(spark: Spark, name: str = NAME) -> JobQuery:
    query = query_of(spark, name)
    writer: Any = Stream(None, spark)
    query.start(writer)
    return query


def test_query_that_was_never_started_has_no_run(spark: Spark) -> None:
    query = query_of(spark)
    query.stop()
    assert (query.active(), query.failure(), query.report(), query.stateful_run()) == (False, None, None, None)
    assert not query.wait_for_first_trigger(1.0)
    assert boundaries([query]) == []


def test_query_starts_under_its_name_from_its_checkpoint(spark: Spark) -> None:
    query = started(spark)
    (run,) = spark.queries
    assert (run.name, run.checkpoint) == (NAME, f"at/{NAME}")
    assert query.active()


@pytest.mark.parametrize(("kind", "interval_ms"), [("ProcessingTimeTrigger", 500), ("AvailableNowTrigger$", None)])
def test_report_contains_the_interval_of_a_trigger_that_has_one(
    spark: Spark, kind: str, interval_ms: int | None
) -> None:
    trigger = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind), intervalMs=lambda: 500)

    class Triggered(Stream):
        def start(self, *_: Any, **__: Any) -> Query:
            query = super().start()
            execution = query._jsq.streamingQuery()
            query._jsq.streamingQuery = lambda: SimpleNamespace(**{**vars(execution), "trigger": lambda: trigger})
            return query

    query = query_of(spark)
    query.start(Triggered(None, spark))
    report = query.report()
    assert report is not None
    assert report.trigger_interval_ms == interval_ms


def test_report_contains_the_progress_of_all_runs(spark: Spark) -> None:
    query = started(spark)
    spark.queries[0].progress = [progress(0), progress(1)]
    query.update()
    query.stop()
    query.end_run()
    writer: Any = Stream(None, spark)
    query.start(writer)
    spark.queries[1].progress = [progress(2)]
    report = query.report()
    assert report is not None
    assert (report.batch_id, report.committed, report.active, report.idle) == (2, 3, True, True)


def test_report_of_a_stopped_query_is_neither_active_nor_idle(spark: Spark) -> None:
    query = started(spark)
    query.stop()
    report = query.report()
    assert report is not None
    assert (report.active, report.idle) == (False, False)


def test_failure_is_that_of_the_newest_run(spark: Spark) -> None:
    query = started(spark)
    spark.queries[0].fails()
    failure = query.failure()
    assert failure is not None
    assert (failure.error_class, failure.query) == ("DIVIDE_BY_ZERO", NAME)
    writer: Any = Stream(None, spark)
    query.start(writer)
    assert query.failure() is None


def test_damaged_file_of_the_checkpoint_is_the_cause_of_a_failure(spark: Spark) -> None:
    spark.files = {
        f"at/{NAME}/metadata": b'{"id":"1"}',
        f"at/{NAME}/offsets/0": b"v1\n{}\n{}",
        f"at/{NAME}/commits/0": b"",
    }
    query = started(spark)
    spark.queries[-1].fails()
    failure = query.failure()
    assert failure is not None
    assert failure.error_class == "DamagedCheckpointError"
    assert f"at/{NAME}/commits/0 is empty" in failure.message
    assert failure.causes[:2] == ("DamagedCheckpointError", "DIVIDE_BY_ZERO")
    assert query.failure() is failure
    writer: Any = Stream(None, spark)
    query.start(writer)
    assert query.failure() is None


def test_failure_is_the_reason_for_which_the_monitor_stopped_the_run(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(spark)
    error = TopicRecreatedError("topic 'a' was deleted and created again")
    monkeypatch.setattr(query._sources._monitor, "failure", error)
    failure = query.failure()
    assert failure is not None
    assert failure.error_class.endswith(".TopicRecreatedError")
    assert (failure.message, failure.query) == (str(error), NAME)


def test_end_of_a_run_reads_its_last_progress_and_ends_its_monitor(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(spark)
    ends: list[SourceMonitor] = []

    def end(monitor: SourceMonitor) -> None:
        ends.append(monitor)

    monkeypatch.setattr(SourceMonitor, "end", end)
    spark.queries[0].progress = [progress(0), progress(1)]
    query.end_run()
    spark.queries[0].progress = []
    report = query.report()
    assert report is not None
    assert (report.active, report.committed, len(ends)) == (False, 2, 1)


def test_failed_start_leaves_no_run(spark: Spark) -> None:
    query = started(spark)
    writer: Any = Stream(None, spark, error=LookupError("no such column"))
    with pytest.raises(LookupError):
        query.start(writer)
    assert not query.active()


def test_stateful_run_has_the_partitions_of_the_newest_batch(spark: Spark) -> None:
    query = started(spark)
    assert query.stateful_run() is None
    spark.queries[0].progress = [progress(7, partitions=4)]
    assert query.stateful_run() == StatefulRun(run_id="run 0", batch_id=7, state_partitions=4)
    assert query.state_partitions == 4
    query.stop()
    assert query.stateful_run() is None


@pytest.mark.parametrize(
    ("state", "error", "begun"),
    [(ACTIVE, None, True), (INITIALIZING, None, False), (ACTIVE, Py4JError("the query has failed"), False)],
    ids=["begun", "initializing", "failed"],
)
def test_first_trigger_has_begun_when_the_query_is_initialized(
    spark: Spark, state: object, error: Exception | None, begun: bool
) -> None:
    query = started(spark)
    waited: list[int] = []

    def await_initialization(timeout_ms: int) -> None:
        waited.append(timeout_ms)
        if error is not None:
            raise error

    execution = SimpleNamespace(
        awaitInitialization=await_initialization, state=lambda: SimpleNamespace(get=lambda: state)
    )
    spark.queries[0]._jsq = SimpleNamespace(streamingQuery=lambda: execution)
    assert query.wait_for_first_trigger(0.5) is begun
    assert query.wait_for_first_trigger(0.0) is begun
    assert waited == [500, 1]
