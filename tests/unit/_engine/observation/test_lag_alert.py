from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._core.view import LagAlert
from airflow_adaptive._engine.journal.journal import Journal
from airflow_adaptive._engine.observation.known_lag import Expiry
from airflow_adaptive._engine.observation.lag_alert import LagAlerts
from airflow_adaptive._engine.observation.source_lag import SourceLag
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import small_job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THRESHOLD = timedelta(minutes=1)
RETENTION = timedelta(hours=1)


def lag(seconds: float | None, oldest_at: datetime | None = None) -> SourceLag:
    expiry = None if oldest_at is None else Expiry(oldest_at + RETENTION, RETENTION)
    return SourceLag(rows=None if seconds is None else 1, seconds=seconds, expiry=expiry)


def current(alerts: LagAlerts) -> LagAlert | None:
    return alerts.current


def test_lag_above_the_threshold_raises_one_alert_until_it_falls():
    alerts = LagAlerts(THRESHOLD)
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
    alerts = LagAlerts(THRESHOLD)
    alerts.update(lag(100.0), NOW)
    assert alerts.update(lag(None), NOW) == []
    assert current(alerts) is not None


def restored(snapshot: Mapping[str, Any], threshold: timedelta | None) -> LagAlerts:
    alerts = LagAlerts(threshold)
    alerts.restore(snapshot)
    return alerts


def test_next_loop_continues_the_alerts():
    earlier = LagAlerts(THRESHOLD)
    assert earlier.to_snapshot(()) == {}
    assert len(earlier.update(lag(1801.0, NOW), NOW + timedelta(seconds=1801))) == 2
    snapshot = json.loads(json.dumps(earlier.to_snapshot(())))
    alerts = restored(snapshot, THRESHOLD)
    assert alerts.current == earlier.current
    assert alerts.update(lag(1805.0, NOW), NOW + timedelta(seconds=1805)) == []
    assert len(alerts.update(lag(0.0), NOW + timedelta(seconds=1810))) == 2
    assert alerts.to_snapshot(()) == {}


@pytest.mark.asyncio
async def test_journal_hands_the_alerts_to_the_next_loop():
    directory, spec = FakeJobDirectory(), small_job("job", (1, 4), {})
    alerts, continued = LagAlerts(THRESHOLD), LagAlerts(THRESHOLD)
    earlier = Journal(directory, spec, lag_alerts=alerts)
    state = await earlier.open(START)
    for reason in alerts.update(lag(61.0), START):
        earlier.add_log_entry(reason)
    await earlier.write_log_entries(state, START)
    await Journal(directory, spec, lag_alerts=continued).open(START)
    assert continued.current == alerts.current is not None


@pytest.mark.asyncio
@pytest.mark.parametrize("seconds", [61.0, 0.0], ids=["raised", "ended"])
async def test_next_loop_reports_a_change_that_the_timeline_does_not_contain(seconds: float):
    """The loop is killed after a step, and before it has written the reason of the change."""
    directory, spec = FakeJobDirectory(), small_job("job", (1, 4), {})
    alerts, continued = LagAlerts(THRESHOLD), LagAlerts(THRESHOLD)
    earlier = Journal(directory, spec, lag_alerts=alerts)
    state = await earlier.open(START)
    if not seconds:
        for reason in alerts.update(lag(61.0), START):
            earlier.add_log_entry(reason)
        await earlier.write_log_entries(state, START)
    (change,) = alerts.update(lag(seconds), START)
    earlier.add_log_entry(change)
    await earlier.renew(state, START + spec.options.trigger_lifetime)
    await Journal(directory, spec, lag_alerts=continued).open(START + spec.options.trigger_lifetime)
    assert [reason.code for reason in continued.update(lag(seconds), START)] == [change.code]


def test_next_loop_drops_the_alert_about_a_threshold_that_was_removed():
    earlier = LagAlerts(THRESHOLD)
    earlier.update(lag(100.0), NOW)
    assert restored(earlier.to_snapshot(()), None).current is None


def test_alert_that_cannot_be_read_is_reported_and_raised_again(caplog: pytest.LogCaptureFixture):
    alerts = restored({"above_threshold": {"since": 7}}, THRESHOLD)
    assert "The alert about the lag in the journal is invalid" in caplog.text
    assert len(alerts.update(lag(100.0), NOW)) == 1


def test_minimum_of_the_lag_raises_alerts_and_ends_none():
    alerts = LagAlerts(THRESHOLD)
    at_least = replace(lag(1801.0, NOW), is_minimum=True)
    assert len(alerts.update(at_least, NOW + timedelta(seconds=1801))) == 2
    for changed in (replace(at_least, seconds=1.0), replace(at_least, expiry=None)):
        assert alerts.update(changed, NOW + timedelta(seconds=1802)) == []
    assert len(alerts.update(lag(1.0), NOW + timedelta(seconds=1803))) == 2


def test_without_a_threshold_no_lag_is_too_large():
    assert LagAlerts(None).update(lag(1e9), NOW) == []


@pytest.mark.parametrize("is_known", [True, False])
def test_unread_rows_raise_one_alert_when_half_of_their_retention_has_passed(is_known: bool):
    alerts, half = LagAlerts(None), NOW + RETENTION / 2
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
    alerts = LagAlerts(THRESHOLD)
    alerts.update(lag(61.0, NOW), NOW + timedelta(seconds=61))
    assert len(alerts.update(lag(1801.0, NOW), NOW + timedelta(seconds=1801))) == 1
    found = current(alerts)
    assert found is not None
    assert found.expires_at == NOW + RETENTION
    assert alerts.update(lag(120.0), NOW + timedelta(seconds=1900))[0].code is ReasonCode.LAG_RECOVERED
    assert current(alerts) == LagAlert(since=NOW + timedelta(seconds=61), lag_s=61.0)
