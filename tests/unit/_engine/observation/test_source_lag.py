"""The lag while a driver reports it, and the rows that the loop counts at the brokers while none does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive._core.protocol.sources import KafkaSource, SourceReport
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.observation.known_lag import MAX_AGE, Expiry
from airflow_adaptive._engine.observation.source_lag import MAX_STATUS_AGE, SourceLag, SourceLagMonitor
from tests.support.runtime.running_alerts import RunningAlerts
from tests.support.runtime.source_statuses import NOW, Brokers, after, lag_after_poll, source, status, unknown

pytestmark = pytest.mark.asyncio


async def test_lag_is_the_one_that_the_driver_reports() -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[9]))
    running = status(source(3, 4.5, a=[6]), source(1, 61.0, a=[8]))
    assert await lag_after_poll(monitor, running, running, NOW) == SourceLag(rows=4, seconds=61.0)
    assert monitor.lag == SourceLag(rows=4, seconds=61.0)
    assert brokers.requests == []


async def test_rows_that_arrive_without_a_driver_are_counted_and_age() -> None:
    """The driver had read all rows when it ended. Rows arrive in a known partition and in a new one."""
    monitor = SourceLagMonitor(brokers := Brokers(a=[6, 2], b=[0]))
    last = status(source(0, 0.0, a=[6, 2], b=[0]), source(0, 0.0, a=[6, 2]))
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, None, last, after(10)) == SourceLag(rows=0, seconds=0.0)
    brokers.ends = {"a": [8, 2, 3], "b": [1]}
    assert await lag_after_poll(monitor, None, last, after(20)) == SourceLag(rows=11, seconds=10.0)
    assert await lag_after_poll(monitor, None, last, after(25)) == SourceLag(rows=11, seconds=15.0)
    assert brokers.requests == [frozenset({"a", "b"}), frozenset({"a"})] * 2


async def test_a_loop_that_takes_over_begins_with_the_last_report() -> None:
    monitor = SourceLagMonitor(Brokers(a=[10]))
    last = status(source(4, 30.0, a=[6]), at=after(-600))
    assert await lag_after_poll(monitor, None, last, NOW) == SourceLag(rows=4, seconds=630.0)


async def test_a_report_from_a_clock_that_is_ahead_is_not_from_the_future() -> None:
    last = status(source(4, 30.0, a=[6]), at=after(600))
    assert SourceLagMonitor(None).update(None, last, NOW) == SourceLag(rows=4, seconds=30.0)


async def test_a_report_without_a_valid_time_is_new() -> None:
    last = status(source(4, 30.0, a=[6]))
    object.__setattr__(last, "at", "yesterday")
    assert SourceLagMonitor(None).update(None, last, NOW) == SourceLag(rows=4, seconds=30.0)


async def test_without_a_connection_the_lag_is_unknown_after_a_minute() -> None:
    monitor = SourceLagMonitor(None)
    last = status(source(4, 30.0, a=[6]))
    monitor.update(last, last, NOW)
    assert monitor.update(None, last, NOW + MAX_AGE) == SourceLag(rows=4, seconds=90.0)
    assert monitor.update(None, last, NOW + MAX_AGE + timedelta(seconds=1)) == SourceLag(unknown_since=NOW)


async def test_a_job_whose_lag_was_never_known_reports_nothing() -> None:
    monitor, files = SourceLagMonitor(Brokers()), status(SourceReport(kind="FileStreamSource"))
    nothing = SourceLag(is_expiry_known=False)
    assert await lag_after_poll(monitor, files, files, NOW) == nothing
    assert await lag_after_poll(monitor, None, files, NOW + 2 * MAX_AGE) == nothing


async def test_a_driver_that_reports_nothing_new_does_not_hide_the_lag() -> None:
    """The driver is frozen. Its last status remains the report of the current driver."""
    monitor = SourceLagMonitor(brokers := Brokers(a=[50]))
    frozen = status(source(0, 0.0, a=[6]))
    monitor.update(frozen, frozen, NOW)
    assert await lag_after_poll(monitor, frozen, frozen, after(29)) == SourceLag(rows=0, seconds=0.0)
    assert brokers.requests == []
    assert (await lag_after_poll(monitor, frozen, frozen, NOW + MAX_STATUS_AGE)).rows == 44


async def test_brokers_that_hang_or_fail_do_not_delay_the_loop_and_are_polled_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[10]))
    last = status(source(4, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    brokers.answers.clear()
    for seconds in range(10, 70, 10):
        await lag_after_poll(monitor, None, last, after(seconds))
    assert len(brokers.requests) == 1
    assert await lag_after_poll(monitor, None, last, after(61)) == SourceLag(unknown_since=NOW)
    brokers.answers.set()
    brokers.error = "timed out"
    with caplog.at_level(logging.WARNING):
        for seconds in range(70, 100, 10):
            assert (await lag_after_poll(monitor, None, last, after(seconds))).unknown_since == NOW
    assert caplog.messages == ["The lag of the job is unknown while no driver runs: timed out"]
    brokers.error = None
    assert await lag_after_poll(monitor, None, last, after(100)) == SourceLag(rows=4, seconds=100.0)


async def test_the_next_driver_ends_the_polls() -> None:
    """A poll is in progress when the next driver reports its first lag."""
    monitor = SourceLagMonitor(brokers := Brokers(a=[10]))
    last, following = status(source(4, 0.0, a=[6])), status(source(0, 0.0, a=[10]), nonce="next")
    monitor.update(last, last, NOW)
    brokers.answers.clear()
    await lag_after_poll(monitor, None, last, after(10))
    assert await lag_after_poll(monitor, following, following, after(12)) == SourceLag(rows=0, seconds=0.0)
    brokers.answers.set()
    assert await lag_after_poll(monitor, following, following, after(13)) == SourceLag(rows=0, seconds=0.0)


async def test_a_driver_that_starts_does_not_hide_the_lag() -> None:
    monitor, starting = SourceLagMonitor(Brokers(a=[10])), status(nonce="next")
    last = status(source(4, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, starting, starting, after(20)) == SourceLag(rows=4, seconds=20.0)


async def test_driver_that_cannot_poll_one_of_its_sources_has_no_lag() -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[10], b=[10]))
    first = status(source(4, 0.0, a=[6]), source(4, 0.0, b=[6]))
    monitor.update(first, first, NOW)
    failing = status(unknown(a=[9]), source(0, 0.0, b=[10]), sequence=2)
    await lag_after_poll(monitor, failing, failing, after(50))
    assert monitor.update(failing, failing, after(61)).unknown_since == NOW
    assert monitor.update(None, failing, after(80)).unknown_since == NOW
    assert brokers.requests == []
    polled = status(source(1, 3.0, a=[9]), source(0, 0.0, b=[10]), sequence=3)
    assert monitor.update(polled, polled, after(90)) == SourceLag(rows=1, seconds=3.0)


async def test_polls_of_the_loop_replace_those_of_a_driver_that_reads_nothing() -> None:
    """A driver starts during an outage of the brokers, or cannot read their answers, and its queries stand still."""
    monitor = SourceLagMonitor(Brokers(a=[10]))
    last, failing = status(source(4, 0.0, a=[6])), status(unknown(a=[6]), nonce="next")
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, failing, failing, after(70)) == SourceLag(rows=4, seconds=70.0)


async def test_rows_that_a_driver_has_read_without_polls_do_not_expire() -> None:
    monitor = SourceLagMonitor(None)
    last = status(source(4, 100.0, retention_s=600.0, a=[6]))
    assert monitor.update(last, last, NOW).expiry is not None
    failing = status(unknown(a=[9]), sequence=2)
    assert monitor.update(failing, failing, after(300)) == SourceLag(unknown_since=NOW, is_expiry_known=False)


@pytest.mark.parametrize("others", [(), (SourceReport(kind="FileStreamSource", lag_s=5.0),)])
async def test_alert_about_rows_that_expire_remains_until_a_driver_has_polled_its_sources(
    others: tuple[SourceReport, ...],
) -> None:
    """The checkpoint of a driver that starts is one batch ahead of the newest status, and the first poll takes a while."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(None)
    last = status(source(4, 590.0, retention_s=600.0, a=[6]), *others)
    (raised,) = alerts.update(monitor.update(last, last, NOW), NOW)
    starting = status(unknown(a=[7]), *others, nonce="next")
    assert alerts.update(monitor.update(starting, starting, after(5)), after(5)) == []
    polled = status(source(3, 595.0, retention_s=600.0, a=[7]), *others, nonce="next", sequence=2)
    assert alerts.update(monitor.update(polled, polled, after(10)), after(10)) == []
    recovered = status(source(0, 0.0, retention_s=600.0, a=[10]), *others, nonce="next", sequence=3)
    (ended,) = alerts.update(monitor.update(recovered, recovered, after(15)), after(15))
    assert (raised.code, ended.code) == (ReasonCode.LAG_EXCEEDED, ReasonCode.LAG_RECOVERED)


@pytest.mark.parametrize(
    "reported",
    [
        (SourceReport(kind="KafkaV2", lag_rows=0),),
        (unknown(a=[10]), unknown(a=[10])),
        (SourceReport(kind="RateStreamV2"),),
    ],
    ids=["before the search for sources", "one of two queries has moved", "other source"],
)
async def test_loop_counts_no_rows_behind_a_position_that_a_driver_may_have_left(
    reported: tuple[SourceReport, ...],
) -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[10]))
    last = status(source(0, 0.0, a=[10]), source(4, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    running = status(*reported, nonce="next")
    assert await lag_after_poll(monitor, running, running, after(70)) == SourceLag(
        unknown_since=NOW, is_expiry_known=False
    )
    assert brokers.requests == []


@pytest.mark.parametrize(
    ("ends", "read"),
    [([3, 9], 8), ([5], 8), ([5], 0)],
    ids=["fewer rows", "no partition", "no partition, of which nothing was read"],
)
async def test_rows_behind_a_position_that_the_brokers_do_not_have_are_not_counted(ends: list[int], read: int) -> None:
    """The topic was deleted and created again while no driver ran."""
    monitor, alerts = SourceLagMonitor(brokers := Brokers(a=ends)), RunningAlerts(timedelta(minutes=1))
    last = status(source(10, 500.0, retention_s=900.0, a=[5, read]))
    assert len(alerts.update(monitor.update(last, last, NOW), NOW)) == 2
    for seconds in (10, 20, 70):
        lag = await lag_after_poll(monitor, None, last, after(seconds))
        brokers.ends = {"a": [90, 90]}
        assert alerts.update(lag, after(seconds)) == []
    assert monitor.lag.unknown_since == NOW
    assert len(brokers.requests) == 1


async def test_loop_that_takes_over_knows_the_age_of_an_old_status() -> None:
    """The triggerer was down for 50 minutes, and the driver has not reported since."""
    monitor, old = SourceLagMonitor(Brokers(a=[10])), status(source(4, 5.0, a=[6]), at=after(-3000))
    assert await lag_after_poll(monitor, old, old, NOW) == SourceLag(rows=4, seconds=3005.0)
    new = status(source(4, 6.0, a=[7]), sequence=2, at=after(-3000))
    assert monitor.update(new, new, NOW) == SourceLag(rows=4, seconds=6.0)


async def test_lag_of_sources_that_the_loop_cannot_count_is_unknown_without_a_driver() -> None:
    monitor, files = SourceLagMonitor(brokers := Brokers(a=[10])), SourceReport(kind="FileStreamSource", lag_s=500.0)
    last = status(source(4, 0.0, a=[6]), files)
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, None, last, after(30)) == SourceLag(seconds=530.0)
    assert await lag_after_poll(monitor, None, last, after(61)) == SourceLag(unknown_since=NOW)
    assert brokers.requests == []


async def test_lag_is_unknown_while_one_of_the_sources_does_not_know_its_backlog() -> None:
    """A batch reads the last listed files for long, and the topic falls behind meanwhile. Most such batches end within a minute."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(timedelta(minutes=2))
    files = SourceReport(kind="FileStreamSource", lag_s=20.0, unread_files=2)
    unlisted = SourceReport(kind="FileStreamSource")
    found = {}
    for sequence, source_of_files in enumerate((files, unlisted, unlisted, unlisted, files)):
        at = after(sequence * 50)
        current = status(source(4, 50.0 * sequence, a=[6]), source_of_files, sequence=sequence, at=at)
        found[sequence] = monitor.update(current, current, at)
        assert len(alerts.update(found[sequence], at)) == (sequence == 3)
    assert [found[it].seconds for it in range(5)] == [20.0, 70.0, 120.0, None, 200.0]
    assert found[3] == SourceLag(least_s=150.0, unknown_since=after(50), is_minimum=True)


async def test_source_that_never_knows_its_backlog_hides_the_lag_but_a_generator_does_not() -> None:
    polled = source(4, 150.0, a=[6])
    custom = status(polled, SourceReport(kind="MyStream"))
    monitor = SourceLagMonitor(Brokers(a=[10]))
    hidden = SourceLag(least_s=150.0, unknown_since=NOW)
    assert monitor.update(custom, custom, NOW) == hidden
    assert await lag_after_poll(monitor, None, custom, after(50)) == replace(hidden, least_s=200.0)
    alerts = RunningAlerts(timedelta(seconds=180))
    assert [len(alerts.update(replace(hidden, least_s=age), NOW)) for age in (100.0, 200.0, 300.0, 10.0)] == [
        0,
        1,
        0,
        1,
    ]
    generated = status(polled, SourceReport(kind="RateStreamV2"))
    assert SourceLagMonitor(None).update(generated, generated, NOW) == SourceLag(rows=4, seconds=150.0)


async def test_the_first_row_that_the_brokers_delete_is_known() -> None:
    sources = (source(2, 10.0, retention_s=600.0, a=[6]), source(1, 61.0, retention_s=7200.0, b=[8]))
    running = status(*sources, source(0, 0.0, retention_s=60.0, c=[1]), source(3, 90.0, d=[1]))
    lag = SourceLagMonitor(None).update(running, running, NOW)
    assert lag.expiry == Expiry(after(590), timedelta(minutes=10))
    assert SourceLagMonitor(None).update(None, running, after(120)).expiry == Expiry(after(590), timedelta(minutes=10))


async def test_rows_that_arrive_without_a_driver_expire() -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[6]))
    last = status(source(0, 0.0, retention_s=600.0, a=[6]))
    assert monitor.update(last, last, NOW).expiry is None
    brokers.ends = {"a": [8]}
    expiry = Expiry(after(600), timedelta(minutes=10))
    assert (await lag_after_poll(monitor, None, last, after(10))).expiry == expiry
    assert (await lag_after_poll(monitor, None, last, after(20))).expiry == expiry


async def test_rows_that_were_read_do_not_expire() -> None:
    monitor = SourceLagMonitor(Brokers(a=[6]))
    last = status(source(2, 5.0, retention_s=600.0, a=[6]))
    assert monitor.update(last, last, NOW).expiry == Expiry(after(595), timedelta(minutes=10))
    assert (await lag_after_poll(monitor, None, last, after(10))).expiry is None


async def test_expiry_that_the_driver_reported_stays_without_a_driver() -> None:
    """The oldest unread row is in a topic without a retention."""
    monitor = SourceLagMonitor(Brokers(a=[8], b=[1]))
    last = status(source(2, 5.0, retention_s=600.0, a=[6]), source(1, 100.0, b=[0]))
    monitor.update(last, last, NOW)
    lag = await lag_after_poll(monitor, None, last, after(10))
    assert (lag.rows, lag.expiry) == (3, Expiry(after(595), timedelta(minutes=10)))


async def test_brokers_that_fail_are_polled_at_the_interval_and_each_outage_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[6]))
    last = status(source(0, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    with caplog.at_level(logging.WARNING):
        for seconds, error in ((10, "down"), (11, "down"), (20, "down"), (30, None), (40, "down")):
            brokers.error = error
            await lag_after_poll(monitor, None, last, after(seconds))
    assert len(brokers.requests) == 4
    assert caplog.messages == ["The lag of the job is unknown while no driver runs: down"] * 2


async def test_retention_of_one_topic_does_not_expire_rows_of_another_topic_of_the_source() -> None:
    monitor, alerts = SourceLagMonitor(brokers := Brokers(a=[6], b=[1])), RunningAlerts(None)
    both = source(0, 0.0, retention_s=604_800.0, a=[6], b=[1])
    last = status(replace(both, topics={**both.topics, "b": replace(both.topics["b"], retention_s=60.0)}))
    monitor.update(last, last, NOW)
    brokers.ends = {"a": [905], "b": [1]}
    lag = await lag_after_poll(monitor, None, last, after(10))
    assert (lag.rows, lag.expiry) == (899, Expiry(after(604_800), timedelta(days=7)))
    assert alerts.update(await lag_after_poll(monitor, None, last, after(50)), after(50)) == []
    brokers.ends = {"a": [905], "b": [2]}
    lag = await lag_after_poll(monitor, None, last, after(60))
    assert (lag.rows, lag.expiry) == (900, Expiry(after(110), timedelta(minutes=1)))


async def test_only_assigned_partitions_are_counted_without_a_driver() -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[6, 2, 1000]))
    last = status(replace(source(0, 0.0, a=[6, 2]), kafka=KafkaSource(cluster="x", assigned=True)))
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, None, last, after(10)) == SourceLag(rows=0, seconds=0.0)
    brokers.ends = {"a": [6, 9, 2000]}
    assert (await lag_after_poll(monitor, None, last, after(20))).rows == 7


async def test_new_topic_of_a_pattern_is_counted_without_a_driver() -> None:
    """Its retention is unknown, so that the loop does not know when its rows expire."""
    monitor = SourceLagMonitor(brokers := Brokers(a=[6]))
    last = status(replace(source(0, 0.0, retention_s=60.0, a=[6]), kafka=KafkaSource(cluster="x", pattern="[ab]")))
    monitor.update(last, last, NOW)
    brokers.ends = {"a": [6], "b": [1500, 1500]}
    lag = await lag_after_poll(monitor, None, last, after(10))
    assert lag == SourceLag(rows=3000, seconds=10.0, is_expiry_known=False)
    lag = await lag_after_poll(monitor, None, last, after(20))
    assert lag == SourceLag(rows=3000, seconds=20.0, is_expiry_known=False)
    assert brokers.requests == [frozenset({"a"}), frozenset({"a", "b"})]


async def test_topics_of_one_name_on_two_clusters_are_counted_on_their_clusters() -> None:
    class TwoClusters(Brokers):
        async def end_offsets(self, source: KafkaSource, topics: frozenset[str]) -> Mapping[str, Mapping[int, int]]:
            return {topic: {0: 10 if source.cluster == "x" else 700} for topic in topics}

    other = replace(source(0, 0.0, a=[100]), kafka=KafkaSource(cluster="y"))
    last = status(source(0, 0.0, a=[6]), other)
    monitor = SourceLagMonitor(TwoClusters())
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, None, last, after(10)) == SourceLag(rows=604, seconds=10.0)


async def test_source_whose_brokers_never_answered_has_an_unknown_lag_and_a_problem() -> None:
    """Otherwise the job would be `Executing` without a hint until Spark gives up."""
    monitor, starting = SourceLagMonitor(Brokers()), status()
    problem = "no broker of 127.0.0.1:9 answers"
    failing = replace(
        starting, queries=(replace(starting.queries[1], sources=(unknown(),), source_problem=problem),), sequence=2
    )
    lag = await lag_after_poll(monitor, failing, failing, after(5))
    assert lag == SourceLag(unknown_since=after(5), is_expiry_known=False, problem=problem)
    assert monitor.update(failing, failing, after(9)).unknown_since == after(5)
    assert monitor.update(None, failing, after(10)).problem is None
    read = status(source(0, 0.0, a=[6]), nonce="next")
    assert monitor.update(read, read, after(20)) == SourceLag(rows=0, seconds=0.0)


async def test_expiry_is_unknown_without_the_topics_of_a_source() -> None:
    """The topics are too many for the status."""
    last = status(source(9, 500.0))
    assert not SourceLagMonitor(None).update(last, last, NOW).is_expiry_known
    files = status(SourceReport(kind="FileStreamSource", lag_s=500.0, unread_files=3))
    assert SourceLagMonitor(None).update(files, files, NOW).is_expiry_known
