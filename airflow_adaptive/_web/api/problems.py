"""Errors of the REST API as RFC 9457 problem details. The problem details contain no internal information."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_adaptive._web.data.errors import RequestRefusedError

log = logging.getLogger(__name__)

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


def install(app: FastAPI) -> None:
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
            assert isinstance(error, HTTPException), "`install` names no other class"
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
