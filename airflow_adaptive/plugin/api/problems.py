"""Errors of the REST API as RFC 9457 problem details. The problem details contain no internal information."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_adaptive.plugin.data.errors import RequestRefusedError

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"

KIND: Final = "urn:airflow-adaptive:problem:"

MAX_ERRORS: Final = 200
MAX_CHARACTERS: Final = 500
"""Limits of the problem details, so that a large invalid request does not cause a large response."""


class ProblemError(Exception):
    """An error response.

    Attributes:
        status: HTTP status.
        kind: name of the kind of problem, for programs.
        detail: human-readable description of the problem and of its fix.
        errors: all violations, if the request has several.
        headers: headers of the response.
    """

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        errors: Sequence[str] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = headers or {}


def response(problem: ProblemError, instance: str) -> JSONResponse:
    """The response for a problem.

    Args:
        problem: problem to render.
        instance: path of the request.
    """
    errors = [error[:MAX_CHARACTERS] for error in problem.errors[:MAX_ERRORS]]
    if len(problem.errors) > MAX_ERRORS:
        errors.append(f"... and {len(problem.errors) - MAX_ERRORS} more")
    content: dict[str, Any] = {
        "type": KIND + problem.kind,
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail[:MAX_CHARACTERS],
        "instance": instance,
    }
    if errors:
        content["errors"] = errors
    return JSONResponse(content, problem.status.value, problem.headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Render all errors of an app as problem details."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestRefusedError, _on_refused)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_middleware(Outermost)


async def _on_problem(request: Request, error: Exception) -> JSONResponse:
    problem = error if isinstance(error, ProblemError) else _unexpected()
    return response(problem, request.url.path)


async def _on_refused(request: Request, error: Exception) -> JSONResponse:
    """Render an error of the data layer."""
    if not isinstance(error, RequestRefusedError):
        return response(_unexpected(), request.url.path)
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return response(ProblemError(error.status, error.kind, error.detail, error.violations, headers), request.url.path)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Render an error of Starlette, or of Airflow's dependencies."""
    if not isinstance(error, HTTPException):
        return response(_unexpected(), request.url.path)
    status, headers = HTTPStatus(error.status_code), dict(error.headers or {})
    if status is HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", "Bearer")
    kind = status.phrase.lower().replace(" ", "-")
    return response(ProblemError(status, kind, str(error.detail), headers=headers), request.url.path)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    errors = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found]
    problem = ProblemError(
        HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-parameters", "; ".join(errors) or "invalid parameters", errors
    )
    return response(problem, request.url.path)


def _unexpected() -> ProblemError:
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        "An internal error occurred. The log of the API server contains the details.",
    )


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
            await response(_unexpected(), scope["path"])(scope, receive, send_with_headers)
