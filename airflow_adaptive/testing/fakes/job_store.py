"""Wishes and views in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive.ports import ControlRequests


class FakeStore:
    """A `JobStore`: a test sets `asked` and reads `views`."""

    def __init__(self) -> None:
        self.asked = ControlRequests()
        self.views: list[Mapping[str, Any]] = []
        self.measured: Mapping[str, Any] = {}

    async def control_requests(self) -> ControlRequests:
        """See `JobStore.control_requests`."""
        return self.asked

    async def publish(self, view: Mapping[str, Any]) -> None:
        """See `JobStore.publish`."""
        self.views.append(view)

    async def measure(self, figures: Mapping[str, Any]) -> None:
        """See `JobStore.measure`."""
        self.measured = figures

    async def figures(self) -> Mapping[str, Any]:
        """See `JobStore.figures`."""
        return self.measured
