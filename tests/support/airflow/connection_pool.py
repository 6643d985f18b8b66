"""A small pool of database connections for the API server, and parallel requests to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.support.airflow.airflow_app import AirflowApp

WAIT_S = 60
"""Longest wait for a connection, in seconds. A request that waits longer fails."""


@contextmanager
def small_pool(size: int) -> Iterator[Any]:
    """Give Airflow a pool of this size and without overflow; yield its engine."""
    from airflow import settings  # noqa: PLC0415
    from sqlalchemy import create_engine  # noqa: PLC0415
    from sqlalchemy.orm import scoped_session, sessionmaker  # noqa: PLC0415
    from sqlalchemy.pool import QueuePool  # noqa: PLC0415

    assert settings.engine is not None
    url = settings.engine.url
    arguments = {"timeout": WAIT_S, "check_same_thread": False} if url.get_backend_name() == "sqlite" else {}
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=size, max_overflow=0, pool_timeout=WAIT_S, connect_args=arguments
    )
    sessions = sessionmaker(engine, autocommit=False, autoflush=False, expire_on_commit=False)
    with (
        mock.patch.object(settings, "engine", engine),
        mock.patch.object(settings, "NonScopedSession", sessions),
        mock.patch.object(settings, "Session", scoped_session(sessions)),
    ):
        yield engine
    engine.dispose()


def responses_of(airflow_app: AirflowApp, requests: Sequence[dict[str, Any]], user: str = "editor") -> list[Any]:
    """Send all requests at the same time to one event loop, as clients of one API server do."""
    return asyncio.run(_send(airflow_app, requests, user))


async def _send(airflow_app: AirflowApp, requests: Sequence[dict[str, Any]], user: str) -> list[Any]:
    from httpx import ASGITransport, AsyncClient  # noqa: PLC0415

    headers = {"Authorization": f"Bearer {airflow_app.token(user)}"}
    transport = ASGITransport(airflow_app.app, raise_app_exceptions=False)
    async with AsyncClient(transport=transport, base_url="http://testserver", headers=headers, timeout=60) as client:
        return await asyncio.gather(*(client.request(**request) for request in requests))
