"""Control requests and published state in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.view import JobView


class FakeStore:
    """A `JobStore` in memory.

    Attributes:
        requests: control requests, which a test sets.
        views: all published views, oldest first.
        metrics: the job metrics that were published last.
    """

    def __init__(self) -> None:
        self.requests = ControlRequests()
        self.views: list[JobView] = []
        self.metrics: Mapping[str, Any] = {}

    async def control_requests(self) -> ControlRequests:
        """See `JobStore.control_requests`."""
        return self.requests

    async def publish(self, view: JobView) -> None:
        """See `JobStore.publish`."""
        self.views.append(view)

    async def publish_metrics(self, metrics: Mapping[str, Any]) -> None:
        """See `JobStore.publish_metrics`."""
        self.metrics = metrics

    async def published_metrics(self) -> Mapping[str, Any]:
        """See `JobStore.published_metrics`."""
        return self.metrics
