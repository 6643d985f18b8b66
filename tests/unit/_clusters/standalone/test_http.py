"""Requests to servers that do not end their responses, and requests of many loops at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_adaptive._clusters.standalone import http
from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress, parse_address
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._clusters.standalone.credentials import Credentials
from airflow_adaptive._clusters.standalone.errors import NoAnswerError, NotConnectedError
from airflow_adaptive._clusters.standalone.http import MAX_CONNECTIONS, Http
from airflow_adaptive._core.ports import DriverSubmission, NotSubmittedError
from tests.support.servers.fake_master import FakeMaster
from tests.support.servers.tls_server import TlsServer


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
    client = Http(address, Credentials(address), transport)
    with pytest.raises(NoAnswerError, match=r"http://h1:8080/json/: no complete answer within 0\.15 s: is it up\?"):
        await client.request("GET", "http://h1:8080/json/", lambda decoded: decoded, "is it up?")
    await client.close()


def of_jobs(count: int) -> list[DriverSubmission]:
    return [DriverSubmission(name=f"job-{number}", epoch=1, nonce="n", script="job.py") for number in range(count)]


@pytest.mark.asyncio
async def test_requests_of_many_loops_do_not_exceed_the_connections_that_a_server_accepts() -> None:
    """All jobs of a process submit their drivers at once."""
    with FakeMaster() as master:
        master.delay_s = 0.5
        client = StandaloneCluster(master.address)
        submissions = await asyncio.gather(*(client.submit(submission) for submission in of_jobs(150)))
        await client.close()
    assert len(set(submissions)) == 150
    assert master.most_at_once <= MAX_CONNECTIONS


@pytest.mark.asyncio
async def test_submission_waits_for_a_connection_longer_than_for_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master answers slowly, and so many jobs submit their drivers over one connection that the last one waits for three timeouts."""
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    with FakeMaster() as master:
        master.delay_s = 0.5
        client = StandaloneCluster(replace(master.address, timeout_s=3))
        assert len(await asyncio.gather(*(client.submit(submission) for submission in of_jobs(20)))) == 20
        await client.close()


@pytest.mark.asyncio
async def test_submission_that_gets_no_connection_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may send it again, or to another master."""
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(http, "POST_QUEUE_TIMEOUT_S", 0.1)
    with FakeMaster() as master:
        master.delay_s = 2
        client = StandaloneCluster(replace(master.address, timeout_s=60))
        results = await asyncio.gather(*map(client.submit, of_jobs(2)), return_exceptions=True)
        await client.close()
    assert sorted(map(type, results), key=str) == [NotSubmittedError, str]


async def answer_over_tls(server: TlsServer, address: ClusterAddress) -> Any:
    client = Http(address, Credentials(address))
    try:
        return await client.request("GET", f"https://127.0.0.1:{server.port}/", lambda decoded: decoded, "is it up?")
    finally:
        await client.close()


def connection(**extra: Any) -> ClusterAddress:
    return parse_address("spark://127.0.0.1", None, None, extra)


@pytest.mark.asyncio
async def test_certificate_of_an_unknown_issuer_is_refused_by_default(tmp_path: Path) -> None:
    unconfigured = ClusterAddress(masters=(MasterAddress(host="127.0.0.1"),))
    with TlsServer(tmp_path) as server:
        for address in (unconfigured, connection(), connection(verify=True)):
            with pytest.raises(NotConnectedError, match="certificate"):
                await answer_over_tls(server, address)


@pytest.mark.asyncio
async def test_certificate_is_accepted_if_its_issuer_is_configured_or_the_check_is_off(tmp_path: Path) -> None:
    with TlsServer(tmp_path) as server:
        assert await answer_over_tls(server, connection(verify=str(server.certificate))) == {}
        assert await answer_over_tls(server, connection(verify=False)) == {}


@pytest.mark.asyncio
async def test_certificate_of_another_issuer_than_the_configured_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with TlsServer(tmp_path) as server, TlsServer(tmp_path / "other") as other:
        address = connection(verify=str(other.certificate))
        with pytest.raises(NotConnectedError, match="certificate"):
            await answer_over_tls(server, address)
