"""A store that hangs for one job delays neither the loop of the job nor the stores of other jobs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.store import asset_store, store_access
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive._airflow.store.store_access import THREADS, BackgroundWriter, StoreAccess
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.view import TaskKey
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.airflow.fake_supervisor import Document, FakeComms
from tests.support.waiting import wait_until_async
from tests.unit._airflow.store.test_asset_store import VIEW

TIMEOUT_S = 60.0


class HangingComms(FakeComms):
    """A supervisor that does not answer messages about documents of some jobs until `release` is set, and lists the jobs whose documents are set."""

    def __init__(self) -> None:
        super().__init__()
        self.hanging: set[str] = set()
        self.writers: list[str] = []
        self.release = threading.Event()

    def send(self, message: Any) -> Any:
        answer = super().send(message)
        document = Document.of(message)
        if document is not None and document.is_set:
            self.writers.append(document.asset.removeprefix(JOBS) or message.task_id)
        if document is not None and {document.asset.removeprefix(JOBS), getattr(message, "task_id", "")} & self.hanging:
            self.release.wait(2 * TIMEOUT_S)
        return answer


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingComms]:
    monkeypatch.setattr(asset_store, "FIRST_READ_TIMEOUT", timedelta(seconds=TIMEOUT_S))
    fake = HangingComms.install(monkeypatch)
    assert isinstance(fake, HangingComms)
    yield fake
    fake.release.set()


class Jobs:
    """Stores of jobs that share the access to Airflow's stores."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.access = StoreAccess(self.clock)

    def store(self, job: str) -> AirflowJobStore:
        return AirflowJobStore(job, TaskKey(dag_id="d", task_id=job, run_id="r"), self.clock, self.access)

    async def read_later(self, store: AirflowJobStore) -> ControlRequests:
        """The control requests after the next read."""
        await self.clock.sleep(2)
        await store.control_requests()
        if store._reading is not None:
            await store._reading
        return await store.control_requests()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))


def test_read_that_hangs_delays_neither_its_loop_nor_other_jobs(
    airflow: HangingComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first read of a job never returns; another job shares the process and is canceled."""
    monkeypatch.setattr(asset_store, "FIRST_READ_TIMEOUT", timedelta(milliseconds=50))
    monkeypatch.setattr(store_access, "READ_TIMEOUT", timedelta(seconds=2 * TIMEOUT_S))
    airflow.hanging = {"hung"}
    airflow.asset_states = {"desired_state": {"value": "canceled"}}

    async def both() -> None:
        jobs = Jobs()
        hung, other = jobs.store("hung"), jobs.store("other")
        assert not (await hung.control_requests()).is_read
        assert (await jobs.read_later(other)).desired_state is DesiredState.CANCELED
        found = await hung.control_requests()
        assert (found.is_read, found.age) == (False, timedelta(seconds=2))

    run(both())


def test_known_requests_stay_while_a_read_hangs_and_late_answers_replace_nothing(
    airflow: HangingComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job runs, a read hangs and is abandoned, a user suspends the job, the next read returns, and then the old one."""

    async def story() -> None:
        jobs = Jobs()
        store = jobs.store("departures")
        assert (await store.control_requests()).is_read
        airflow.hanging = {"departures"}
        with monkeypatch.context() as hanging:
            hanging.setattr(store_access, "READ_TIMEOUT", timedelta(milliseconds=50))
            assert (await jobs.read_later(store)).desired_state is DesiredState.RUNNING
        airflow.hanging, airflow.asset_states = set(), {"desired_state": {"value": "suspended"}}
        assert (await jobs.read_later(store)).desired_state is DesiredState.SUSPENDED
        airflow.release.set()
        await asyncio.sleep(0.05)
        found = await store.control_requests()
        assert (found.desired_state, found.age) == (DesiredState.SUSPENDED, timedelta(0))

    run(story())


def test_age_of_control_requests_includes_the_time_of_their_read(airflow: HangingComms) -> None:
    """A request that a user makes while a read takes 20 s may be newer than what the read returns."""

    async def story() -> None:
        jobs = Jobs()
        store = jobs.store("departures")
        assert (await store.control_requests()).is_read
        airflow.hanging = {"departures"}
        await jobs.clock.sleep(2)
        await store.control_requests()
        await asyncio.sleep(0)  # The read begins.
        await jobs.clock.sleep(20)
        airflow.release.set()
        assert store._reading is not None
        await store._reading
        assert (await store.control_requests()).age == timedelta(seconds=20)

    run(story())


def test_connections_that_hang_do_not_delay_control_requests(airflow: HangingComms) -> None:
    """The backend of secrets hangs while many loops start; the control requests of another job are in the state store."""
    airflow.asset_states = {"desired_state": {"value": "canceled"}}

    async def story() -> None:
        jobs = Jobs()
        hung = [
            asyncio.create_task(jobs.access.read_connection(f"connection-{number}", airflow.release.wait))
            for number in range(2 * THREADS)
        ]
        await asyncio.sleep(0)
        found = await jobs.read_later(jobs.store("other"))
        assert found.desired_state is DesiredState.CANCELED
        airflow.release.set()
        await asyncio.wait(hung)

    run(story())


def test_states_of_running_jobs_are_written_before_those_of_ended_jobs_and_metrics(
    airflow: HangingComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred jobs of a fleet end at once, and each has twenty documents."""
    monkeypatch.setattr(store_access, "THREADS", 1)

    async def story() -> None:
        jobs = Jobs()
        asyncio.create_task(jobs.access.write(airflow.release.wait))  # noqa: RUF006
        await asyncio.sleep(0)
        stores = [jobs.store(job) for job in ("ends", "measures", "runs")]
        await stores[0].publish(replace(VIEW, outcome=Outcome.FINISHED))
        await stores[1].publish_metrics({"metrics/10": {"step": 10, "columns": [], "points": []}})
        await asyncio.sleep(0)
        await stores[2].publish(VIEW)
        await asyncio.sleep(0)
        airflow.release.set()

        async def are_written() -> bool:
            return len(set(airflow.writers)) == len(stores)

        await wait_until_async(are_written, TIMEOUT_S, "all writes")
        assert airflow.writers[0] == "runs"

    run(story())


def test_connection_that_hangs_does_not_delay_the_reads_of_other_connections(
    airflow: HangingComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop of one job reads its connection again and again; each read hangs. Other jobs start, one alone and then many at once."""
    monkeypatch.setattr(store_access, "READ_TIMEOUT", timedelta(seconds=0.2))

    async def story() -> None:
        access = Jobs().access
        for _ in range(3):
            hung = [access.read_connection("hangs", airflow.release.wait) for _ in range(THREADS // 2)]
            ends = asyncio.gather(*hung, return_exceptions=True)
            while not ends.done():
                assert await access.read_connection("healthy", lambda: "read") == "read"
                await asyncio.sleep(0)
            assert all(isinstance(error, StoreUnavailableError) for error in await ends)
        reads = [access.read_connection(f"healthy-{number}", lambda: "read") for number in range(3 * THREADS)]
        assert await asyncio.gather(*reads) == ["read"] * len(reads)
        airflow.release.set()

    run(story())


@pytest.mark.parametrize("hung_jobs", [1, THREADS - 1])
def test_writes_that_hang_delay_no_other_job(airflow: HangingComms, hung_jobs: int) -> None:
    """Some jobs publish metrics to a store that does not return; another job publishes its metrics, too."""
    airflow.hanging = {f"hung-{number}" for number in range(hung_jobs)}

    async def is_published() -> bool:
        return "metrics/60" in airflow.asset_states

    async def all_jobs() -> None:
        jobs = Jobs()
        for name in sorted(airflow.hanging):
            await jobs.store(name).publish_metrics({"metrics/10": {"from": name}})
        await asyncio.sleep(0.05)
        other = jobs.store("other")
        await other.publish_metrics({"metrics/60": {"from": "other"}})
        await wait_until_async(is_published, TIMEOUT_S, "the metrics of the other job", 0.01)
        assert (await other.control_requests()).is_read

    run(all_jobs())


def test_no_metrics_are_lost_while_a_write_hangs(airflow: HangingComms) -> None:
    """A write hangs, the job publishes two pages, then only one of them again, and the write returns."""
    airflow.hanging = {"departures"}

    async def are_published() -> bool:
        return {key: airflow.asset_states.get(key) for key in expected} == expected

    expected = {"metrics/10": {"at": 3}, "metrics/60": {"at": 2}}

    async def story() -> None:
        jobs = Jobs()
        store = jobs.store("departures")
        for metrics in (
            {"metrics/10": {"at": 1}},
            {"metrics/10": {"at": 2}, "metrics/60": {"at": 2}},
            {"metrics/10": {"at": 3}},
        ):
            await store.publish_metrics(metrics)
            await asyncio.sleep(0.05)
            await jobs.clock.sleep(60)
        airflow.hanging = set()
        airflow.release.set()
        await wait_until_async(are_published, TIMEOUT_S, "both pages", 0.01)

    run(story())


def test_documents_that_arrive_during_a_write_are_written_after_it() -> None:
    written: list[int] = []

    async def story() -> None:
        async def write(number: int) -> bool:
            written.append(number)
            if number == 1:
                writer.put(2)
                writer.put(3)
            return True

        writer = BackgroundWriter(write, ManualClock())
        writer.put(1)
        await writer.finish(timedelta(minutes=1))

    run(story())
    assert written == [1, 3]


def test_write_that_hangs_ends_after_the_timeout_of_writes(
    airflow: HangingComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_access, "READ_TIMEOUT", timedelta(seconds=2 * TIMEOUT_S))
    monkeypatch.setattr(store_access, "WRITE_TIMEOUT", timedelta(milliseconds=50))

    async def story() -> None:
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.05 s"):
            await StoreAccess(ManualClock()).write(airflow.release.wait)

    run(story())


def test_write_that_must_be_repeated_waits_before_each_repetition() -> None:
    """The store refuses two writes; without a delay, the writer would keep the store and the event loop busy."""
    clock = ManualClock()
    attempts: list[float] = []

    async def write(_: int) -> bool:
        attempts.append(clock.elapsed)
        return len(attempts) == 3

    async def story() -> None:
        writer = BackgroundWriter(write, clock)
        writer.put(1)
        await writer.finish(timedelta(seconds=TIMEOUT_S))

    run(story())
    assert attempts == [0, 2, 4]
