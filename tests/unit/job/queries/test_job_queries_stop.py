"""Queries that have to stop immediately, and one that does not stop within Spark's timeout."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive.job.control.interfaces import QueryStillRunsError
from tests.support.driver.fake_spark import Query, Stream
from tests.unit.job.queries.test_job_queries import Job, plan


@pytest.fixture
def running() -> Job:
    job = Job("a", "b")
    job.start(plan())
    return job


@pytest.fixture
def stops_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of no query ends in time."""

    def fail(_: Query) -> None:
        raise Py4JError("TimeoutException")

    monkeypatch.setattr(Query, "stop", fail)


def test_halt_also_stops_queries_that_the_script_started(running: Job) -> None:
    Query(running.spark, "mine")
    assert running.queries.halt()
    assert running.spark.active == []
    assert running.queries.plan is None


def test_halt_cancels_all_jobs_and_stops_the_other_queries_when_one_does_not_stop(
    running: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is fenced, and the thread of the first query does not end in time, so that its stop fails."""
    first, second = running.runs

    def fail() -> None:
        raise Py4JError("TimeoutException")

    monkeypatch.setattr(first._jsq, "stop", fail)
    assert not running.queries.halt()
    assert running.spark.cancellations == 1
    assert (first.stopped, second.stopped) == (False, True)
    assert running.queries.plan is None


@pytest.mark.usefixtures("stops_fail")
def test_start_that_fails_while_another_query_does_not_stop_is_an_error_of_the_driver() -> None:
    """The second query of a job cannot be started, and the first one does not stop: it must not run without a lease."""
    job = Job("a", "b")
    job.returns = lambda _: [Stream("a", job.spark), Stream("b", error=ValueError("no sink"))]
    with pytest.raises(QueryStillRunsError, match="'a'") as raised:
        job.start(plan())
    assert isinstance(raised.value.__cause__, ValueError)
