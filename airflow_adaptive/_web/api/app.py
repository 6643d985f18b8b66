"""The app that Airflow's API server mounts at `/adaptive`: the REST API at `/adaptive/api/v1`, and the page at `/adaptive/ui/`."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from airflow_adaptive import __version__
from airflow_adaptive._web.api import openapi, problems, ui_files
from airflow_adaptive._web.api.routes import events, jobs, observations, requirements, rescales
from airflow_adaptive._web.api.security import get_user

API: Final = "/api/v1"

DESCRIPTION: Final = """
Monitor and control adaptive jobs. Log in as for Airflow's own API. To read a job, you need the permission to read every DAG whose
tasks run the job. To change a job, you need the permission to edit all of these DAGs. Errors are RFC 9457 problem details.
"""


def create_app() -> FastAPI:
    """Create the app. All routes require a login, except for the page, which contains no data."""
    app = FastAPI(
        title="Adaptive jobs",
        version=__version__,
        description=DESCRIPTION.strip(),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    api = APIRouter(prefix=API, dependencies=[Depends(get_user)])
    for module in (jobs, requirements, observations, rescales, events):
        api.include_router(module.router)
    api.add_api_route("/openapi.json", _openapi_json, include_in_schema=False)
    api.add_api_route("/docs", _docs, include_in_schema=False)
    app.include_router(api)
    ui_files.mount(app)
    problems.install(app)
    return app


@cache
def schema(app: FastAPI, root_path: str) -> dict[str, Any]:
    """Return the OpenAPI document, including the error responses of all operations."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    return openapi.completed(document, root_path)


def _openapi_json(request: Request) -> JSONResponse:
    return JSONResponse(schema(request.app, request.scope.get("root_path", "")))


def _docs(request: Request) -> HTMLResponse:
    return HTMLResponse(openapi.page(schema(request.app, request.scope.get("root_path", ""))))
