"""An API server for the tests of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.kubernetes.client.fake_api import FakeApi


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApi]:
    async with FakeApi().running() as running:
        yield running
