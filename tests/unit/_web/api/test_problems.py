"""Each error of the REST API is a problem that names its kind and its request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from fastapi import FastAPI, HTTPException
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.testclient import TestClient

from airflow_adaptive._web.api.app import render_errors
from airflow_adaptive._web.data.errors import RequestRefusedError, not_found


def test_app_starts_and_stops() -> None:
    """The server of an app talks to it also before the first request and after the last one."""
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        happened.append("started")
        yield
        happened.append("stopped")

    app = FastAPI(lifespan=lifespan)
    render_errors(app)
    with TestClient(app) as client:
        assert client.get("/absent").status_code == 404
    assert happened == ["started", "stopped"]


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("SELECT secret", {}, OSError("connection refused")),
        InterfaceError("SELECT secret", {}, OSError("connection already closed")),
        PoolTimeoutError("QueuePool limit of size 5 overflow 10 reached"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_unavailable_database_invites_to_retry(error: Exception) -> None:
    app = FastAPI()
    render_errors(app)

    @app.get("/jobs")
    def jobs() -> None:
        raise error

    with TestClient(app) as client:
        answer = client.get("/jobs")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["type"], "secret" in answer.text) == (
        "urn:airflow-adaptive:problem:database-unavailable",
        False,
    )


@pytest.mark.parametrize(
    ("error", "status", "kind", "connection"),
    [
        (not_found("no job"), 404, "not-found", None),
        (HTTPException(HTTPStatus.METHOD_NOT_ALLOWED), 405, "method-not-allowed", None),
        (RequestRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "too much"), 413, "too-large", "close"),
        (RuntimeError("secret"), 500, "internal", None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_problem_names_its_kind_and_the_path_of_the_request(
    error: Exception, status: int, kind: str, connection: str | None
) -> None:
    """The server closes the connection of a body that it does not read."""
    app = FastAPI()
    render_errors(app)

    @app.get("/jobs")
    def jobs() -> None:
        raise error

    with TestClient(app) as client:
        answer = client.get("/jobs", params={"state": "EXECUTING"})
    assert (answer.status_code, answer.headers.get("connection")) == (status, connection)
    document = answer.json()
    assert (document["status"], document["type"]) == (status, f"urn:airflow-adaptive:problem:{kind}")
    assert document["instance"] == "/jobs"
