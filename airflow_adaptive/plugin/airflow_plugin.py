"""What Airflow loads by the entry point `airflow.plugins`, in every one of its processes: so it imports nothing that is heavy.

Only the API server reads `fastapi_apps`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/adaptive"
"""Path of the app in the API server, below its base path."""

PAGE = "adaptive/ui/"
"""The page, relative to the base path: so it is found behind a proxy's prefix, too."""

TASK_PAGE = f"{PAGE}?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}"
"""The page of the job that a task instance runs; Airflow fills in the names."""


class AdaptivePlugin(AirflowPlugin):
    """REST API and page of adaptive jobs."""

    name = "airflow_adaptive"
    external_views: list[dict[str, Any]] = [  # noqa: RUF012  Airflow's base class declares it so
        {
            "name": "Adaptive jobs",
            "href": PAGE,
            "destination": "nav",
            "category": "browse",
            "url_route": "adaptive-jobs",
        },
        {
            "name": "Adaptive job",
            "href": TASK_PAGE,
            "destination": "task_instance",
            "url_route": "adaptive-job",
        },
    ]

    @cached_property
    def timetables(self) -> list[Any]:  # type: ignore[override]
        """The timetable of rescale policies, imported where DAGs are read and scheduled."""
        from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable  # noqa: PLC0415  other processes need it not

        return [RescalePolicyTimetable]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The app, made when the API server asks for it."""
        from airflow_adaptive.plugin.api.app import create_app  # noqa: PLC0415  other processes need no FastAPI

        return [{"app": create_app(), "url_prefix": PREFIX, "name": "Adaptive jobs"}]
