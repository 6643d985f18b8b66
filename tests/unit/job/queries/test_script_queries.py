"""Queries that a script starts itself: when they may, which they are, and what the script's end means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive.job.queries import job_query, script_queries
from airflow_adaptive.job.queries.script_queries import NEVER_STARTED, ScriptQueries, ScriptStoppedError
from airflow_adaptive.job.state.repartition import RepartitionError
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.fake_spark import Query, Spark
from tests.support.driver.simulated_driver import plan

ERROR = FailureReport(error_class="ValueError", message="no such airport")
TIMEOUT_S = 60.0


class Job:
    """A session, and a script beside the driver loop."""

    def __init__(self) -> None:
        self.spark = Spark()
        self.queries = ScriptQueries(self.spark, job="departures")  # type: ignore[arg-type]

    def start(self, name: str | None = None, before: Callable[[], Any] = lambda: None) -> Future[Any]:
        """The script starts a query in a thread of its own."""
        done: Future[Any] = Future()

        def create() -> Query:
            before()
            return Query(self.spark, name)  # type: ignore[arg-type]

        def run() -> None:
            try:
                done.set_result(self.queries.start_query(create))
            except BaseException as error:  # noqa: BLE001
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return done

    def runs(self, name: str | None = None) -> Query:
        query: Query = self.start(name).result(TIMEOUT_S)
        return query

    def permit(self) -> None:
        self.queries.start(plan(1), plan(1))

    def end(self) -> bool:
        return self.queries.end(1.0, lambda _: None)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(script_queries, "FIRST_START_TIMEOUT_S", 0.01)
    monkeypatch.setattr(script_queries, "HALT_TIMEOUT_S", 0.01)
    monkeypatch.setattr(script_queries, "end_at_boundary", lambda boundaries, *_: not any(b.stop() for b in boundaries))
    monkeypatch.setattr("airflow_adaptive.job.queries.job_query.BatchBoundary", lambda _, query: query)
    return Job()


def names(job: Job) -> list[str]:
    return [report.name for report in job.queries.reports()]


def test_query_waits_until_the_scheduler_permits_the_start(job):
    started = job.start("daily")
    assert not job.spark.queries
    assert job.queries.plan is None
    job.permit()
    assert started.result(TIMEOUT_S).name == "daily"
    assert job.queries.plan == plan(1)


def test_plan_is_activated_with_the_first_query(job, monkeypatch):
    monkeypatch.setattr(script_queries, "FIRST_START_TIMEOUT_S", TIMEOUT_S)
    begun = threading.Event()
    job.start("daily", before=begun.set)
    job.permit()
    assert begun.is_set()
    wait_until(lambda: names(job) == ["daily"], TIMEOUT_S, "the query")


def test_script_that_starts_a_query_after_the_end_is_stopped(job):
    job.permit()
    job.runs("daily")
    assert job.end()
    with pytest.raises(ScriptStoppedError) as ended:
        job.queries.start_query(lambda: pytest.fail("it was started"))
    assert ended.value.code == 0


def test_script_that_waits_for_its_start_is_stopped(job):
    waiting = job.start()
    job.queries.reject_starts()
    assert isinstance(waiting.exception(TIMEOUT_S), ScriptStoppedError)


def test_script_that_ends_with_its_queries_as_directed_has_not_finished(job):
    job.permit()
    job.runs("daily")
    job.end()
    job.queries.finish(None)
    assert not job.queries.has_ended()
    assert job.queries.failure() is None


def test_script_that_ended_before_the_end_request_has_finished(job):
    job.permit()
    job.runs("daily").over()
    job.queries.finish(None)
    assert job.end()
    assert job.queries.has_ended()


def test_query_that_is_starting_is_ended_with_the_others(job):
    job.permit()
    may_start, starting = threading.Event(), threading.Event()

    def before() -> None:
        starting.set()
        may_start.wait(TIMEOUT_S)

    started = job.start("late", before)
    assert starting.wait(TIMEOUT_S)
    assert job.queries.end(TIMEOUT_S, lambda _: may_start.set())
    assert not started.result(TIMEOUT_S).isActive


def test_halted_script_is_blocked(job):
    job.permit()
    query = job.runs("daily")
    job.queries.halt()
    assert query.stopped
    later = job.start("weekly")
    held = threading.Thread(target=job.queries.view, args=(lambda: True,), daemon=True)
    held.start()
    held.join(0.05)
    assert held.is_alive()
    assert not later.done()
    assert len(job.spark.queries) == 1


def test_script_that_is_not_halted_is_not_blocked(job):
    job.permit()
    job.runs("daily")
    job.end()
    job.queries.reveal_ends()
    assert job.queries.view(lambda: "seen") == "seen"


def test_script_sees_the_ends_of_all_queries_at_once(job, monkeypatch):
    job.permit()
    first, second = job.runs("daily"), job.runs("weekly")
    ended, seen = threading.Event(), []

    def end_at_boundary(*_: object) -> bool:
        first.over()
        ended.set()
        waits.join(0.05)
        assert waits.is_alive()
        second.over()
        return True

    def script() -> None:
        ended.wait(TIMEOUT_S)
        seen.append(job.queries.view(lambda: (first.isActive, second.isActive)))

    waits = threading.Thread(target=script, daemon=True)
    waits.start()
    monkeypatch.setattr(script_queries, "end_at_boundary", end_at_boundary)
    assert job.end()
    waits.join(0.05)
    assert waits.is_alive(), "the driver has not written its last status"
    job.queries.reveal_ends()
    waits.join(TIMEOUT_S)
    assert seen == [(False, False)]


def test_script_does_not_see_an_end_that_begins_while_it_reads(job, monkeypatch):
    job.permit()
    query = job.runs("daily")
    reading, may_read, seen = threading.Event(), threading.Event(), []

    def read() -> bool:
        reading.set()
        may_read.wait(TIMEOUT_S)
        return query.isActive

    def end_at_boundary(*_: object) -> bool:
        may_read.set()
        script.join(0.05)
        assert script.is_alive()
        query.over()
        return True

    script = threading.Thread(target=lambda: seen.append(job.queries.view(read)), daemon=True)
    script.start()
    assert reading.wait(TIMEOUT_S)
    monkeypatch.setattr(script_queries, "end_at_boundary", end_at_boundary)
    assert job.end()
    job.queries.reveal_ends()
    script.join(TIMEOUT_S)
    assert seen == [False]


def test_error_that_the_script_gets_is_raised(job):
    job.permit()
    with pytest.raises(ZeroDivisionError):
        job.queries.view(lambda: 1 // 0)


def test_error_of_the_script_after_a_requested_end_is_a_notice(job, caplog):
    job.permit()
    job.runs("daily")
    assert job.end()
    job.queries.finish(ERROR)
    assert job.queries.failure() is None
    assert not job.queries.failed
    assert "the script has failed after the requested end of its queries: ValueError: no such airport" in caplog.text


def test_first_error_of_the_script_counts(job):
    job.permit()
    job.runs("daily")
    job.queries.finish(ERROR)
    assert job.end()
    job.queries.finish(replace(ERROR, message="while it cleaned up"))
    assert job.queries.failure() == ERROR


def test_queries_without_a_name_have_the_name_of_the_job(job):
    job.permit()
    for name in (None, "daily", None):
        job.runs(name)
    assert names(job) == ["departures", "daily", "departures-2"]


def test_next_run_of_a_query_is_the_same_query(job):
    job.permit()
    for name in ("daily", None, "daily", None):
        job.runs(name).over()
    assert names(job) == ["daily", "departures"]


def test_no_plan_requires_new_queries(job):
    job.permit()
    assert job.queries.vertices_read == ()
    assert job.queries.can_adopt(replace(plan(3), query_version=9))
    job.queries.adopt(plan(3))
    assert job.queries.plan == plan(3)


def test_a_repartition_of_running_queries_is_rejected(job):
    wanted = replace(plan(1), state_partitions={"departures": 9}, repartition=True)
    assert job.queries.build(wanted) == wanted
    job.permit()
    assert not job.queries.can_adopt(wanted)
    with pytest.raises(RepartitionError, match="the script starts its queries itself"):
        job.queries.build(wanted)


def test_script_without_a_running_query_continues(job):
    job.permit()
    job.runs("daily").over()
    assert not job.queries.has_ended()


def test_failure_that_the_script_handled_is_not_reported(job):
    job.permit()
    job.runs("daily").fails()
    job.queries.finish(None)
    assert job.queries.has_ended()
    assert job.queries.failure() is None


def test_job_ends_with_the_last_query_of_a_script_that_has_ended(job):
    job.permit()
    query = job.runs("daily")
    job.queries.finish(None)
    assert not job.queries.has_ended()
    query.over()
    assert job.queries.has_ended()
    assert job.queries.failure() is None


def test_failure_after_the_end_of_the_script_is_reported(job):
    job.permit()
    query = job.runs("daily")
    job.queries.finish(None)
    query.fails()
    failure = job.queries.failure()
    assert failure is not None
    assert (failure.error_class, failure.query) == ("DIVIDE_BY_ZERO", "daily")


def test_damaged_checkpoint_is_the_cause_when_a_script_waits_for_its_query(job):
    job.permit()
    query = job.runs("daily")
    query.checkpoint = "at/daily"
    job.spark.files = {"at/daily/commits/0": b"v1\n{}"}
    query.fails()
    job.queries.finish(ERROR)
    failure = job.queries.failure()
    assert failure is not None
    assert failure.error_class == "DamagedCheckpointError"
    assert "offsets/0 is missing" in failure.message


def test_failure_of_the_last_batch_is_reported(job, monkeypatch):
    monkeypatch.setattr(script_queries, "end_at_boundary", lambda boundaries, *_: any(b.fails() for b in boundaries))
    job.permit()
    job.runs("daily")
    job.end()
    assert job.queries.failure() is not None


def test_script_that_fails_ends_the_job_and_its_queries(job):
    job.permit()
    query = job.runs("daily")
    assert not job.queries.failed
    job.queries.finish(ERROR)
    assert job.queries.failed
    assert job.queries.has_ended()
    assert job.queries.failure() == ERROR
    job.end()
    assert query.stopped


def test_script_that_ends_and_has_started_nothing_has_failed(job):
    job.permit()
    job.queries.finish(None)
    assert job.queries.has_ended()
    assert job.queries.failure() == NEVER_STARTED


def test_queries_stop_when_the_script_stops_its_session(job):
    job.permit()
    query = job.runs("daily")
    job.queries.stop_queries()
    assert query.stopped
    assert not job.queries.has_ended()


def test_parallelism_is_limited_by_the_partitions_of_the_state(job, monkeypatch):
    assert job.queries.parallelism() == {}
    job.queries.start(plan(4, read=4), plan(4, read=4))
    job.runs("daily")
    assert job.queries.parallelism() == {"read": 4}
    monkeypatch.setattr("airflow_adaptive.job.queries.job_query.JobQuery.state_partitions", 3)
    assert job.queries.parallelism() == {"read": 3}


def test_requests_of_the_driver_loop_concern_the_queries_that_run(job, monkeypatch):
    job.permit()
    for name in ("ended", "daily", "hourly"):
        job.runs(name)
    job.spark.queries[0].over()
    requests: list[tuple[list[str], float]] = []

    def act_between_batches(queries: list[Query], timeout_s: float, _: object, act: Callable[[], None]) -> bool:
        requests.append(([query.name for query in queries], timeout_s))
        act()
        return True

    monkeypatch.setattr(job_query, "act_between_batches", act_between_batches)
    acts: list[str] = []
    assert job.queries.act_between_batches(7.0, lambda _: None, lambda: acts.append("released"))
    assert acts == ["released"]
    assert requests == [(["daily", "hourly"], 7.0)]
