"""The lag over several drivers, queries and loops."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import NO_RETENTION, KafkaSource, SourceReport
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.observation.known_lag import Expiry
from airflow_adaptive._engine.observation.source_lag import SourceLag, SourceLagMonitor
from tests.support.runtime.running_alerts import RunningAlerts
from tests.support.runtime.source_statuses import (
    NOW,
    Brokers,
    after,
    lag_after_poll,
    minimum,
    source,
    status,
    unknown,
)

pytestmark = pytest.mark.asyncio


async def test_lag_of_files_that_are_not_read_is_their_age() -> None:
    """A file source counts no rows."""
    files = SourceReport(kind="FileStreamSource", unread_files=100, lag_s=500.0)
    monitor, reported = SourceLagMonitor(None), status(files)
    assert monitor.update(reported, reported, NOW) == SourceLag(seconds=500.0)
    assert monitor.update(reported, reported, after(5)) == SourceLag(seconds=505.0)
    mixed = status(source(0, 0.0, a=[6]), files, sequence=2)
    assert monitor.update(mixed, mixed, after(10)) == SourceLag(seconds=500.0)
    read = status(source(0, 0.0, a=[6]), replace(files, unread_files=0, lag_s=0.0, is_lag_minimum=True), sequence=3)
    assert monitor.update(read, read, after(20)) == SourceLag(seconds=0.0)
    assert monitor.update(read, read, after(25)) == SourceLag(seconds=0.0)


async def test_rows_without_an_age_are_counted() -> None:
    """The source counts rows only at the beginning of a batch."""
    monitor = SourceLagMonitor(brokers := Brokers(a=[10]))
    reported = status(source(4, 30.0, a=[6]), SourceReport(kind="Other", lag_rows=3))
    assert monitor.update(reported, reported, NOW) == SourceLag(rows=7, seconds=30.0)
    assert await lag_after_poll(monitor, None, reported, after(20)) == SourceLag(rows=7, seconds=50.0)
    assert brokers.requests == []


async def test_next_driver_does_not_shorten_the_age_that_it_cannot_know() -> None:
    """The query is five hours behind, and the next driver knows only that its last batch began 20 s ago."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(timedelta(hours=1))
    hour, retention_s = 3600.0, 7 * 3600.0
    behind = status(source(9000, 5 * hour, retention_s=retention_s, a=[6]))
    assert len(alerts.update(monitor.update(behind, behind, NOW), NOW)) == 2
    for seconds, driver, sequence in ((30, "second", 1), (40, "second", 2), (60, "third", 1)):
        restarted = status(minimum(9000, 20.0, retention_s=retention_s, a=[6]), nonce=driver, sequence=sequence)
        lag = monitor.update(restarted, restarted, after(seconds))
        assert lag == SourceLag(
            rows=9000, seconds=5 * hour + seconds, expiry=Expiry(after(2 * hour), timedelta(hours=7))
        )
        assert alerts.update(lag, after(seconds)) == []
    exact = status(source(100, 15.0, retention_s=retention_s, a=[8906]), nonce="third", sequence=2)
    lag = monitor.update(exact, exact, after(70))
    assert lag == SourceLag(rows=100, seconds=15.0, expiry=Expiry(after(55 + 7 * hour), timedelta(hours=7)))
    assert len(alerts.update(lag, after(70))) == 2


async def test_rows_after_the_last_driver_have_the_age_that_the_next_reports() -> None:
    monitor = SourceLagMonitor(None)
    last = status(source(0, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    new = status(minimum(9, 45.0, retention_s=600.0, a=[6]), nonce="next")
    lag = monitor.update(new, new, after(50))
    assert lag == SourceLag(rows=9, seconds=45.0, expiry=Expiry(after(605), timedelta(minutes=10)))


async def test_age_that_a_driver_reports_several_times_grows_and_raises_one_alert() -> None:
    monitor, alerts, reasons = SourceLagMonitor(None), RunningAlerts(timedelta(minutes=1)), []
    for seconds in range(40):
        computed_s = 30.0 + seconds // 10 * 10
        reported = status(source(9, computed_s, a=[6]), sequence=seconds // 2)
        lag = monitor.update(reported, reported, after(seconds))
        reasons += alerts.update(lag, after(seconds))
        assert lag.seconds == 30.0 + seconds
    assert [reason.code for reason in reasons] == [ReasonCode.LAG_EXCEEDED]


@pytest.mark.parametrize(("rows", "lag_s", "known_s"), [(0, 0.0, 60.0), (1, 10.0, 40.0)], ids=["no row", "one row"])
async def test_first_row_after_hours_does_not_get_the_age_of_the_last_batch(
    rows: int, lag_s: float, known_s: float
) -> None:
    """The last batch began two hours ago. The earlier driver knew the age of all unread rows."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(timedelta(minutes=1))
    last = status(source(rows, lag_s, retention_s=7200.0, a=[6]))
    monitor.update(last, last, NOW)
    new = status(minimum(1, 7230.0, retention_s=7200.0, a=[6]), nonce="next")
    lag = monitor.update(new, new, after(30))
    assert (lag.seconds, lag.is_minimum, alerts.update(lag, after(30))) == (known_s, False, [])


@pytest.mark.parametrize(
    "again", [minimum(10_000, 20.0, a=[100]), minimum(10_000, 20.0, b=[1000])], ids=["earlier rows", "other topic"]
)
async def test_query_that_begins_again_forgets_the_age_of_rows_that_it_read(again: SourceReport) -> None:
    """A user has deleted the checkpoint, so that the oldest unread row may be older than the earlier one."""
    monitor, last = SourceLagMonitor(None), status(source(5, 5.0, a=[1000]))
    monitor.update(last, last, NOW)
    new = status(again, nonce="next")
    lag = monitor.update(new, new, after(40))
    assert (lag.seconds, lag.is_minimum) == (20.0, True)


async def test_loop_that_takes_over_knows_only_the_minimum_and_ends_no_alert() -> None:
    """The next loop starts before the next driver has read the rows that were there at its first poll."""
    alerts = RunningAlerts(timedelta(minutes=1))
    alerts.update(SourceLag(rows=9, seconds=500.0, expiry=Expiry(after(60), timedelta(minutes=10))), NOW)
    monitor, new = SourceLagMonitor(None), status(minimum(9, 20.0, retention_s=600.0, a=[6]))
    lag = monitor.update(new, new, NOW)
    assert (lag.seconds, lag.is_minimum) == (20.0, True)
    assert alerts.update(lag, NOW) == []
    read = status(minimum(0, 0.0, retention_s=600.0, a=[15]), sequence=2)
    assert len(alerts.update(monitor.update(read, read, after(1)), after(1))) == 2


@pytest.mark.parametrize("reported", [(), (SourceReport(kind="RateStreamV2"),)], ids=["nothing", "other source"])
async def test_loop_that_takes_over_ends_no_alert_before_it_knows_the_lag(reported: tuple[SourceReport, ...]) -> None:
    alerts, starting = RunningAlerts(None), status(*reported)
    alerts.update(SourceLag(rows=9, seconds=500.0, expiry=Expiry(after(60), timedelta(minutes=10))), NOW)
    assert alerts.update(SourceLagMonitor(None).update(starting, starting, NOW), NOW) == []


async def test_source_without_unread_rows_does_not_keep_the_age_that_an_earlier_driver_reported() -> None:
    """A file source whose list is empty reports a minimum for as long as the list is empty."""
    idle = SourceReport(kind="FileStreamSource", unread_files=0, lag_s=0.0, is_lag_minimum=True)
    monitor, last = SourceLagMonitor(None), status(source(4, 5.0, a=[6]), replace(idle, unread_files=3, lag_s=30.0))
    assert monitor.update(last, last, NOW).seconds == 30.0
    for seconds in (30, 3600):
        new = status(source(0, 0.0, a=[10]), idle, nonce="next", sequence=seconds)
        assert monitor.update(new, new, after(seconds)) == SourceLag(seconds=0.0)


async def test_query_that_has_not_reported_keeps_the_lag_of_the_earlier_driver() -> None:
    """The queries of a new driver report one after the other; the first one has no lag."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(timedelta(minutes=1))
    first, second = QueryReport(name="a", active=True), QueryReport(name="b", active=True)
    current, behind = source(0, 0.0, a=[6]), source(9, 500.0, retention_s=900.0, b=[6])
    last = replace(status(), queries=(replace(first, sources=(current,)), replace(second, sources=(behind,))))
    assert len(alerts.update(monitor.update(last, last, NOW), NOW)) == 2
    new = replace(status(nonce="next"), queries=(replace(first, sources=(current,)), second))
    lag = monitor.update(new, new, after(20))
    assert lag == SourceLag(rows=9, seconds=520.0, expiry=Expiry(after(400), timedelta(minutes=15)))
    reported = replace(second, sources=(minimum(9, 30.0, retention_s=900.0, b=[6]),))
    both = replace(new, sequence=2, queries=(new.queries[0], reported))
    lag = monitor.update(both, both, after(25))
    assert lag == SourceLag(rows=9, seconds=525.0, expiry=Expiry(after(400), timedelta(minutes=15)))
    assert alerts.update(lag, after(25)) == []


async def test_query_without_a_report_is_missing_if_a_position_is_unknown() -> None:
    """The query joins two topics. The earlier driver read rows of one of them while its polls failed."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(timedelta(minutes=1))
    reported = status(source(5, 10.0, a=[5]), source(1000, 61.0, b=[5]))
    assert len(alerts.update(monitor.update(reported, reported, NOW), NOW)) == 1
    failing = status(unknown(a=[5]), unknown(b=[6]), sequence=2)
    monitor.update(failing, failing, after(2))
    other = QueryReport(name="a", active=True, sources=(source(0, 0.0, c=[1]),))
    new = replace(status(nonce="next"), queries=(other, QueryReport(name="b", active=True)))
    lag = monitor.update(new, new, after(10))
    assert (lag.rows, lag.is_minimum, alerts.update(lag, after(10))) == (5, True, [])


@pytest.mark.parametrize(
    ("retention_s", "expiry"), [(3600.0, Expiry(after(3100), timedelta(hours=1))), (NO_RETENTION, None)]
)
async def test_expiry_follows_the_retention_that_a_user_increases(retention_s: float, expiry: Expiry | None) -> None:
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(None)
    last = status(source(9, 500.0, retention_s=900.0, a=[6]))
    assert len(alerts.update(monitor.update(last, last, NOW), NOW)) == 1
    new = status(minimum(9, 20.0, retention_s=retention_s, a=[6]), nonce="next")
    lag = monitor.update(new, new, NOW)
    assert (lag.seconds, lag.expiry) == (500.0, expiry)
    assert [reason.code for reason in alerts.update(lag, NOW)] == [ReasonCode.LAG_RECOVERED]


async def test_alert_remains_while_the_retention_of_a_topic_with_unread_rows_is_unknown() -> None:
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(None)
    last = status(source(9, 500.0, retention_s=900.0, a=[6]))
    assert len(alerts.update(monitor.update(last, last, NOW), NOW)) == 1
    new = status(minimum(9, 20.0, retention_s=None, a=[6]), nonce="next")
    assert alerts.update(monitor.update(new, new, NOW), NOW) == []
    read = status(source(0, 0.0, retention_s=None, a=[15]), nonce="next", sequence=2)
    assert [it.code for it in alerts.update(monitor.update(read, read, NOW), NOW)] == [ReasonCode.LAG_RECOVERED]


async def test_topic_of_another_cluster_does_not_keep_the_age_of_its_namesake() -> None:
    """The script reads another cluster."""
    monitor, last = SourceLagMonitor(None), status(source(9, 500.0, a=[6]))
    monitor.update(last, last, NOW)
    new = status(replace(minimum(9, 20.0, a=[6]), kafka=KafkaSource(cluster="other")), nonce="next")
    assert monitor.update(new, new, after(1)).seconds == 20.0


async def test_position_on_another_cluster_is_another_position() -> None:
    monitor, last = SourceLagMonitor(brokers := Brokers(a=[9])), status(source(0, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    moved = status(replace(unknown(a=[6]), kafka=KafkaSource(cluster="other")), nonce="next")
    lag = await lag_after_poll(monitor, None, moved, after(20))
    assert (lag.is_expiry_known, brokers.requests) == (False, [])


async def test_rows_that_a_driver_read_without_polls_have_no_age_later() -> None:
    monitor, last = SourceLagMonitor(None), status(source(9, 500.0, a=[6]))
    monitor.update(last, last, NOW)
    failing = status(unknown(a=[99]), sequence=2)
    monitor.update(failing, failing, after(3600))
    new = status(minimum(9, 20.0, a=[99]), nonce="next")
    lag = monitor.update(new, new, after(3630))
    assert (lag.seconds, lag.is_minimum) == (20.0, True)


def queries(*reported: QueryReport, nonce: str = "n", sequence: int = 1) -> DriverStatus:
    return replace(status(nonce=nonce, sequence=sequence), queries=reported)


CURRENT = QueryReport(name="a", active=True, sources=(source(0, 0.0, a=[6]),))
BEHIND = QueryReport(name="b", active=True, sources=(source(9, 500.0, b=[6]),))
STARTING = replace(BEHIND, sources=())


async def test_lag_is_a_minimum_until_all_queries_have_reported() -> None:
    """A loop takes over while a driver starts, or a job starts for the first time."""
    monitor, starting = SourceLagMonitor(None), queries(CURRENT, STARTING)
    assert monitor.update(starting, starting, NOW) == SourceLag(rows=0, seconds=0.0, is_minimum=True)
    reported = queries(CURRENT, BEHIND, sequence=2)
    assert monitor.update(reported, reported, after(1)) == SourceLag(rows=9, seconds=500.0)


async def test_query_without_lag_that_has_not_reported_makes_the_lag_a_minimum() -> None:
    """Rows arrived while no driver ran."""
    monitor, last = SourceLagMonitor(None), queries(CURRENT, replace(BEHIND, sources=(source(0, 0.0, b=[6]),)))
    monitor.update(last, last, NOW)
    for sequence in (1, 2):
        new = queries(CURRENT, STARTING, nonce="next", sequence=sequence)
        assert monitor.update(new, new, after(3600 + sequence)) == SourceLag(rows=0, seconds=0.0, is_minimum=True)
    new = queries(CURRENT, replace(BEHIND, sources=(minimum(9, 20.0, b=[6]),)), nonce="next", sequence=3)
    assert monitor.update(new, new, after(3610)) == SourceLag(rows=9, seconds=20.0, is_minimum=True)


@pytest.mark.parametrize("query", [replace(STARTING, idle=True), replace(STARTING, active=False)])
async def test_query_that_waits_for_its_first_row_or_has_ended_has_no_lag(query: QueryReport) -> None:
    """The last batch of the earlier driver has read the files that its last status counts."""
    monitor, last = SourceLagMonitor(None), queries(CURRENT, BEHIND)
    assert monitor.update(last, last, NOW).seconds == 500.0
    new = queries(CURRENT, query, nonce="next")
    assert monitor.update(new, new, after(30)) == SourceLag(rows=0, seconds=0.0)


async def test_position_that_one_query_has_left_remains_known_for_another_query() -> None:
    monitor, last = SourceLagMonitor(None), queries(CURRENT, BEHIND)
    monitor.update(last, last, NOW)
    moved = queries(replace(CURRENT, sources=(unknown(a=[7]),)), STARTING, nonce="next")
    monitor.update(moved, moved, after(10))
    polled = queries(replace(CURRENT, sources=(source(0, 0.0, a=[7]),)), STARTING, nonce="next", sequence=2)
    assert monitor.update(polled, polled, after(20)) == SourceLag(rows=9, seconds=520.0)


async def test_rows_that_a_query_read_without_a_report_do_not_count_later() -> None:
    monitor, last = SourceLagMonitor(None), queries(CURRENT, BEHIND)
    monitor.update(last, last, NOW)
    read = replace(BEHIND, sources=(unknown(b=[5000]),))
    moved = queries(CURRENT, read, sequence=2)
    monitor.update(moved, moved, after(10))
    new = queries(CURRENT, STARTING, nonce="next")
    assert monitor.update(new, new, after(20)) == SourceLag(rows=0, seconds=0.0, is_minimum=True)


async def test_age_remains_a_minimum_if_rows_may_have_arrived_since_the_earlier_report() -> None:
    """Rows arrived for five hours without a driver, and the next driver cannot read its position."""
    monitor, last = SourceLagMonitor(None), status(source(0, 0.0, a=[6]))
    monitor.update(last, last, NOW)
    new = status(minimum(9000, 20.0, a=[6]), nonce="next")
    lag = monitor.update(new, new, after(5 * 3600))
    assert (lag.seconds, lag.is_minimum) == (20.0, True)


async def test_minimum_of_an_earlier_driver_grows_until_the_age_is_known() -> None:
    """Each driver ends after a batch that reads only a part of the rows."""
    monitor, alerts = SourceLagMonitor(None), RunningAlerts(timedelta(hours=3))
    reasons = []
    for driver in range(25):
        new = status(minimum(9000, 20.0, a=[driver]), nonce=str(driver))
        now = after(600 * driver)
        reasons += alerts.update(monitor.update(new, new, now), now)
    assert [reason.code for reason in reasons] == [ReasonCode.LAG_EXCEEDED]
    assert monitor.lag == SourceLag(rows=9000, seconds=20 + 24 * 600.0, is_minimum=True)


async def test_position_that_is_not_reported_may_have_moved() -> None:
    """The positions of all sources are too large for the status."""
    monitor, last = SourceLagMonitor(None), status(source(9, 500.0))
    monitor.update(last, last, NOW)
    failing = status(unknown(), sequence=2)
    monitor.update(failing, failing, after(3600))
    new = status(minimum(9, 20.0), nonce="next")
    assert monitor.update(new, new, after(3630)).seconds == 20.0
