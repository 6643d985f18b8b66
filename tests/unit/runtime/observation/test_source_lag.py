from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.runtime.observation.known_lag import Expiry
from airflow_adaptive.runtime.observation.lag_alert import LagAlerts
from airflow_adaptive.runtime.observation.source_lag import MAX_AGE, MAX_STATUS_AGE, SourceLag, SourceLagMonitor
from airflow_adaptive.scheduler.timeline import ReasonCode
from tests.support.runtime.source_statuses import NOW, Brokers, after, lag_after_poll, source, status, unknown

pytestmark = pytest.mark.asyncio


async def test_lag_is_unknown_before_the_first_update() -> None:
    assert SourceLagMonitor(Brokers()).lag == SourceLag()


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
    assert brokers.requests == [frozenset({"a", "b"})] * 2


async def test_a_lag_at_the_end_of_the_driver_grows_older() -> None:
    monitor = SourceLagMonitor(Brokers(a=[10]))
    last = status(source(4, 30.0, a=[6]))
    monitor.update(last, last, NOW)
    assert await lag_after_poll(monitor, None, last, after(15)) == SourceLag(rows=4, seconds=45.0)


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


async def test_driver_that_cannot_poll_one_of_its_sources_has_no_lag_and_hides_no_rows_that_it_has_read() -> None:
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


async def test_polls_of_the_loop_replace_those_of_a_driver_that_cannot_poll_and_reads_nothing() -> None:
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
    monitor, alerts = SourceLagMonitor(None), LagAlerts(None)
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
    monitor, alerts = SourceLagMonitor(brokers := Brokers(a=ends)), LagAlerts(timedelta(minutes=1))
    last = status(source(10, 500.0, retention_s=900.0, a=[5, read]))
    assert len(alerts.update(monitor.update(last, last, NOW), NOW)) == 2
    for seconds in (10, 20, 70):
        lag = await lag_after_poll(monitor, None, last, after(seconds))
        brokers.ends = {"a": [90, 90]}
        assert alerts.update(lag, after(seconds)) == []
    assert monitor.lag.unknown_since == NOW
    assert len(brokers.requests) == 1


async def test_a_loop_that_takes_over_does_not_take_an_old_status_of_the_current_driver_for_a_new_one() -> None:
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


async def test_rows_that_arrive_without_a_driver_expire_after_the_shortest_retention() -> None:
    monitor = SourceLagMonitor(brokers := Brokers(a=[6], b=[1]))
    last = status(source(0, 0.0, retention_s=600.0, a=[6]), source(0, 0.0, retention_s=60.0, b=[1]))
    monitor.update(last, last, NOW)
    brokers.ends = {"a": [6], "b": [2]}
    expiry = (await lag_after_poll(monitor, None, last, after(10))).expiry
    assert expiry == Expiry(after(60), timedelta(minutes=1))


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
