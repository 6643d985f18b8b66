"""Publishes the state of a job when the state has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.ports import JobStore
from airflow_adaptive.runtime.journal.history import History
from airflow_adaptive.runtime.observation.job_observation import JobObservation
from airflow_adaptive.runtime.observation.lag_alert import LagAlerts
from airflow_adaptive.runtime.observation.source_lag import SourceLag
from airflow_adaptive.runtime.publishing.documents import POLICY, policy_document
from airflow_adaptive.runtime.publishing.job_view import job_view
from airflow_adaptive.runtime.publishing.time_series import JobMetrics
from airflow_adaptive.runtime.publishing.urls import Urls
from airflow_adaptive.runtime.requirements.advice import PolicyAdvice
from airflow_adaptive.runtime.requirements.resolver import RequirementsResolver
from airflow_adaptive.runtime.requirements.sources import RequirementsSource
from airflow_adaptive.scheduler.state import Finished, SchedulerState


class Publisher:
    """Owns what one loop has published: the job view, the job metrics and the URLs."""

    def __init__(
        self, store: JobStore, resolver: RequirementsResolver, history: History, attempt: str, alerts: LagAlerts
    ) -> None:
        """Create the publisher; publish nothing yet.

        Args:
            store: receives the job view and the job metrics.
            resolver: supplies the source of the requirements and the advice of the rescale policy.
            history: the past of the job.
            attempt: attempt of the task that runs the job.
            alerts: supplies the alert about the lag.
        """
        self._store = store
        self._resolver = resolver
        self._history = history
        self._attempt = attempt
        self._alerts = alerts
        self._metrics = JobMetrics()
        self._restoring: asyncio.Task[None] | None = None
        self._is_restored = False
        self._urls = Urls()
        self._lag_unknown_since: datetime | None = None
        self._source_problem: str | None = None
        self._published: tuple[object, ...] | None = None
        self._policy: PolicyAdvice | None = None

    async def restore(self) -> None:
        """Read the job metrics that an earlier loop published, in the background. Until then no metrics are published."""
        self._restoring = asyncio.create_task(self._restore())
        await asyncio.sleep(0)

    async def _restore(self) -> None:
        self._metrics.restore(await self._store.published_metrics())
        self._is_restored = True

    def close(self) -> None:
        """Stop reading."""
        if self._restoring is not None:
            self._restoring.cancel()

    def record_metrics(self, state: SchedulerState, status: DriverStatus | None, lag: SourceLag, now: datetime) -> None:
        """Add a point to the job metrics; see `Gauge.read`."""
        self._lag_unknown_since, self._source_problem = lag.unknown_since, lag.problem
        self._metrics.record(state, status, lag, now)

    def update_urls(self, observation: JobObservation, submission_id: str | None) -> None:
        """Update the URLs from an observation; `submission_id` identifies the newest driver."""
        self._urls = self._urls.updated(observation, submission_id)

    async def publish(self, state: SchedulerState) -> None:
        """Publish the job view and the job metrics, as far as they have changed.

        The view of a job that has not ended waits until the history is read.
        """
        if isinstance(state.current, Finished):
            await self._history.wait()
        requirements_source = self._resolver.requirements_source
        lag = (self._alerts.current, self._lag_unknown_since, self._source_problem)
        content = (state, self._urls, requirements_source, self._history.revision, *lag)
        if content != self._published and not self._history.is_pending:
            self._published = content
            self._policy = self._resolver.policy
            await self._store.publish(
                job_view(
                    state,
                    self._history,
                    self._urls,
                    self._attempt,
                    driver=self._metrics.status,
                    requirements_source=requirements_source,
                    policy=self._policy,
                    lag_alert=self._alerts.current,
                    lag_unknown_since=self._lag_unknown_since,
                    source_problem=self._source_problem,
                )
            )
        if self._is_restored and (changed := self._metrics.changed_documents()) is not None:
            await self._store.publish_metrics({**changed, **self._changed_advice(requirements_source)})

    def _changed_advice(self, source: RequirementsSource | None) -> Mapping[str, Any]:
        """The document of the rescale policy if its content has changed; a new time alone is no change."""
        policy = self._resolver.policy
        if policy is None or (
            self._policy is not None and policy == replace(self._policy, advised_at=policy.advised_at)
        ):
            return {}
        self._policy = policy
        return {POLICY: policy_document(policy, source)}
