"""What people are shown of a job: published when it has changed, and no more often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive.ports import JobStore
from airflow_adaptive.runtime.journal.history import History
from airflow_adaptive.runtime.publishing.documents import POLICY
from airflow_adaptive.runtime.publishing.job_view import view
from airflow_adaptive.runtime.publishing.time_series import Figures
from airflow_adaptive.runtime.publishing.urls import Urls
from airflow_adaptive.runtime.requirements.advice import without_advised_at
from airflow_adaptive.runtime.requirements.resolver import RequirementsResolver
from airflow_adaptive.scheduler.state import SchedulerState


class Publisher:
    """What one loop has shown."""

    def __init__(self, store: JobStore, authority: RequirementsResolver, figures: Figures, attempt: str) -> None:
        """Nothing was shown yet."""
        self._store = store
        self._authority = authority
        self._figures = figures
        self._attempt = attempt
        self._newest: tuple[SchedulerState, Urls, Mapping[str, Any] | None] | None = None
        self._policy: Mapping[str, Any] | None = None

    async def publish(self, state: SchedulerState, history: History, urls: Urls) -> None:
        """Show what has changed."""
        bounds_by = self._authority.bounds_by
        if (state, urls, bounds_by) != self._newest:
            self._newest = (state, urls, bounds_by)
            self._policy = self._authority.policy
            shown = view(state, history, urls, self._attempt, self._figures.report)
            await self._store.publish({**shown, "bounds_by": bounds_by, "policy": self._policy})
        if (news := self._figures.news()) is not None:
            await self._store.measure({**news, **self._advice_news()})

    def _advice_news(self) -> Mapping[str, Any]:
        """What the policy says, if that is something else than was shown; it says something with each look."""
        policy = self._authority.policy
        if policy is None or without_advised_at(policy) == without_advised_at(self._policy):
            return {}
        self._policy = policy
        return {POLICY: policy}
