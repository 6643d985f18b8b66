"""The app that Airflow's API server mounts at `/adaptive`: the REST API at `/adaptive/api/v1`, and the page at `/adaptive/ui/`.

The OpenAPI document is FastAPI's, completed with the errors of each operation; a page without scripts renders it.
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from airflow_adaptive import __version__
from airflow_adaptive._web.api import problems, ui_files
from airflow_adaptive._web.api.problems import KIND, MEDIA_TYPE
from airflow_adaptive._web.api.routes import events, jobs, observations, requirements
from airflow_adaptive._web.api.schemas import Problem, VertexRequirements
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
    for router in (jobs.router, requirements.router, observations.router, observations.rescales_router, events.router):
        api.include_router(router)
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
    return completed(document, root_path)


def _openapi_json(request: Request) -> JSONResponse:
    return JSONResponse(schema(request.app, request.scope.get("root_path", "")))


def _docs(request: Request) -> HTMLResponse:
    return HTMLResponse(page(schema(request.app, request.scope.get("root_path", ""))))


EXAMPLES: Final = Path(__file__).parent / "examples.json"
"""File with one response per operation."""

SAME_EXAMPLE: Final = dict.fromkeys(("cancel_job", "suspend_job", "resume_job"), "get_job")
"""Operation -> operation with the same response."""

REF: Final = "#/components/schemas/{model}"

TAGS: Final = [
    {"name": "Jobs", "description": "Lists and details of jobs, and requests to cancel, suspend and resume."},
    {"name": "Resource requirements", "description": "Bounds of the parallelism of a job (FLIP-291)."},
    {"name": "Observations", "description": "Plan, metrics, transitions and failures of a job."},
    {"name": "Rescales", "description": "Rescales of a job and their statistics. Durations are in seconds."},
]

ALWAYS: Final = {
    "401": ("not-authenticated", "The request has no valid login."),
    "403": ("forbidden", "You do not have the permission for every DAG that runs the job."),
    "404": (
        "not-found",
        "The job does not exist, you may not read the job, or the job has not published the requested information yet.",
    ),
    "422": ("invalid-parameters", "A parameter is invalid."),
    "500": ("internal", "An internal error occurred."),
    "503": ("database-unavailable", "Airflow's database is unavailable."),
}
"""Error responses of every operation. Lists have no 403 and 404."""

CHANGING: Final = {
    "409": (
        "conflict",
        "The state of the job does not allow the request: the job has ended, is a batch job, or is unknown.",
    ),
    "413": ("too-large", "The body is too large."),
    "415": ("unsupported-media-type", "The header Content-Type is not application/json."),
    "503": (
        "not-persisted",
        "The database is unavailable, or did not persist the request. The request has not been applied.",
    ),
}

WITH_BODY: Final = {"400": ("invalid-requirements", "The body is invalid. The problem lists all violations.")}

PUTTING: Final = {"412": ("lost-update", "The requirements do not match If-Match.")}

WATCHING: Final = {
    "429": ("too-many-subscriptions", "You watch too many jobs on this server."),
    "503": (
        "too-many-subscribers",
        "Too many clients watch jobs on this server, or Airflow's database is unavailable.",
    ),
}


OUTSIDE: Final = {
    "409": ("no-driver", "The job was not deployed yet, or has no driver."),
    "502": ("unreachable", "The API server cannot reach the job directory or the cluster, or the output was removed."),
}


def completed(document: dict[str, Any], root_path: str) -> dict[str, Any]:
    """Return the document with error responses, tags and the address of the server."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for model in (Problem, VertexRequirements):
        _add_schema(schemas, model)
    examples = json.loads(EXAMPLES.read_text())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_problems(operation, _problems(path, method))
            _add_example(operation, examples)
    return {**document, "servers": [{"url": root_path or "/"}], "tags": TAGS}


def _add_schema(schemas: dict[str, Any], model: type[Any]) -> None:
    found = model.model_json_schema(ref_template=REF)
    schemas.update(found.pop("$defs", {}))
    schemas[model.__name__] = found


def _add_example(operation: dict[str, Any], examples: dict[str, Any]) -> None:
    name = operation["operationId"]
    example = examples.get(SAME_EXAMPLE.get(name, name))
    for status in ("200", "202"):
        content = operation["responses"].get(status, {}).get("content", {}).get("application/json")
        if content is not None and example is not None:
            content["example"] = example


def _problems(path: str, method: str) -> dict[str, tuple[str, str]]:
    found = dict(ALWAYS)
    if "{job}" not in path:
        del found["403"], found["404"]
    if method != "get":
        found |= CHANGING
    if "resource-requirements" in path and method not in ("get", "delete"):
        found |= WITH_BODY
    if method == "put":
        found |= PUTTING
    if path.endswith("/driver-log"):
        found |= OUTSIDE
    if path.endswith("/events"):
        found |= WATCHING
    return found


def _add_problems(operation: dict[str, Any], problems: dict[str, tuple[str, str]]) -> None:
    for status, (kind, description) in sorted(problems.items()):
        example = {"type": KIND + kind, "title": kind, "status": int(status), "detail": description, "instance": "/"}
        operation["responses"][status] = {
            "description": description,
            "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(model="Problem")}, "example": example}},
        }


def page(document: dict[str, Any]) -> str:
    """Render the document as an HTML page."""
    operations = [
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    style = "body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem;color-scheme:light dark}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f'<h1>{title}</h1><p>{escape(document["info"]["description"])}</p><p><a href="openapi.json">openapi.json</a></p>'
        f"{''.join(operations)}</html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    responses = [
        f"<li>{escape(status)}: {escape(response['description'])}</li>"
        for status, response in sorted(operation["responses"].items())
    ]
    example = "" if body is None else f"<p>Body: <code>{escape(json.dumps(body))}</code></p>"
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
        f"<ul>{''.join(parameters)}</ul>{example}<details><summary>Responses</summary><ul>{''.join(responses)}</ul></details>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    name, where = escape(parameter["name"]), escape(parameter["in"])
    return f"<li><code>{name}</code> ({where}): {escape(parameter.get('description', ''))}</li>"
