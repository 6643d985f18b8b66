from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_adaptive.job.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.runtime.observation.lag_alert import LagAlert, LagAlerts
from airflow_adaptive.scheduler.timeline import Reason, ReasonCode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THRESHOLD = timedelta(minutes=1)


def current(alerts: LagAlerts) -> LagAlert | None:
    return alerts.current


def status(*lags: float | None) -> DriverStatus:
    sources = tuple(SourceReport(kind="KafkaV2", lag_s=lag) for lag in lags)
    queries = (QueryReport(name="a", active=True), QueryReport(name="b", active=True, sources=sources))
    return DriverStatus(job="j", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, queries=queries)


def test_lag_above_the_threshold_raises_one_alert_until_it_falls():
    alerts = LagAlerts(THRESHOLD)
    assert alerts.update(status(60.0, None), NOW) is None
    assert current(alerts) is None
    assert alerts.update(status(3.0, 61.5), NOW) == Reason(
        ReasonCode.LAG_EXCEEDED, "the oldest unread row is 61.5 s old, which exceeds lag_alert_threshold (1 min)"
    )
    assert alerts.update(status(90.0), NOW + THRESHOLD) is None
    assert current(alerts) == LagAlert(since=NOW, lag_s=61.5)
    assert alerts.update(status(60.0), NOW + 2 * THRESHOLD) == Reason(
        ReasonCode.LAG_RECOVERED, "the oldest unread row is 60 s old, which does not exceed lag_alert_threshold (1 min)"
    )
    assert current(alerts) is None
    assert alerts.update(status(0.0), NOW + 3 * THRESHOLD) is None


def test_alert_remains_while_the_lag_is_unknown():
    alerts = LagAlerts(THRESHOLD)
    alerts.update(status(100.0), NOW)
    assert alerts.update(None, NOW) is None
    assert alerts.update(status(None), NOW) is None
    assert current(alerts) is not None


def test_without_a_threshold_no_lag_is_too_large():
    assert LagAlerts(None).update(status(1e9), NOW) is None
