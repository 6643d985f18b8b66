"""Writes that take effect late, after their loop has ended or has abandoned them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.execution_time import comms

from airflow_adaptive._airflow.store import asset_store, store_access
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.control_requests import READS_BETWEEN, end_job, store_request
from airflow_adaptive._airflow.store.job_asset import record
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE, ControlRequest
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.view import SchedulerStateName, TaskKey
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.airflow.fake_supervisor import Document, FakeComms
from tests.support.waiting import wait_until_async
from tests.unit._airflow.store.test_asset_store import VIEW

TIMEOUT_S = 60.0

OLD, NEW = (replace(VIEW, state=state) for state in (SchedulerStateName("Executing"), SchedulerStateName("Restarting")))


class LateComms(FakeComms):
    """A supervisor where the next write of some keys takes effect only after `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.late: set[str] = set()
        self.hangs = self.has_taken_effect = False
        self.release = threading.Event()

    def send(self, message: Any) -> Any:
        document = Document.of(message)
        key = getattr(message, "key", "") if document is None else document.key
        if key not in self.late or not (document.is_set if document else isinstance(message, comms.SetXCom)):
            return super().send(message)
        self.late.remove(key)
        self.hangs = True
        self.release.wait(TIMEOUT_S)
        answer = super().send(message)
        self.has_taken_effect = True
        return answer


class Loops:
    """Stores of successive loops of one job in one process."""

    def __init__(self, airflow: LateComms) -> None:
        self.airflow = airflow
        self.clock = ManualClock()
        self.access = StoreAccess(self.clock)

    def store(self) -> AirflowJobStore:
        return AirflowJobStore("departures", TaskKey(dag_id="d", task_id="t", run_id="r"), self.clock, self.access)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def is_true() -> bool:
            return condition()

        await wait_until_async(is_true, TIMEOUT_S, what, 0.01)

    async def read_every_key(self, store: AirflowJobStore) -> None:
        """Read so often that a read contains the key of late writes."""
        for _ in range(READS_BETWEEN + 1):
            await self.clock.sleep(2)
            await store.control_requests()
            assert store._reading is not None
            await store._reading

    async def published(self, store: AirflowJobStore, state: str) -> None:
        """Wait until the XComs and the documents show a state, while the loop reads its control requests."""

        async def is_published() -> bool:
            await store.control_requests()
            states = self.airflow.asset_states.get("summary", {}).get("state"), self.airflow.xcoms.get("state")
            return states == (state, state)

        await wait_until_async(is_published, TIMEOUT_S, f"the state {state}", 0.01)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateComms]:
    fake = LateComms.install(monkeypatch)
    assert isinstance(fake, LateComms)
    yield fake
    fake.release.set()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))


@pytest.mark.parametrize("key", ["state", "summary"])
def test_next_loop_replaces_what_the_hung_write_of_an_ended_loop_overwrites(airflow: LateComms, key: str) -> None:
    """The write of a loop hangs, the loop ends, the next loop publishes its view, and then the write of the ended loop continues."""
    airflow.late = {key}

    async def story() -> None:
        loops = Loops(airflow)
        ended, following = loops.store(), loops.store()
        await ended.publish(OLD)
        await loops.until(lambda: airflow.hangs, "a write that hangs")
        ended.close()
        await following.publish(NEW)
        await loops.published(following, "Restarting")
        airflow.release.set()
        await loops.until(lambda: airflow.has_taken_effect, "the late write")
        await loops.published(following, "Restarting")

    run(story())


def test_loop_replaces_what_its_own_abandoned_write_overwrites(
    airflow: LateComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write takes too long, the loop publishes a newer view, and then the old write continues."""
    airflow.late = {"summary"}

    async def story() -> None:
        loops = Loops(airflow)
        store = loops.store()
        with monkeypatch.context() as hanging:
            hanging.setattr(store_access, "WRITE_TIMEOUT", timedelta(milliseconds=50))
            await store.publish(OLD)
            await loops.until(lambda: airflow.hangs, "a write that hangs")
        await store.publish(NEW)
        await loops.published(store, "Restarting")
        airflow.release.set()
        await loops.until(lambda: airflow.has_taken_effect, "the late write")
        await loops.published(store, "Restarting")

    run(story())


def test_next_loop_replaces_what_a_loop_published_before_it_noticed_its_successor(airflow: LateComms) -> None:
    """The next loop publishes its view, the loop that was handed over publishes an older one, and then notices its successor."""

    async def story() -> None:
        loops = Loops(airflow)
        old, successor = loops.store(), loops.store()
        for store, view in ((successor, NEW), (old, OLD)):
            await store.publish(view)
            await store.finish()
        old.close()
        await loops.published(successor, "Restarting")
        airflow.pushes.clear()
        await successor.publish(replace(NEW, parallelism={"job": 3}))
        await successor.finish()

    run(story())
    assert airflow.pushes == ["parallelism"], "the view is written again once"


def test_ended_loop_writes_no_further_metrics(airflow: LateComms) -> None:
    """The write of the first of two pages hangs, the loop ends, and then the write continues."""
    airflow.late = {"metrics/10"}

    async def story() -> None:
        loops = Loops(airflow)
        ended = loops.store()
        await ended.publish_metrics({"metrics/10": {"at": 1}, "metrics/60": {"at": 1}})
        await loops.until(lambda: airflow.hangs, "a write that hangs")
        ended.close()
        airflow.release.set()
        await loops.until(lambda: loops.access._writes._idle == 1, "the end of the write")

    run(story())
    assert airflow.asset_states.keys() & {"metrics/10", "metrics/60"} == {"metrics/10"}


@pytest.mark.parametrize("key", ["state", "summary"])
def test_loop_in_another_process_replaces_what_a_hung_write_overwrites(airflow: LateComms, key: str) -> None:
    """The write of a loop hangs, the loop ends, a loop of another triggerer publishes its view, and then the write continues."""
    airflow.late = {key}

    async def story() -> None:
        loops, elsewhere = Loops(airflow), Loops(airflow)
        ended, following = loops.store(), elsewhere.store()
        await ended.publish(OLD)
        await loops.until(lambda: airflow.hangs, "a write that hangs")
        ended.close()
        await following.control_requests()
        await following.publish(NEW)
        await elsewhere.published(following, "Restarting")
        airflow.release.set()
        await loops.until(lambda: airflow.has_taken_effect, "the late write")
        await elsewhere.read_every_key(following)
        await elsewhere.published(following, "Restarting")

    run(story())


@pytest.mark.parametrize("is_superseded", [False, True])
def test_end_is_published_after_a_slow_write_unless_another_attempt_runs_the_job(
    airflow: LateComms, monkeypatch: pytest.MonkeyPatch, *, is_superseded: bool
) -> None:
    """The last write takes longer than a loop waits, the trigger fires, and then the write continues."""
    airflow.late = {"state"}
    monkeypatch.setattr(asset_store, "FINISH_TIMEOUT", timedelta(milliseconds=50))

    async def story() -> None:
        loops, elsewhere = Loops(airflow), Loops(airflow)
        ended = loops.store()
        await ended.publish(
            replace(OLD, state=SchedulerStateName("Finished"), outcome=Outcome.FAILED, parallelism={"job": 7})
        )
        await loops.until(lambda: airflow.hangs, "a write that hangs")
        await ended.finish()
        ended.close()
        late = asyncio.create_task(ended.publish_end())
        following = elsewhere.store()
        if is_superseded:
            await following.control_requests()
            record("departures", ATTEMPT, "another")
            await following.publish(replace(NEW, attempt="another"))
            await elsewhere.published(following, "Restarting")
        airflow.release.set()
        await late
        if not is_superseded:
            return
        await elsewhere.read_every_key(following)
        await elsewhere.published(following, "Restarting")

    run(story())
    state, outcome = ("Restarting", None) if is_superseded else ("Finished", "FAILED")
    summary = airflow.asset_states["summary"]
    assert (summary["state"], summary["outcome"], airflow.xcoms["state"]) == (state, outcome, outcome or state)
    assert ("late_write" in airflow.asset_states) is is_superseded


def test_loop_that_was_handed_over_does_not_publish_its_view_again_after_the_end(airflow: LateComms) -> None:
    """A loop knows a request to suspend, its successor ends the job, the task reports the end, and the first loop reads again."""

    async def story() -> None:
        loops = Loops(airflow)
        old, successor = loops.store(), loops.store()
        store_request("departures", ControlRequest(key=DESIRED_STATE, value="suspended"))
        await old.control_requests()
        for store, view in ((old, OLD), (successor, NEW)):
            await store.publish(view)
            await store.finish()
        end_job("departures", {"outcome": "SUSPENDED"})
        await loops.clock.sleep(2)
        await old.control_requests()
        assert old._reading is not None
        await old._reading
        await old.finish()

    run(story())
    assert (airflow.desired_state, airflow.asset_states["summary"]["state"]) == (None, "Restarting")
