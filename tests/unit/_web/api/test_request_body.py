"""Bodies at the limit of their size."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from fastapi import Request
from starlette.types import Message

from airflow_adaptive._web.api.security import MAX_BODY_BYTES, body_of
from airflow_adaptive._web.data.errors import RequestRefusedError

USER: Any = None
"""The body does not depend on the user."""


def body_with(headers: Mapping[str, str], *pieces: bytes) -> bytes:
    """Return the body of a request that sends some pieces. To read more pieces is an error."""
    messages = iter(pieces)

    async def receive() -> Message:
        piece = next(messages, None)
        assert piece is not None, "the server read more than it needs"
        return {"type": "http.request", "body": piece, "more_body": piece != pieces[-1]}

    named = {"content-type": "application/json", **headers}
    scope = {"type": "http", "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()]}
    return asyncio.run(body_of(USER, Request(scope, receive)))


def test_body_that_declares_a_length_over_the_limit_is_not_read() -> None:
    with pytest.raises(RequestRefusedError) as refused:
        body_with({"Content-Length": str(MAX_BODY_BYTES + 1)})
    assert refused.value.status == 413


def test_rest_of_a_body_over_the_limit_is_not_read() -> None:
    with pytest.raises(RequestRefusedError) as refused:
        body_with({}, b" " * MAX_BODY_BYTES, b" ")
    assert refused.value.status == 413


@pytest.mark.parametrize("headers", [{}, {"Content-Length": str(MAX_BODY_BYTES)}, {"Content-Length": "unknown"}])
def test_body_at_the_limit_is_read(headers: dict[str, str]) -> None:
    assert body_with(headers, b"x" * (MAX_BODY_BYTES - 1), b"y") == b"x" * (MAX_BODY_BYTES - 1) + b"y"
