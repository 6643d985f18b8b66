"""The app that renders errors, at its edges."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.testclient import TestClient

from airflow_adaptive.plugin.api.problems import install


def test_app_starts_and_stops() -> None:
    """The server of an app talks to it also before the first request and after the last one."""
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        happened.append("started")
        yield
        happened.append("stopped")

    app = FastAPI(lifespan=lifespan)
    install(app)
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
    install(app)

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
