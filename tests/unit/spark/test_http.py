"""Requests to servers that do not end their responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from airflow_adaptive.spark.address import ClusterAddress, MasterAddress
from airflow_adaptive.spark.credentials import Credentials
from airflow_adaptive.spark.errors import NoAnswerError
from airflow_adaptive.spark.http import Http


@pytest.mark.asyncio
@pytest.mark.parametrize("pause_s", [0.0, 0.001])
async def test_response_that_does_not_end_is_no_answer(pause_s: float) -> None:
    """Each read of the response is quick, so that no single read times out. One poll that hangs would stop all loops of a process."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(pause_s)
            yield b" "

    address = ClusterAddress(masters=(MasterAddress(host="h1"),), timeout_s=0.05)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    http = Http(address, Credentials(address), transport)
    with pytest.raises(NoAnswerError, match=r"http://h1:8080/json/: no complete answer within 0\.1 s: is it up\?"):
        await http.request("GET", "http://h1:8080/json/", lambda decoded: decoded, "is it up?")
    await http.close()
