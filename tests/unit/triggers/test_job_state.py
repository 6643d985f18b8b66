"""Triggers that observe a job miss no event, whatever happens to the triggerer and the state store."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_adaptive._airflow.process.job_control import event_position
from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._core.view import decode_summary
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.triggers import spark_resources
from airflow_adaptive.triggers.job_state import AdaptiveJobEventTrigger, JobStateTrigger
from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger
from tests.support.airflow.airflow_versions import needs_state_store
from tests.support.airflow.fake_supervisor import Document, FakeComms, api_server_error
from tests.support.airflow.published_job import SUMMARY, ended, fire, publish_job
from tests.support.waiting import wait_until_async


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


POSITION = "position/RESCALED"


def watch(events: list[str]) -> Any:
    return AdaptiveJobEventTrigger(job="departures", events=events)


def fire_after(monkeypatch: pytest.MonkeyPatch, airflow: FakeComms, change: dict[str, Any], *events: str) -> Any:
    """Return the first event of a watcher, which has read its position before the job changes."""

    async def pass_time(clock: SystemClock, seconds: float) -> None:
        airflow.asset_states["summary"] = SUMMARY | change

    monkeypatch.setattr(SystemClock, "sleep", pass_time)
    return fire(watch([*events]))["event"]


RESCALED = {"rescales": 3, "restarts": 4}


def test_watcher_reports_what_happened_while_no_triggerer_ran(airflow: FakeComms) -> None:
    airflow.asset_states["position/FAILED"] = event_position(decode_summary(SUMMARY))
    airflow.asset_states["summary"] = ended("FAILED") | RESCALED
    assert fire(watch(["FAILED"]))["event"] == "FAILED"


def test_watcher_begins_with_what_comes_next(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fire_after(monkeypatch, airflow, RESCALED, "RESCALED") == "RESCALED"
    assert airflow.asset_states[POSITION] == event_position(decode_summary(SUMMARY)), (
        "an event that is not taken is sent again"
    )


def test_watchers_with_other_kinds_of_events_have_positions_of_their_own(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher has no triggerer while the job fails, and another one polls the failed job."""
    airflow.asset_states["position/FAILED"] = event_position(decode_summary(SUMMARY))
    failed = ended("FAILED") | RESCALED
    assert fire_after(monkeypatch, airflow, failed, "RESCALED", "FAILED") == "RESCALED"
    assert fire(watch(["FAILED"]))["event"] == "FAILED"


@needs_state_store
@pytest.mark.parametrize("assets", [[], ["a"], ["a", "b"]])
def test_watcher_fires_for_any_number_of_assets(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch, assets: list[str]
) -> None:
    """Airflow creates one trigger for equal watchers of several Assets."""
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors  # noqa: PLC0415

    trigger = watch(["FAILED"])
    trigger.asset_state_store = AssetStateStoreAccessors(inlets=[Asset(name) for name in assets])
    airflow.asset_states["position/FAILED"] = event_position(decode_summary(SUMMARY))
    airflow.asset_states["summary"] = ended("FAILED")
    assert fire(trigger)["event"] == "FAILED"


@pytest.mark.parametrize("position", [None, "x", [], {"rescales": "two"}], ids=repr)
def test_watcher_begins_again_after_a_position_that_cannot_be_decoded(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch, position: Any
) -> None:
    airflow.asset_states[POSITION] = position
    assert fire_after(monkeypatch, airflow, RESCALED, "RESCALED") == "RESCALED"


def operation_on_position(message: Any) -> str:
    """Return "read" or "write" for a message about the position, "" for another message."""
    document = Document.of(message)
    if document is None or document.key != POSITION:
        return ""
    return "write" if document.is_set else "read"


class UnreliableComms(FakeComms):
    """A supervisor for which the first read and the first write of a position fail."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = {"read", "write"}

    def send(self, message: Any) -> Any:
        if (operation := operation_on_position(message)) in self.failures:
            self.failures.remove(operation)
            raise api_server_error()
        return super().send(message)


def test_watcher_outlives_a_state_store_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's API server is down when the watcher starts, and again when the watcher stores its first position."""
    airflow = UnreliableComms.install(monkeypatch)
    assert isinstance(airflow, UnreliableComms)
    airflow.asset_states = {"attempt": SUMMARY["attempt"], "summary": SUMMARY}

    async def rescale(clock: SystemClock, seconds: float) -> None:
        if not airflow.failures:
            airflow.asset_states["summary"] = SUMMARY | RESCALED

    monkeypatch.setattr(SystemClock, "sleep", rescale)
    assert fire(watch(["RESCALED"]))["event"] == "RESCALED"
    assert airflow.failures == set()


@pytest.mark.parametrize("operation", ["read", "write"])
def test_watchers_leave_threads_to_others_while_the_state_store_hangs(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Two watchers wait for a state store that does not answer; the event loop has one thread and runs other blocking work."""
    hangs, released, airflow = threading.Event(), threading.Event(), publish_job(monkeypatch)

    def send(message: Any) -> Any:
        if operation_on_position(message) == operation:
            hangs.set()
            released.wait()
        return FakeComms.send(airflow, message)

    monkeypatch.setattr(airflow, "send", send)

    async def is_hanging() -> bool:
        return hangs.is_set()

    async def run() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        watchers = [asyncio.create_task(anext(watch(["RESCALED"]).run())) for _ in range(2)]
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


@pytest.mark.parametrize("observer", ["state", "events", "slots"])
def test_trigger_that_observes_a_job_examines_the_other_jobs_of_its_folder(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch, observer: str
) -> None:
    """A trigger that was canceled with its triggerer leaves a job whose cancellation nothing else repeats."""

    async def wait(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(spark_resources, "wait_for_slots", wait)
    airflow.asset_states["job_directory"] = "file:///jobs"
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    triggers: dict[str, Any] = {
        "state": JobStateTrigger(job="departures", states=["Finished"], until=until),
        "events": watch(["FAILED"]),
        "slots": SparkResourcesTrigger({"graph": {"job": "departures"}}, {"spark": "missing"}, until),
    }

    async def examined() -> None:
        sweeps = ProcessResources.current().next_sweeps

        async def is_examined() -> bool:
            return "file:///jobs" in sweeps

        running = asyncio.ensure_future(anext(aiter(triggers[observer].run())))
        await wait_until_async(is_examined, 60, "the examination of the folder")
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(examined())
