"""What a worker shows of a driver's output."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import pytest_asyncio

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._clusters.standalone.http import ProtocolError
from airflow_adaptive._clusters.standalone.rest import MAX_BYTES, log_pages, log_url, read_log
from airflow_adaptive._core.ports import ClusterUnreachableError, DriverLog

DRIVER = "driver-20261121083719-0000"
WORKER = {"id": "w", "webuiaddress": "http://w:8081", "cores": 1, "coresfree": 1, "memory": 9, "memoryfree": 9}
STATE = {
    "status": "ALIVE",
    "workers": [{**WORKER, "state": "ALIVE"}],
    "activeapps": [],
    "completeddrivers": [{"id": DRIVER, "worker": "w"}, {"id": "driver-2", "worker": "gone"}, {"id": "driver-3"}],
}


def answer(text: str, begin: int = 0) -> str:
    return f"==== Bytes {begin}-{begin + len(text)} of 999 of /work/{DRIVER}/stdout ====\n{text}"


def test_page_and_text_are_at_the_worker() -> None:
    page = log_pages("http://w:8081", DRIVER).stderr
    assert page == f"http://w:8081/logPage/?driverId={DRIVER}&logType=stderr"
    assert log_url(page) == f"http://w:8081/log/?driverId={DRIVER}&logType=stderr&byteLength={MAX_BYTES}"


def test_id_can_not_add_to_the_query() -> None:
    assert "driverId=d%26logType%3Dx" in log_pages("http://w:8081", "d&logType=x").stdout


@pytest.mark.parametrize(
    ("text", "log"),
    [
        (answer("one\ntwo\n"), "one\ntwo\n"),
        (answer("e\ntwo\n", begin=2), "two\n"),
        (answer(""), ""),
        (answer("Error: invalid log directory /work/gone/"), ""),
    ],
)
def test_log_begins_with_its_first_complete_line(text: str, log: str) -> None:
    assert read_log(text) == log


@pytest.mark.parametrize("text", ["", "<html>some other server</html>"])
def test_foreign_text_is_no_log(text: str) -> None:
    with pytest.raises(ProtocolError):
        read_log(text)


# ---- the client -----------------------------------------------------------------------------------------------------

Worker = Callable[[httpx.Request], httpx.Response]


@pytest_asyncio.fixture
async def client_of() -> AsyncIterator[Callable[[Worker], StandaloneCluster]]:
    """A client of a cluster whose worker gives these responses."""
    clients: list[StandaloneCluster] = []

    def make(worker: Worker) -> StandaloneCluster:
        def handle(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json=STATE) if request.url.host == "h1" else worker(request)

        address = ClusterAddress(
            masters=(MasterAddress(host="h1"),), token="bearer", conf={"spark.my.secret": "hush-hush"}
        )
        clients.append(StandaloneCluster(address, transport=httpx.MockTransport(handle)))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


@pytest.mark.asyncio
async def test_secrets_of_the_cluster_are_masked(client_of: Callable[[Worker], StandaloneCluster]) -> None:
    client = client_of(lambda _: httpx.Response(200, text=answer("with hush-hush and bearer\n")))
    assert (await client.driver_log(DRIVER)).stdout == "with *** and ***\n"


@pytest.mark.asyncio
async def test_log_of_a_driver_on_no_living_worker_is_empty(client_of: Callable[[Worker], StandaloneCluster]) -> None:
    client = client_of(lambda _: httpx.Response(500))
    for driver in ("driver-2", "driver-3", "driver-4"):
        assert await client.driver_log(driver) == DriverLog()


@pytest.mark.asyncio
async def test_worker_that_sends_without_end_is_not_read_to_the_end(
    client_of: Callable[[Worker], StandaloneCluster],
) -> None:
    async def forever() -> AsyncIterator[bytes]:
        yield answer("").encode()
        while True:
            yield b"x" * 1024

    client = client_of(lambda _: httpx.Response(200, content=forever()))
    assert len((await client.driver_log(DRIVER)).stdout) < 2 * MAX_BYTES


@pytest.mark.asyncio
@pytest.mark.parametrize("code", [401, 404, 500])
async def test_worker_that_does_not_report_is_named(
    code: int, client_of: Callable[[Worker], StandaloneCluster]
) -> None:
    client = client_of(lambda _: httpx.Response(code, text="no"))
    with pytest.raises(ClusterUnreachableError, match="http://w:8081/log/"):
        await client.driver_log(DRIVER)


@pytest.mark.asyncio
async def test_many_loops_that_read_logs_at_once_request_the_state_of_the_cluster_once() -> None:
    """The storage fails, the drivers of 50 jobs end at once, and each loop reads the log of its driver."""
    requests: list[str] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.path)
        await asyncio.sleep(0)
        return httpx.Response(200, json=STATE) if request.url.host == "h1" else httpx.Response(200, text=answer("x\n"))

    address = ClusterAddress(masters=(MasterAddress(host="h1"),))
    client = StandaloneCluster(address, transport=httpx.MockTransport(handle))
    logs = await asyncio.gather(*(client.driver_log(DRIVER) for _ in range(50)))
    assert {log.stdout for log in logs} == {"x\n"}
    assert requests.count("/json/") == 1
    assert (await client.driver_log(DRIVER)).stdout == "x\n"
    assert requests.count("/json/") == 2
    await client.close()


@pytest.mark.asyncio
async def test_error_of_a_state_without_a_waiting_loop_is_not_reported_as_unhandled() -> None:
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()
    unhandled: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))

    async def handle(_: httpx.Request) -> httpx.Response:
        await is_over.wait()
        return httpx.Response(500)

    client = StandaloneCluster(
        ClusterAddress(masters=(MasterAddress(host="h1"),)), transport=httpx.MockTransport(handle)
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.driver_log(DRIVER), timeout=0.01)
    is_over.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    await client.close()
    del client
    gc.collect()
    assert unhandled == []
