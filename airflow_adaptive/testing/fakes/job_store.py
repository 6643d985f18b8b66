"""Wishes and views in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive.ports import ControlRequests
from airflow_adaptive.runtime.publishing.job_view import JobView


class FakeStore:
    """A `JobStore`: a test sets `asked` and reads `views`."""

    def __init__(self) -> None:
        self.asked = ControlRequests()
        self.views: list[JobView] = []
        self.measured: Mapping[str, Any] = {}

    async def control_requests(self) -> ControlRequests:
        """See `JobStore.control_requests`."""
        return self.asked

    async def publish(self, view: JobView) -> None:
        """See `JobStore.publish`."""
        self.views.append(view)

    async def publish_metrics(self, metrics: Mapping[str, Any]) -> None:
        """See `JobStore.publish_metrics`."""
        self.measured = metrics

    async def published_metrics(self) -> Mapping[str, Any]:
        """See `JobStore.published_metrics`."""
        return self.measured
