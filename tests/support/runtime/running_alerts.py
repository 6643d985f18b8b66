"""Alerts about the lag of a job with one threshold, observation by observation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_adaptive._core.scheduler.timeline import Reason
from airflow_adaptive._engine.observation.source_lag import LagAlerts, SourceLag


@dataclass
class RunningAlerts:
    """The newest alerts."""

    threshold: timedelta | None
    alerts: LagAlerts = LagAlerts()

    def update(self, lag: SourceLag, now: datetime) -> list[Reason]:
        """Return the reasons to report."""
        self.alerts, reasons = self.alerts.updated(lag, self.threshold, now)
        return reasons
