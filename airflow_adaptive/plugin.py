"""The Airflow plugin (entry point `airflow.plugins`). Every Airflow process loads this module, so its imports must be cheap.

Only the API server reads `fastapi_apps`. With a version of Airflow that is too old, the plugin offers nothing, and each process logs one line.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_adaptive._airflow.internals import UnsupportedAirflowError, unsupported_airflow, untested_airflow

log = logging.getLogger(__name__)

PREFIX = "/adaptive"
"""Path of the app in the API server, below its base path."""

PAGE = "adaptive/ui/"
"""Address of the page, relative to the base path. A relative address also works below the prefix of a proxy."""

TASK_PAGE = f"{PAGE}?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}"
"""Address of the page of a task instance's job. Airflow replaces the placeholders."""


class AdaptivePlugin(AirflowPlugin):
    """REST API and page of adaptive jobs, and the timetable of rescale policies."""

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

    @classmethod
    def on_load(cls, *_: Any, **__: Any) -> None:
        """Report a version of Airflow that is not supported."""
        if problem := unsupported_airflow():
            log.error("%s.", problem)
        elif problem := untested_airflow():
            log.warning("%s.", problem)

    @cached_property
    def timetables(self) -> list[Any]:  # type: ignore[override]
        """The timetable of rescale policies, which only the processes that parse and schedule DAGs import.

        An error must not stop Airflow's scheduler. Without the timetable, only the DAGs that use it cannot be loaded.
        """
        if unsupported_airflow():
            return []
        try:
            from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable  # noqa: PLC0415  other processes do not need it
        except Exception:
            log.exception("The timetable of rescale policies cannot be loaded")
            return []
        return [RescalePolicyTimetable]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The app, which only the API server creates.

        The app uses modules that are internal to Airflow. An error must not stop the API server, so an app that explains the error replaces
        the app.
        """
        return [{"app": _app(), "url_prefix": PREFIX, "name": "Adaptive jobs"}]


def _app() -> Any:
    if problem := unsupported_airflow():
        from airflow_adaptive._web import unavailable  # noqa: PLC0415  other processes do not need Starlette

        return unavailable.create_app(UnsupportedAirflowError(problem))
    try:
        from airflow_adaptive._web.api.app import create_app  # noqa: PLC0415  other processes do not need FastAPI

        return create_app()
    except Exception as error:
        log.exception("The REST API and the page of adaptive jobs cannot be loaded")
        from airflow_adaptive._web import unavailable  # noqa: PLC0415  other processes do not need Starlette

        return unavailable.create_app(error)
