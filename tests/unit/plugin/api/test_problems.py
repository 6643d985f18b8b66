"""The app that renders errors, at its edges."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
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
