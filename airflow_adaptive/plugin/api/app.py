"""The app that Airflow's API server mounts at `/adaptive`: the REST API below `/adaptive/api/v1`, the page at `/adaptive/ui/`."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from airflow_adaptive import __version__
from airflow_adaptive.plugin.api import openapi, problems, ui_files
from airflow_adaptive.plugin.api.routes import events, jobs, observations, requirements, rescales
from airflow_adaptive.plugin.api.security import get_user

API: Final = "/api/v1"

DESCRIPTION: Final = """
Adaptive jobs: what they do, what they may use, and control over them. Log in as for Airflow's own API. A job may be read by those
who may read every DAG that names its Asset, and changed by those who may edit every one of them. Errors are RFC 9457 problem details.
"""


def create_app() -> FastAPI:
    """The app; all but the page, which has no data, is for those who are logged in, the API's documentation too."""
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
    """The OpenAPI document, with the errors that every operation may answer with."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    return openapi.completed(document, root_path)


def _openapi_json(request: Request) -> JSONResponse:
    return JSONResponse(schema(request.app, request.scope.get("root_path", "")))


def _docs(request: Request) -> HTMLResponse:
    return HTMLResponse(openapi.page(schema(request.app, request.scope.get("root_path", ""))))
