"""The thread of the monitor, with sources that the tests control."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from airflow_adaptive._core.protocol.sources import KafkaSource, Shuffle
from airflow_adaptive.job.queries.sources.kafka_topics import Division
from airflow_adaptive.job.queries.sources.offsets import Offsets, ReadPosition
from airflow_adaptive.job.queries.sources.source_monitor import (
    MAX_POLL_AGE_S,
    MAX_RECORDS,
    Age,
    EndOffsetHistory,
    Lag,
    SourceMonitor,
)
from airflow_adaptive.job.queries.sources.topic_ids import TopicRecreatedError
from airflow_adaptive.local.waiting import wait_until

A = ("a", 0)
KAFKA = KafkaSource(cluster="x")
NAME = "KafkaV2[Subscribe[a]]"
TIMEOUT_S = 60.0


class Source:
    """A source whose polls the test answers."""

    description = NAME
    source = KAFKA

    def __init__(self, ends: int = 0) -> None:
        self.ends = ends
        self.error: Exception | None = None
        self.hangs = threading.Event()
        self.hangs.set()
        self.polls = 0
        self.closed = threading.Event()

    def end_offsets(self) -> Offsets:
        self.polls += 1
        self.hangs.wait(TIMEOUT_S)
        if self.error is not None:
            raise self.error
        return {A: self.ends}

    def division(self) -> Division:
        return Division(min_partitions=5)

    def retention_s(self, topics: Collection[str]) -> dict[str, float]:
        assert list(topics) == ["a"]
        return {"a": 3600.0}

    def close(self) -> None:
        self.closed.set()


class Run:
    """A run with these sources."""

    def __init__(self, sources: dict[int, Source], read: ReadPosition | None = None) -> None:
        self.found = sources
        self.read = read
        self.plan: Shuffle | None = None
        self.error: Exception | None = None
        self.stops = 0
        self.searches = 0
        self.stop_error: Exception | None = None

    def stop(self) -> None:
        self.stops += 1
        if self.stop_error is not None:
            raise self.stop_error

    def sources(self) -> dict[int, Source]:
        self.searches += 1
        if self.error is not None:
            raise self.error
        return self.found

    def position(self) -> ReadPosition | None:
        return self.read

    def shuffle(self) -> Shuffle | None:
        return self.plan


class Monitored:
    """A monitor with a manual clock, and its warnings."""

    def __init__(self, interval_s: float = 0.01) -> None:
        self.now = 1000.0
        self.warnings: list[str] = []
        self.monitor = SourceMonitor(self.warnings.append, clock=lambda: self.now, interval_s=interval_s)

    def begin(self, source: Source, read: ReadPosition | None = None) -> None:
        self.monitor.begin(Run({0: source}, read))

    def lag(self, read: int) -> Lag | None:
        return self.monitor.lag(0, NAME, {A: read})

    def wait_lag(self, read: int) -> None:
        self.wait(lambda: (lag := self.lag(read)) is not None and lag.is_known, "a successful poll")

    def wait_lag_before_first_batch(self) -> None:
        self.wait(lambda: [lag.is_known for lag in self.monitor.before_first_batch()] == [True], "a successful poll")

    def failure(self) -> Exception | None:
        return self.monitor.failure

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        wait_until(condition, TIMEOUT_S, what)


def lag_of(read: int, rows: dict[Any, int], ages: dict[Any, Age]) -> Lag:
    return Lag(
        description=NAME, read={A: read}, rows=rows, ages=ages, kafka=KAFKA, division=Division(min_partitions=5),
        retention_s={"a": 3600.0},
    )  # fmt: skip


def unknown(read: int, kafka: KafkaSource | None = None) -> Lag:
    return Lag(description=NAME, read={A: read}, rows={}, ages={}, kafka=kafka, is_known=False)


@pytest.fixture
def monitored() -> Any:
    found = Monitored()
    yield found
    found.monitor.end()


def test_lag_is_unknown_before_the_first_poll(monitored: Monitored):
    source = Source(ends=4)
    source.hangs.clear()
    monitored.begin(source)
    monitored.wait(lambda: source.polls, "the first poll")
    assert monitored.lag(0) == unknown(0)
    source.hangs.set()
    monitored.wait_lag(0)


def test_lag_grows_without_a_batch(monitored: Monitored):
    source = Source(ends=4)
    monitored.begin(source)
    monitored.wait_lag(4)
    assert monitored.lag(4) == lag_of(4, rows={A: 0}, ages={})
    monitored.now, source.ends = 1010.0, 24
    monitored.wait(lambda: monitored.lag(4) != lag_of(4, rows={A: 0}, ages={}), "a lag")
    monitored.now = 1020.0
    polls = source.polls
    monitored.wait(lambda: source.polls > polls + 1, "another poll")
    assert monitored.lag(4) == lag_of(4, rows={A: 20}, ages={A: Age(seconds=20.0)})


def test_lag_falls_with_a_batch_before_the_next_poll():
    monitored = Monitored(interval_s=TIMEOUT_S)
    monitored.begin(Source(ends=10))
    monitored.wait_lag(4)
    monitored.now = 1007.0
    assert monitored.lag(6) == lag_of(6, rows={A: 4}, ages={A: Age(seconds=7.0, is_minimum=True)})
    monitored.now = 1009.0
    assert monitored.lag(6) == lag_of(6, rows={A: 4}, ages={A: Age(seconds=7.0, is_minimum=True)})
    monitored.monitor.end()


def test_another_source_under_the_same_number_has_no_lag(monitored: Monitored):
    monitored.begin(Source(ends=4))
    monitored.wait_lag(4)
    assert monitored.monitor.lag(0, "KafkaV2[Subscribe[b]]", {A: 4}) is None
    assert monitored.monitor.lag(1, NAME, {A: 4}) is None


def test_new_driver_begins_with_the_position_of_the_last_driver(monitored: Monitored):
    monitored.begin(Source(ends=30), ReadPosition(at=400.0, offsets={0: {A: 10}}, sources=1))
    monitored.wait_lag_before_first_batch()
    (lag,) = monitored.monitor.before_first_batch()
    assert lag == lag_of(10, rows={A: 20}, ages={A: Age(seconds=600.0, is_minimum=True)})
    assert monitored.lag(20) == lag_of(20, rows={A: 10}, ages={A: Age(seconds=300.0, is_minimum=True)})


def test_next_run_keeps_the_history_and_not_the_old_position(monitored: Monitored):
    first = Source(ends=10)
    monitored.begin(first, ReadPosition(at=900.0, offsets={0: {A: 0}}, sources=1))
    monitored.wait_lag_before_first_batch()
    monitored.now = 1100.0
    monitored.begin(Source(ends=10), ReadPosition(at=1050.0, offsets={0: {A: 5}}, sources=1))
    monitored.wait(first.closed.is_set, "the end of the first run")
    monitored.wait_lag_before_first_batch()
    assert monitored.lag(5) == lag_of(5, rows={A: 5}, ages={A: Age(seconds=150.0, is_minimum=True)})


def test_run_with_other_sources_has_no_lag_before_its_first_batch(monitored: Monitored):
    """The reports of a query number its sources, also those that are not polled."""
    monitored.begin(Source(ends=10), ReadPosition(at=900.0, offsets={0: {A: 4}}, sources=2))
    monitored.wait_lag(4)
    assert monitored.monitor.before_first_batch() == []
    assert monitored.lag(4) == lag_of(4, rows={A: 6}, ages={A: Age(seconds=100.0, is_minimum=True)})


def test_run_without_a_checkpoint_has_no_lag_before_its_first_batch(monitored: Monitored):
    monitored.begin(Source(ends=10))
    monitored.wait_lag(0)
    assert monitored.monitor.before_first_batch() == []


def test_shuffle_is_known_after_the_first_batch_of_a_run(monitored: Monitored):
    source = Source(ends=10)
    run = Run({0: source})
    monitored.monitor.begin(run)
    monitored.wait(lambda: source.polls > 1, "a poll before the first batch")
    found = [monitored.monitor.shuffle]
    run.plan = Shuffle.EXCHANGE
    monitored.wait(lambda: monitored.monitor.shuffle, "the shuffle")
    found.append(monitored.monitor.shuffle)
    monitored.begin(source)
    assert [*found, monitored.monitor.shuffle] == [None, Shuffle.EXCHANGE, None]


def test_failing_polls_are_reported_once_and_retried(monitored: Monitored):
    source = Source(ends=10)
    source.error = Py4JError("org.apache.kafka.common.errors.TimeoutException: password=hunter22\n\tat Frame")
    monitored.begin(source)
    monitored.wait(lambda: source.polls > 2, "polls")
    assert len(monitored.warnings) == 1
    assert "cannot be read, will retry" in monitored.warnings[0]
    assert "hunter22" not in monitored.warnings[0]
    assert "Frame" not in monitored.warnings[0]
    problems = [monitored.monitor.problem]
    source.error = None
    monitored.wait_lag(4)
    problems.append(monitored.monitor.problem)
    assert problems == [f"{NAME}: org.apache.kafka.common.errors.TimeoutException: password=***", None]
    polls, source.error = source.polls, Py4JError("again")
    monitored.wait(lambda: source.polls > polls + 1, "failing polls")
    monitored.wait(lambda: len(monitored.warnings) == 2, "another warning")


def test_lag_is_unknown_while_polls_fail_or_hang_for_longer_than_30_s(monitored: Monitored):
    source = Source(ends=10)
    monitored.begin(source)
    monitored.wait_lag(4)
    source.error = Py4JError("the brokers do not answer")
    monitored.wait(lambda: monitored.warnings, "a failing poll")
    monitored.now += MAX_POLL_AGE_S
    lag = monitored.lag(10)
    assert lag is not None
    assert lag.rows == {A: 0}
    monitored.now += 1
    assert monitored.lag(10) == unknown(10, KAFKA)
    source.error = None
    monitored.wait_lag(10)


def test_lag_before_the_first_batch_is_unknown_while_polls_fail(monitored: Monitored):
    source = Source(ends=10)
    monitored.begin(source, ReadPosition(at=900.0, offsets={0: {A: 4}}, sources=1))
    monitored.wait_lag_before_first_batch()
    source.error = Py4JError("the brokers do not answer")
    monitored.wait(lambda: monitored.warnings, "a failing poll")
    monitored.now += MAX_POLL_AGE_S + 1
    assert monitored.monitor.before_first_batch() == [unknown(4, KAFKA)]


@pytest.mark.parametrize(
    "error", [Py4JError("no answer"), AttributeError("'NoneType' object has no attribute 'value'")]
)
def test_no_error_ends_the_polls(monitored: Monitored, error: Exception):
    source = Source(ends=10)
    source.error = error
    monitored.begin(source)
    monitored.wait(lambda: source.polls > 1, "failing polls")
    source.error = TopicRecreatedError("topic 'a' was deleted and created again")
    monitored.wait(monitored.failure, "the end of the run")


def test_position_that_cannot_be_read_does_not_end_the_polls(monitored: Monitored):
    class Unreadable(Run):
        def position(self) -> ReadPosition | None:
            raise Py4JError("the storage does not answer")

    monitored.monitor.begin(Unreadable({0: Source(ends=10)}))
    monitored.wait_lag(4)
    assert "the position in the checkpoint cannot be read" in monitored.warnings[0]


def test_poll_that_hangs_blocks_neither_the_driver_loop_nor_the_next_run(monitored: Monitored):
    hanging, source = Source(ends=99), Source(ends=6)
    hanging.hangs.clear()
    monitored.begin(hanging)
    monitored.wait(lambda: hanging.polls, "the poll that hangs")
    monitored.monitor.end()
    monitored.begin(source)
    monitored.wait_lag(4)
    hanging.hangs.set()
    monitored.wait(hanging.closed.is_set, "the end of the first run")
    lag = monitored.lag(4)
    assert lag is not None
    assert lag.rows == {A: 2}


def test_sources_that_cannot_be_found_are_reported_once_and_searched_again(monitored: Monitored):
    run = Run({0: Source(ends=10)})
    run.error = Py4JError("Method analyzedPlan([]) does not exist")
    monitored.monitor.begin(run)
    monitored.wait(lambda: run.searches > 2, "searches")
    (warning,) = monitored.warnings
    assert "the sources cannot be polled, will retry" in warning
    assert monitored.lag(4) == unknown(4)
    run.error = None
    monitored.wait_lag(4)


def test_sources_of_another_run_are_unknown_until_they_were_found(monitored: Monitored):
    """The next run reads another topic, and only one of its sources can be polled."""
    monitored.begin(Source(ends=4))
    monitored.wait_lag(4)
    run = Run({0: Source(ends=9)})
    run.error = Py4JError("Method analyzedPlan([]) does not exist")
    monitored.monitor.begin(run)
    other = "KafkaV2[Subscribe[b]]"
    assert monitored.monitor.lag(0, other, {A: 4}) == replace(unknown(4), description=other)
    assert monitored.monitor.lag(1, NAME, {A: 4}) == unknown(4)
    run.error = None
    monitored.wait(lambda: monitored.monitor.lag(1, NAME, {A: 4}) is None, "the search")


def test_lag_is_unknown_after_the_clock_was_set_back_until_a_poll_succeeds(monitored: Monitored):
    source = Source(ends=10)
    monitored.begin(source)
    monitored.wait_lag(4)
    source.error = Py4JError("the brokers do not answer")
    monitored.wait(lambda: monitored.warnings, "a failing poll")
    monitored.now -= 3600
    assert monitored.lag(4) == unknown(4, KAFKA)
    source.error = None
    monitored.wait_lag(4)


def test_failure_to_close_is_reported(monitored: Monitored):
    source = Source()

    def close() -> None:
        source.closed.set()
        raise Py4JError("closed before")

    source.close = close  # type: ignore[method-assign]
    monitored.begin(source)
    monitored.wait(lambda: source.polls, "a poll")
    monitored.monitor.end()
    monitored.wait(lambda: monitored.warnings, "the warning")
    assert source.closed.is_set()
    assert "cannot be closed" in monitored.warnings[0]


def test_run_on_a_topic_that_was_created_again_is_stopped(monitored: Monitored):
    source, error = Source(ends=4), TopicRecreatedError("topic 'a' was deleted and created again")
    run = Run({0: source})
    monitored.monitor.begin(run)
    monitored.wait_lag(0)
    assert monitored.failure() is None
    source.error, run.stop_error = error, Py4JError("not in time")
    monitored.wait(source.closed.is_set, "the end of the polls")
    assert (monitored.failure(), run.stops) == (error, 1)
    assert monitored.warnings == ["the query has not stopped yet: not in time"]
    monitored.begin(Source())
    assert monitored.failure() is None


def test_monitor_leaves_a_run_alone_that_has_ended(monitored: Monitored):
    source = Source()
    source.error = TopicRecreatedError("topic 'a' was deleted and created again")
    source.hangs.clear()
    run = Run({0: source})
    monitored.monitor.begin(run)
    monitored.wait(lambda: source.polls, "the first poll")
    monitored.monitor.end()
    source.hangs.set()
    monitored.wait(source.closed.is_set, "the end of the polls")
    assert (monitored.failure(), run.stops) == (None, 0)


A, B = ("a", 0), ("a", 1)


def history(*records: tuple[float, int]) -> EndOffsetHistory:
    recorded = EndOffsetHistory()
    for at, end in records:
        recorded.record(at, {A: end})
    return recorded


def test_the_arrival_of_a_row_is_interpolated_between_two_records():
    recorded = history((100.0, 10), (110.0, 30))
    assert recorded.ages({A: 10}, 120.0) == {A: Age(seconds=20.0)}
    assert recorded.ages({A: 15}, 120.0) == {A: Age(seconds=17.5)}
    assert recorded.ages({A: 29}, 120.0) == {A: Age(seconds=10.5)}


def test_row_behind_the_position_of_an_earlier_driver_has_the_age_of_its_batch():
    """The batch may have left the row unread, because it had the largest number of rows. A row of a later record arrived after the batch."""
    recorded = EndOffsetHistory()
    recorded.restore(100.0, {A: 10})
    recorded.record(110.0, {A: 20})
    recorded.record(120.0, {A: 30})
    assert recorded.ages({A: 10}, 130.0) == {A: Age(seconds=30.0, is_minimum=True)}
    assert recorded.ages({A: 19}, 130.0) == {A: Age(seconds=21.0, is_minimum=True)}
    assert recorded.ages({A: 20}, 130.0) == {A: Age(seconds=20.0)}


def test_a_new_partition_is_read_from_its_first_row():
    recorded = history((100.0, 10))
    recorded.record(110.0, {A: 10, B: 4})
    assert recorded.ages({A: 10}, 115.0) == {B: Age(seconds=5.0, is_minimum=True)}


def test_a_partition_that_was_created_again_loses_its_records():
    recorded = history((100.0, 50), (110.0, 3), (120.0, 5))
    assert recorded.ages({A: 3}, 130.0) == {A: Age(seconds=20.0)}
    assert recorded.ends == {A: 5}


def test_a_deleted_partition_is_forgotten():
    recorded = history((100.0, 50))
    recorded.record(110.0, {B: 1})
    assert recorded.ends == {B: 1}
    assert recorded.ages({}, 110.0).keys() == {B}


def test_records_of_read_rows_are_forgotten():
    recorded = history((100.0, 10), (110.0, 20), (120.0, 30))
    recorded.forget({A: 20})
    assert recorded.ages({A: 20}, 130.0) == {A: Age(seconds=20.0)}
    assert recorded.ages({A: 10}, 130.0) == {A: Age(seconds=20.0, is_minimum=True)}


def test_clock_that_was_set_back_leaves_rows_as_old_as_the_first_record():
    recorded = history((1000.0, 10), (1010.0, 20), (110.0, 30))
    assert recorded.ages({A: 15}, 120.0) == {A: Age(seconds=10.0, is_minimum=True)}


def test_a_clock_that_was_set_back_leads_to_no_negative_age():
    assert history((100.0, 10)).ages({A: 5}, 90.0) == {A: Age(seconds=0.0, is_minimum=True)}


def test_a_long_history_keeps_its_first_record_and_stays_bounded():
    recorded = history(*((float(at), at) for at in range(10 * MAX_RECORDS)))
    assert recorded.ages({A: 0}, 10.0 * MAX_RECORDS) == {A: Age(seconds=10.0 * MAX_RECORDS)}
    assert len(recorded._records[A]) <= MAX_RECORDS


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 100)), min_size=1, max_size=30),
    st.integers(0, 3000),
)
def test_the_age_lies_between_the_records_around_the_row(steps: list[tuple[int, int]], row: int):
    at, end, recorded, records = 0, 0, EndOffsetHistory(), []
    for passed, rows in steps:
        at, end = at + passed, end + rows
        recorded.record(float(at), {A: end})
        records.append((at, end))
    found = recorded.ages({A: row}, float(at)).get(A)
    if end <= row:
        assert found is None
        return
    assert found is not None
    oldest = max((t for t, e in records if e <= row), default=records[0][0])
    newest = min(t for t, e in records if e > row)
    assert at - max(newest, oldest) - 1e-9 <= found.seconds <= at - oldest + 1e-9
    assert found.is_minimum == (records[0][1] > row)
