"""Errors as RFC 9457 problem details, everywhere, and without a word about the inside."""

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

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"

KIND: Final = "urn:airflow-adaptive:problem:"

MOST_ERRORS: Final = 200
MOST_CHARACTERS: Final = 500
"""What a problem tells at most: whoever sends much that is wrong gets no more back."""


class ProblemError(Exception):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        kind: name of the kind of problem, for programs.
        detail: for people: what is wrong, and what to do.
        errors: everything that is wrong, if that is more than one thing.
        headers: of the answer.
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


def not_found(detail: str) -> ProblemError:
    """Nothing is known under this name."""
    return ProblemError(HTTPStatus.NOT_FOUND, "not-found", detail)


def conflict(kind: str, detail: str, retry_after_s: int | None = None) -> ProblemError:
    """The job is not such that this could be done to it."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return ProblemError(HTTPStatus.CONFLICT, kind, detail, headers=headers)


def response(problem: ProblemError, instance: str) -> JSONResponse:
    """The answer that tells a problem."""
    errors = [error[:MOST_CHARACTERS] for error in problem.errors[:MOST_ERRORS]]
    if len(problem.errors) > MOST_ERRORS:
        errors.append(f"... and {len(problem.errors) - MOST_ERRORS} more")
    content: dict[str, Any] = {
        "type": KIND + problem.kind,
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail[:MOST_CHARACTERS],
        "instance": instance,
    }
    if errors:
        content["errors"] = errors
    return JSONResponse(content, problem.status.value, problem.headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Have all errors of an app told as problems."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_middleware(Outermost)


async def _on_problem(request: Request, error: Exception) -> JSONResponse:
    problem = error if isinstance(error, ProblemError) else _unexpected()
    return response(problem, request.url.path)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """What Starlette and Airflow's own dependencies raise."""
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
        "Something went wrong inside; nothing is known of it out here. The API server's log has the rest.",
    )


class Outermost:
    """ASGI middleware: adds what every answer has, and answers for what nobody expected, with its story in the log only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
                if not any(name.lower() == b"cache-control" for name, _ in message["headers"]):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception:
            log.exception("%s %s failed", scope["method"], json.dumps(scope["path"]))
            if started:
                raise
            await response(_unexpected(), scope["path"])(scope, receive, answer)
