"""The app that Airflow's API server mounts at `/adaptive`: the REST API at `/adaptive/api/v1`, and the page at `/adaptive/ui/`.

The OpenAPI document is FastAPI's, completed with the errors of each operation; a page without scripts renders it. Errors of the
REST API are RFC 9457 problem details. They contain no internal information.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_adaptive import __version__
from airflow_adaptive._web.api import ui_files
from airflow_adaptive._web.api.routes import events, jobs, observations, requirements
from airflow_adaptive._web.api.schemas import Problem, VertexRequirements
from airflow_adaptive._web.api.security import get_user
from airflow_adaptive._web.data.errors import RequestRefusedError

log = logging.getLogger(__name__)

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
    render_errors(app)
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


MEDIA_TYPE: Final = "application/problem+json"

KIND: Final = "urn:airflow-adaptive:problem:"

DATABASE_ERRORS: Final = (OperationalError, InterfaceError, PoolTimeoutError)
"""Errors of the metadata database that a later request may not have: no connection, a lost connection, no free connection, or a deadlock."""

DATABASE_RETRY_AFTER_S: Final = 5

MAX_ERRORS: Final = 20
MAX_CHARACTERS: Final = 500
"""Limits of the problem details, so that a large invalid request does not cause a large response."""


def response(error: RequestRefusedError, instance: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response for an error."""
    found = dict(headers or {})
    if error.retry_after_s is not None:
        found["Retry-After"] = str(error.retry_after_s)
    if error.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        found["Connection"] = "close"
    errors = [violation[:MAX_CHARACTERS] for violation in error.violations[:MAX_ERRORS]]
    if len(error.violations) > MAX_ERRORS:
        errors.append(f"... and {len(error.violations) - MAX_ERRORS} more")
    content: dict[str, Any] = {
        "type": KIND + error.kind,
        "title": error.status.phrase,
        "status": error.status.value,
        "detail": error.detail[:MAX_CHARACTERS],
        "instance": instance,
    }
    if errors:
        content["errors"] = errors
    return JSONResponse(content, error.status.value, found, MEDIA_TYPE)


def render_errors(app: FastAPI) -> None:
    """Render all errors of an app as problem details."""
    for kind in (RequestRefusedError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _on_error)
    for database_error in DATABASE_ERRORS:
        app.add_exception_handler(database_error, _on_database_error)
    app.add_middleware(Outermost)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    """Render an error of this package, of Starlette, or of Airflow's dependencies."""
    match error:
        case RequestRefusedError():
            return response(error, request.url.path)
        case RequestValidationError():
            errors = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            detail = "; ".join(errors) or "invalid parameters"
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            return response(RequestRefusedError(status, "invalid-parameters", detail, errors), request.url.path)
        case _:
            assert isinstance(error, HTTPException), "`render_errors` names no other class"
            return _http_response(error, request.url.path)


async def _on_database_error(request: Request, error: Exception) -> JSONResponse:
    """Render an error of the database. Only the log contains its text, which may quote statements."""
    log.warning("%s %s failed: %s", request.method, json.dumps(request.url.path), type(error).__name__, exc_info=error)
    detail = "Airflow's database is unavailable. Please retry."
    unavailable = RequestRefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE, "database-unavailable", detail, retry_after_s=DATABASE_RETRY_AFTER_S
    )
    return response(unavailable, request.url.path)


def _http_response(error: HTTPException, instance: str) -> JSONResponse:
    status, headers = HTTPStatus(error.status_code), dict(error.headers or {})
    if status is HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", "Bearer")
    kind = status.phrase.lower().replace(" ", "-")
    return response(RequestRefusedError(status, kind, str(error.detail)), instance, headers)


class Outermost:
    """ASGI middleware: adds the common headers to all responses, and renders unexpected errors, which only the log describes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                if not any(name.lower() == b"cache-control" for name, _ in message["headers"]):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            log.exception("%s %s failed", scope["method"], json.dumps(scope["path"]))
            if started:
                raise
            detail = "An internal error occurred. The log of the API server contains the details."
            unexpected = RequestRefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)
            await response(unexpected, scope["path"])(scope, receive, send_with_headers)
