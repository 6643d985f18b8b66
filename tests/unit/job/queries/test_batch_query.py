"""The batch of a job: it runs once, in a thread of its own, and a stop interrupts it. The test controls the writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrameWriter

from airflow_adaptive.job.control.interfaces import BatchStillRunsError
from airflow_adaptive.job.queries.batch_query import BatchQuery
from tests.support.driver.simulated_driver import plan

TIMEOUT_S = 60.0


class Spark:
    """A session and its context as far as a batch uses them."""

    def __init__(self) -> None:
        self.sparkContext = self
        self._jsc = self
        self.groups: list[str] = []
        self.cancelled: list[str] = []
        self.stopped = False
        self.cancels = True
        self.lets_go = threading.Event()

    def sc(self) -> Spark:
        return self

    def isStopped(self) -> bool:
        return self.stopped

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        assert interruptOnCancel
        self.groups.append(group)

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:
        if self.cancels:
            self.cancelled.append(group)
            self.lets_go.set()


class Writer(DataFrameWriter):
    """Saves until the test, or a cancellation, lets it go."""

    def __init__(self, spark: Spark, *, fails: bool = False) -> None:
        self._spark_context = spark
        self.fails = fails
        self.saved = 0

    def save(self, *_: Any, **__: Any) -> None:
        assert self._spark_context.lets_go.wait(TIMEOUT_S)
        if self.fails or self._spark_context.cancelled:
            raise OSError("disk full")
        self.saved += 1


@pytest.fixture
def spark() -> Iterator[Spark]:
    spark = Spark()
    yield spark
    spark.lets_go.set()


@pytest.fixture
def batch(spark: Any) -> BatchQuery:
    return BatchQuery(spark, job="flights")


def let_go(spark: Spark, batch: BatchQuery) -> None:
    """The writer goes on to its end."""
    spark.lets_go.set()
    assert batch._thread is not None
    batch._thread.join(TIMEOUT_S)


def no_time_passes(_: float) -> None:
    """A pause in which nothing happens."""


def test_batch_that_was_never_started_has_no_plan_and_no_report(batch: BatchQuery) -> None:
    assert batch.plan is None
    assert not batch.has_ended()
    assert not batch.can_adopt(plan(1))
    assert batch.reports() == ()
    assert batch.end(1, no_time_passes)
    batch.halt()


def test_batch_runs_in_its_own_thread_and_ends(spark: Spark, batch: BatchQuery) -> None:
    writer = Writer(spark)
    batch.start(writer, plan(1, read=2))
    assert not batch.has_ended()
    assert batch.wait_for_first_trigger(0)
    assert batch.parallelism() == {"read": 2}
    assert [(report.name, report.active, report.committed) for report in batch.reports()] == [("flights", True, 0)]
    let_go(spark, batch)
    assert batch.has_ended()
    assert batch.failure() is None
    assert not batch.reports()[0].active
    batch.close()
    assert batch.plan is None
    assert not batch.has_ended()
    assert writer.saved == 1


def test_batch_is_not_restarted_for_another_plan(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark), plan(1))
    assert batch.can_adopt(plan(3))


def test_batch_releases_executors_immediately_and_keeps_its_parallelism(spark: Spark, batch: BatchQuery) -> None:
    acts: list[str] = []
    batch.start(Writer(spark), plan(1, read=2))
    assert batch.act_between_batches(0.0, no_time_passes, lambda: acts.append("released"))
    batch.adopt(plan(3, read=6))
    assert acts == ["released"]
    assert batch.parallelism() == {"read": 2}


def test_failed_batch_reports_its_failure(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark, fails=True), plan(1))
    let_go(spark, batch)
    assert batch.has_ended()
    failure = batch.failure()
    assert failure is not None
    assert (failure.error_class, failure.query) == ("OSError", "flights")


def test_error_of_an_earlier_run_is_gone_after_a_run_that_was_saved(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark, fails=True), plan(1))
    let_go(spark, batch)
    assert batch.failure() is not None
    batch.start(Writer(spark), plan(1))
    let_go(spark, batch)
    assert (batch.failure(), batch.has_ended()) == (None, True)


def test_batch_that_is_ended_is_interrupted_and_has_not_failed(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark), plan(1))
    assert batch.end(TIMEOUT_S, lambda _: let_go(spark, batch))
    assert spark.cancelled == spark.groups
    assert batch.plan is None
    assert not batch.has_ended()
    assert batch.failure() is None


def test_batch_that_was_saved_before_the_end_request_has_ended(spark: Spark, batch: BatchQuery) -> None:
    writer = Writer(spark)
    batch.start(writer, plan(1))
    let_go(spark, batch)
    assert batch.end(TIMEOUT_S, no_time_passes)
    assert batch.has_ended()
    assert (writer.saved, spark.cancelled) == (1, [])


def test_batch_that_failed_before_the_end_request_reports_its_failure(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark, fails=True), plan(1))
    let_go(spark, batch)
    assert batch.end(TIMEOUT_S, no_time_passes)
    assert not batch.has_ended()
    assert batch.failure() is not None


def test_batch_that_cannot_be_interrupted_neither_ends_nor_runs_again(spark: Spark, batch: BatchQuery) -> None:
    spark.cancels = False
    batch.start(Writer(spark), plan(1))
    assert not batch.end(0.0, no_time_passes)
    assert batch.plan is not None
    assert not batch.can_adopt(plan(1))
    with pytest.raises(
        BatchStillRunsError, match="'flights' was interrupted and has not ended: the driver is replaced"
    ):
        batch.start(Writer(spark), plan(1))
    let_go(spark, batch)
    assert batch.has_ended(), "it was saved after all"


def test_each_run_has_a_job_group_of_its_own(spark: Spark, batch: BatchQuery) -> None:
    for _ in range(2):
        spark.lets_go.clear()
        batch.start(Writer(spark), plan(1))
        batch.end(TIMEOUT_S, lambda _: let_go(spark, batch))
    assert len(set(spark.groups)) == 2


def test_halted_batch_has_ended(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark), plan(1))
    batch.halt()
    assert batch.plan is None
    assert batch._thread is not None
    assert not batch._thread.is_alive()


def test_batch_of_a_stopped_context_is_not_canceled(spark: Spark, batch: BatchQuery) -> None:
    batch.start(Writer(spark), plan(1))
    spark.stopped = True
    batch.end(0.0, no_time_passes)
    assert spark.cancelled == []
