"""When an alert about the lag begins and ends, and which alerts the next loop continues."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._core.view import LagAlert
from airflow_adaptive._engine.journal.journal import Journal
from airflow_adaptive._engine.observation.known_lag import Expiry
from airflow_adaptive._engine.observation.source_lag import LagAlerts, SourceLag
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import small_job
from tests.support.runtime.running_alerts import RunningAlerts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THRESHOLD = timedelta(minutes=1)
RETENTION = timedelta(hours=1)


def lag(seconds: float | None, oldest_at: datetime | None = None) -> SourceLag:
    expiry = None if oldest_at is None else Expiry(oldest_at + RETENTION, RETENTION)
    return SourceLag(rows=None if seconds is None else 1, seconds=seconds, expiry=expiry)


def current(alerts: RunningAlerts) -> LagAlert | None:
    return alerts.alerts.current


def test_lag_above_the_threshold_raises_one_alert_until_it_falls():
    alerts = RunningAlerts(THRESHOLD)
    assert alerts.update(lag(60.0), NOW) == []
    assert current(alerts) is None
    assert alerts.update(lag(61.5), NOW) == [
        Reason(
            ReasonCode.LAG_EXCEEDED, "the oldest unread row is 61.5 s old, which exceeds lag_alert_threshold (1 min)"
        )
    ]
    assert alerts.update(lag(90.0), NOW + THRESHOLD) == []
    assert current(alerts) == LagAlert(since=NOW, lag_s=61.5)
    assert alerts.update(lag(60.0), NOW + 2 * THRESHOLD) == [
        Reason(
            ReasonCode.LAG_RECOVERED,
            "the oldest unread row is 60 s old, which does not exceed lag_alert_threshold (1 min)",
        )
    ]
    assert current(alerts) is None
    assert alerts.update(lag(0.0), NOW + 3 * THRESHOLD) == []


def test_alert_remains_while_the_lag_is_unknown():
    alerts = RunningAlerts(THRESHOLD)
    alerts.update(lag(100.0), NOW)
    assert alerts.update(lag(None), NOW) == []
    assert current(alerts) is not None


class Job:
    """Loops of a job, one after the other; each one reports the lag that it observes."""

    def __init__(self) -> None:
        self.directory, self.spec = FakeJobDirectory(), small_job("job", (1, 4), {})

    async def loop(self) -> tuple[Journal, SchedulerState]:
        journal = Journal(self.directory, self.spec)
        return journal, await journal.open(START)

    def observe(self, journal: Journal, seconds: float) -> list[Reason]:
        alerts, reasons = journal.memory.lag_alerts.updated(lag(seconds), THRESHOLD, START)
        journal.memory = replace(journal.memory, lag_alerts=alerts)
        for reason in reasons:
            journal.add_log_entry(reason)
        return reasons


@pytest.mark.asyncio
async def test_next_loop_continues_the_alerts():
    job = Job()
    earlier, state = await job.loop()
    assert len(job.observe(earlier, 61.0)) == 1
    await earlier.write_log_entries(state, START)
    continued, _ = await job.loop()
    assert continued.memory.lag_alerts == earlier.memory.lag_alerts != LagAlerts()
    assert job.observe(continued, 65.0) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("seconds", [61.0, 0.0], ids=["raised", "ended"])
async def test_next_loop_reports_a_change_that_the_timeline_does_not_contain(seconds: float):
    """The loop is killed after a step, and before it has written the reason of the change."""
    job = Job()
    earlier, state = await job.loop()
    if not seconds:
        job.observe(earlier, 61.0)
        await earlier.write_log_entries(state, START)
    (change,) = job.observe(earlier, seconds)
    await earlier.renew(state, START + job.spec.options.trigger_lifetime)
    continued, _ = await job.loop()
    assert [reason.code for reason in job.observe(continued, seconds)] == [change.code]


def test_alert_about_a_threshold_that_was_removed_is_dropped():
    raised, _ = LagAlerts().updated(lag(100.0), THRESHOLD, NOW)
    assert raised.updated(lag(None), None, NOW) == (LagAlerts(), [])


def test_minimum_of_the_lag_raises_alerts_and_ends_none():
    alerts = RunningAlerts(THRESHOLD)
    at_least = replace(lag(1801.0, NOW), is_minimum=True)
    assert len(alerts.update(at_least, NOW + timedelta(seconds=1801))) == 2
    for changed in (replace(at_least, seconds=1.0), replace(at_least, expiry=None)):
        assert alerts.update(changed, NOW + timedelta(seconds=1802)) == []
    assert len(alerts.update(lag(1.0), NOW + timedelta(seconds=1803))) == 2


@pytest.mark.parametrize("is_known", [True, False])
def test_unread_rows_raise_one_alert_when_half_of_their_retention_has_passed(is_known: bool):
    alerts, half = RunningAlerts(None), NOW + RETENTION / 2
    seconds = 1800.0 if is_known else None
    assert alerts.update(lag(seconds, NOW), half) == []
    (reason,) = alerts.update(lag(seconds, NOW), half + timedelta(seconds=1))
    assert reason.code is ReasonCode.LAG_EXCEEDED
    assert reason.text == (
        "the oldest unread row is 1801 s old, and the brokers delete rows after 1 h: from 2026-01-01 01:00 UTC, records are lost. "
        "Increase the parallelism, or `retention.ms` of the topic"
    )
    alert = LagAlert(since=half + timedelta(seconds=1), lag_s=1801.0, expires_at=NOW + RETENTION)
    assert current(alerts) == alert
    assert alerts.update(lag(seconds, NOW), half + timedelta(seconds=2)) == []
    assert alerts.update(lag(0.0), half + timedelta(seconds=3)) == [
        Reason(ReasonCode.LAG_RECOVERED, "the brokers will not delete unread rows soon")
    ]
    assert current(alerts) is None


def test_rows_that_expire_are_more_important_than_the_threshold():
    alerts = RunningAlerts(THRESHOLD)
    alerts.update(lag(61.0, NOW), NOW + timedelta(seconds=61))
    assert len(alerts.update(lag(1801.0, NOW), NOW + timedelta(seconds=1801))) == 1
    found = current(alerts)
    assert found is not None
    assert found.expires_at == NOW + RETENTION
    assert alerts.update(lag(120.0), NOW + timedelta(seconds=1900))[0].code is ReasonCode.LAG_RECOVERED
    assert current(alerts) == LagAlert(since=NOW + timedelta(seconds=61), lag_s=61.0)
