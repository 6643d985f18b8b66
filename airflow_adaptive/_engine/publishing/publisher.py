"""Publishes the state of a job when the state has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow_adaptive._core.ports import ClusterSnapshot, JobStore
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.advice import PublishedPolicy
from airflow_adaptive._core.requirements.resolution import RequirementsOrigin, RequirementsSource
from airflow_adaptive._core.requirements.resolver import RequirementsResolver
from airflow_adaptive._core.scheduler.history.failures import root_cause
from airflow_adaptive._core.scheduler.state import Finished, SchedulerState
from airflow_adaptive._core.view import (
    MAX_FAILURES,
    POLICY,
    JobView,
    SchedulerStateName,
    SlotCounts,
    Urls,
    policy_document,
)
from airflow_adaptive._engine.cluster.free_capacity import CORE, all_slots
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.journal.journal import Journal
from airflow_adaptive._engine.observation.observer import JobObservation
from airflow_adaptive._engine.observation.source_lag import SourceLag
from airflow_adaptive._engine.publishing.time_series import JobMetrics
from airflow_adaptive._engine.spec import DriverSpec


class Publisher:
    """Owns what one loop has published: the job view, the job metrics and the URLs."""

    def __init__(self, store: JobStore, journal: Journal, resolver: RequirementsResolver, attempt: str) -> None:
        self._store = store
        self._journal = journal
        self._resolver = resolver
        self._history = journal.history
        self._attempt = attempt
        self._metrics = JobMetrics()
        self._restoring: asyncio.Task[None] | None = None
        self._is_restored = False
        self._urls = Urls()
        self._lag_unknown_since: datetime | None = None
        self._source_problem: str | None = None
        self._cluster_problem: str | None = None
        self._cluster: ClusterSnapshot | None = None
        self._spec: DriverSpec | None = None
        self._published: tuple[object, ...] | None = None
        self._policy: PublishedPolicy | None = None

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
        """Add a point to the job metrics; see `JobMetrics.record`."""
        self._lag_unknown_since, self._source_problem = lag.unknown_since, lag.problem
        source = self._journal.memory.resolver.source
        is_override = source is not None and source.origin is RequirementsOrigin.USER
        self._metrics.record(state, status, lag, now, is_override=is_override)

    def update_cluster(self, observation: JobObservation, submission_id: str | None, spec: DriverSpec) -> None:
        """Update the URLs, the slots of the cluster, and whether it answers; `submission_id` identifies the newest driver."""
        self._cluster, self._spec = observation.cluster or self._cluster, spec
        self._urls = updated_urls(self._urls, observation, submission_id)
        # The first error of an outage remains, because each poll may word its own, and each change is published.
        self._cluster_problem = observation.cluster_error and (self._cluster_problem or observation.cluster_error)

    async def publish(self, state: SchedulerState) -> None:
        """Publish the job view and the job metrics, as far as they have changed.

        The view of a job that has not ended waits until the history is read.
        """
        if isinstance(state.current, Finished):
            await self._history.wait()
        memory, spec, cluster = self._journal.memory, None if state.driver else self._spec, self._cluster
        source = memory.resolver.source
        size = None if spec is None else spec.executor
        observed: dict[str, Any] = {
            "requirements_source": source,
            "limits": memory.resolver.limits.lasting,
            "lag_alert": memory.lag_alerts.current,
            "lag_unknown_since": self._lag_unknown_since,
            "source_problem": self._source_problem,
            "cluster_problem": self._cluster_problem,
            "preparation": memory.preparation,
            # While the job has no driver, each worker that joins changes its slots.
            "total": None if cluster is None or size is None else all_slots(cluster, size.request, size.cores),
            "driver_cores": 0 if spec is None else spec.driver.request.cpu_millicores / CORE,
        }
        content = (state, self._urls, self._history.revision, observed)
        if content != self._published and not self._history.is_pending:
            self._published, self._policy = content, self._resolver.policy
            more: dict[str, Any] = {
                "driver": self._metrics.status,
                "policy": self._policy,
                "declarations": memory.declarations,
            }
            await self._store.publish(job_view(state, self._history, self._urls, self._attempt, **observed, **more))
        if self._is_restored and (changed := self._metrics.changed_documents()) is not None:
            await self._store.publish_metrics({**changed, **self._changed_advice(source)})

    def _changed_advice(self, source: RequirementsSource | None) -> Mapping[str, Any]:
        """The document of the rescale policy if its content has changed; a new time alone is no change."""
        policy = self._resolver.policy
        if policy is None or (self._policy is not None and policy.timeless == self._policy.timeless):
            return {}
        self._policy = policy
        return {POLICY: policy_document(policy, source)}


def job_view(
    state: SchedulerState,
    history: History,
    urls: Urls,
    attempt: str,
    *,
    total: int | None = None,
    driver_cores: float = 0,
    **observed: Any,
) -> JobView:
    """Return the view of a job in this state. `total` and `driver_cores` as in `SlotCounts`; `observed` are the fields that the state does not tell."""
    past, counted = history.at(state), state.restarts
    cause = root_cause(state, past.rescales[-1] if past.rescales else None)
    return JobView(
        job=state.job.job,
        job_type=state.job.job_type,
        attempt=attempt,
        state=SchedulerStateName(state.name),
        since=getattr(state.current, "since", None),
        outcome=state.current.outcome if isinstance(state.current, Finished) else None,
        cause=cause,
        parallelism=None if state.plan is None else state.plan.parallelism,
        requirements=state.requirements,
        slots=SlotCounts(
            held=state.held_slots, available=state.available_slots, total=total, driver_cores=driver_cores
        ),
        epoch=state.epoch,
        submission_id=None if state.driver is None else state.driver.submission_id,
        restarts=state.num_restarts,
        restart_attempts=0 if cause is None else counted.attempts or len(counted.failures),
        rescales=state.num_rescales,
        urls=urls,
        failures=len(state.failures[-MAX_FAILURES:]),
        last_transition=past.transitions[-1] if past.transitions else None,
        history=past,
        recent_failures=tuple(state.failures[-MAX_FAILURES:]),
        scheduler=state,
        **observed,
    )


def updated_urls(urls: Urls, observation: JobObservation, submission_id: str | None) -> Urls:
    """Return the addresses of Spark's web pages after an observation; `submission_id` identifies the newest driver."""
    driver = None if observation.status is None else observation.status.ui_url
    cluster = observation.cluster
    pages = None if cluster is None else cluster.log_pages.get(submission_id or "")
    return Urls(
        master=urls.master if cluster is None else cluster.ui_url,
        driver=driver,
        executors=f"{driver}/executors/" if driver else None,
        stdout=urls.stdout if pages is None else pages.stdout,
        stderr=urls.stderr if pages is None else pages.stderr,
    )
