"""Triggers that observe a job."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive.launch.job_events import event_position
from airflow_adaptive.local.waiting import wait_until_async
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.triggers.job_state import AdaptiveJobEventTrigger, JobStateTrigger
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error
from tests.support.airflow.published_job import SUMMARY, decoded, ended, fire, publish_job


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return publish_job(monkeypatch)


def test_trigger_waits_on_while_airflow_does_not_answer(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow.error = api_server_error()

    async def mend(clock: SystemClock, seconds: float) -> None:
        airflow.error = None

    monkeypatch.setattr(SystemClock, "sleep", mend)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert fire(JobStateTrigger(job="departures", states=["Executing"], until=until))["status"] == "reached"


class Watched:
    """The state store of the asset that is watched."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str, default: Any) -> Any:
        return self.values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


def watch(watched: Watched, events: list[str]) -> Any:
    trigger = AdaptiveJobEventTrigger(job="departures", events=events)
    trigger.asset_state_store = watched  # type: ignore[assignment]
    return trigger


def test_watcher_reports_what_happened_while_no_triggerer_ran(airflow: FakeComms) -> None:
    watched = Watched()
    watched.values["position of departures"] = event_position(decoded(SUMMARY))
    airflow.asset_states["summary"] = ended("FAILED") | {"rescales": 3, "restarts": 4}
    assert fire(watch(watched, ["FAILED"]))["event"] == "FAILED"


def test_watcher_begins_with_what_comes_next(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()

    async def rescale(clock: SystemClock, seconds: float) -> None:
        airflow.asset_states["summary"] = SUMMARY | {"rescales": 3, "restarts": 4}

    monkeypatch.setattr(SystemClock, "sleep", rescale)
    assert fire(watch(watched, ["RESCALED"]))["event"] == "RESCALED"
    assert watched.values["position of departures"] == event_position(decoded(SUMMARY)), (
        "an event that is not taken is sent again"
    )


@pytest.mark.parametrize("position", [None, "x", [], {"rescales": "two"}], ids=repr)
def test_watcher_begins_again_after_a_position_that_cannot_be_decoded(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch, position: Any
) -> None:
    watched = Watched()
    watched.values["position of departures"] = position
    airflow.asset_states["summary"] = SUMMARY

    async def rescale(clock: SystemClock, seconds: float) -> None:
        airflow.asset_states["summary"] = SUMMARY | {"rescales": 3, "restarts": 4}

    monkeypatch.setattr(SystemClock, "sleep", rescale)
    assert fire(watch(watched, ["RESCALED"]))["event"] == "RESCALED"


class Unreliable(Watched):
    """A state store whose first read and first write fail."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = {"get", "set"}

    def _fail_once(self, operation: str) -> None:
        if operation in self.failures:
            self.failures.remove(operation)
            raise api_server_error()

    def get(self, key: str, default: Any = None) -> Any:
        self._fail_once("get")
        return super().get(key, default)

    def set(self, key: str, value: Any) -> None:
        self._fail_once("set")
        super().set(key, value)


def test_watcher_outlives_a_state_store_that_fails(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's API server is down when the watcher starts, and again when the watcher stores its first position."""
    watched, sleeps = Unreliable(), []

    async def rescale(clock: SystemClock, seconds: float) -> None:
        sleeps.append(seconds)
        if not watched.failures:
            airflow.asset_states["summary"] = SUMMARY | {"rescales": 3, "restarts": 4}

    monkeypatch.setattr(SystemClock, "sleep", rescale)
    airflow.asset_states["summary"] = SUMMARY
    assert fire(watch(watched, ["RESCALED"]))["event"] == "RESCALED"
    assert watched.failures == set()


@pytest.mark.parametrize("operation", ["get", "set"])
def test_watchers_leave_the_threads_of_the_event_loop_to_others_while_their_state_store_hangs(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Two watchers wait for a state store that does not answer; the event loop has one thread and runs other blocking work."""
    hangs, released, watched = threading.Event(), threading.Event(), Watched()

    def hang(*_: Any) -> Any:
        hangs.set()
        released.wait()

    monkeypatch.setattr(watched, operation, hang)
    airflow.asset_states["summary"] = SUMMARY

    async def is_hanging() -> bool:
        return hangs.is_set()

    async def run() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        watchers = [asyncio.create_task(anext(watch(watched, ["RESCALED"]).run())) for _ in range(2)]
        await wait_until_async(is_hanging, 60, "a call that hangs", 0.01)
        try:
            return await asyncio.wait_for(asyncio.to_thread(lambda: 42), 60)
        finally:
            released.set()
            for watcher in watchers:
                watcher.cancel()

    assert asyncio.run(run()) == 42


def test_unknown_event_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match="SCALED"):
        AdaptiveJobEventTrigger(job="departures", events=["SCALED"])
