"""Rescales told through Airflow's callbacks: each once, and never at the cost of the loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from airflow.sdk import BaseNotifier
from asgiref.sync import async_to_sync

from airflow_adaptive._airflow.internals import AsyncCallback
from airflow_adaptive._airflow.store import rescale_callback
from airflow_adaptive._airflow.store.rescale_callback import CallbackStore, RescaleCallback
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._core.scheduler.timeline import Amounts, Rescale, TerminalState, TriggerCause
from airflow_adaptive._core.view import JobHistory, JobView, TaskKey, Urls
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.loop import Loop, RunLimits
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.scenario import START, Scenario
from tests.lab.simulation.one_job import Simulation
from tests.support.airflow.fake_supervisor import FakeComms

TASK = TaskKey(dag_id="d", task_id="t", run_id="r")

received: list[str] = []
"""The texts that the callbacks of these tests received."""


class BlockingNotifier(BaseNotifier):
    """As most of Airflow's notifiers are."""

    template_fields = ("text",)

    def __init__(self, text: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = text

    def notify(self, context: Any) -> None:
        received.append(self.text)


class SendingNotifier(BlockingNotifier):
    """One that calls the Task SDK, which Airflow 3.1 does by `async_to_sync`."""

    def notify(self, context: Any) -> None:
        async def send() -> None:
            received.append(str(id(asyncio.get_running_loop())))

        async_to_sync(send)()


class AsyncNotifier(BlockingNotifier):
    """One that can only be awaited."""

    notify = BaseNotifier.notify

    async def async_notify(self, context: Any) -> None:
        received.append(self.text)


async def plain(text: str, context: Mapping[str, Any]) -> None:
    received.append(f"{text} {context['job']}")


async def without_context(text: str) -> None:
    received.append(text)


async def broken(**_: Any) -> None:
    raise RuntimeError("no network")


async def endless(**_: Any) -> None:
    await asyncio.Event().wait()


class Channel:
    """As the channel from a trigger to its supervisor in Airflow 3.1: the next caller reads an answer that its caller did not read."""

    def __init__(self) -> None:
        self.is_used = asyncio.Event()
        self.answers: asyncio.Queue[int] = asyncio.Queue()
        self._lock = asyncio.Lock()

    async def asend(self) -> int:
        async with self._lock:
            self.is_used.set()
            return await self.answers.get()


channels: list[Channel] = []
"""The newest one is in use."""


async def asking(**_: Any) -> None:
    received.append(str(await channels[-1].asend()))


@pytest.fixture(autouse=True)
def forget() -> None:
    received.clear()


def reporter(callback: Any, **kwargs: Any) -> RescaleCallback:
    made = AsyncCallback(callback, kwargs=kwargs)
    return RescaleCallback({"path": made.path, "kwargs": made.kwargs}, "departures", TASK)


def rescale(
    number: int,
    *,
    cause: TriggerCause = TriggerCause.NEW_RESOURCE_AVAILABLE,
    end: TerminalState | None = TerminalState.COMPLETED,
    **changes: Any,
) -> Rescale:
    amounts = Amounts(desired={"job": 2}, sufficient={}, before={"job": 1}, after={"job": 2})
    ended = Rescale(
        number=number,
        requirements=1,
        attempt=1,
        trigger_cause=cause,
        start=START,
        vertices=amounts,
        groups=amounts,
        end=None if end is None else START,
        terminal_state=end,
    )
    return replace(ended, **changes)


def after(reporter: RescaleCallback, *views: Sequence[Rescale]) -> list[str]:
    """The texts of the callbacks after these views were published one after the other."""
    return after_histories(reporter, *(JobHistory(rescales=view) for view in views))


def after_histories(reporter: RescaleCallback, *histories: JobHistory) -> list[str]:
    """The texts of the callbacks after views with these histories were published one after the other."""

    async def run() -> None:
        for history in histories:
            reporter.report(history)
        await reporter.finish()
        reporter.close()

    asyncio.run(run())
    return received


@pytest.mark.parametrize("notifier", [BlockingNotifier, AsyncNotifier])
def test_notifier_is_rendered_with_what_happened(notifier: type[BaseNotifier]) -> None:
    text = "{{ dag_id }} {{ rescale.number }}: {{ message }}"
    assert after(reporter(notifier, text=text), [], [rescale(1)]) == [
        "d 1: job 'departures' was rescaled from 1 to 2: the available slots changed"
    ]


def test_notifier_in_a_thread_calls_the_task_sdk_on_the_triggers_event_loop() -> None:
    async def run() -> None:
        callback = reporter(SendingNotifier, text="")
        for rescales in ([], [rescale(1)]):
            callback.report(JobHistory(rescales=rescales))
        await callback.finish()
        assert received == [str(id(asyncio.get_running_loop()))]

    asyncio.run(run())


def test_function_is_called_with_the_context_if_it_takes_one() -> None:
    assert after(reporter(plain, text="hello"), [], [rescale(1)]) == ["hello departures"]
    assert after(reporter(without_context, text="hello"), [], [rescale(1)])[1:] == ["hello"]


def test_each_rescale_is_reported_once_and_none_of_an_earlier_loop() -> None:
    callback = reporter(BlockingNotifier, text="{{ rescale.number }}")
    texts = after(callback, [rescale(1)], [rescale(1), rescale(2)], [rescale(2)], [rescale(2), rescale(3)])
    assert sorted(texts) == ["2", "3"], "each in a thread of its own"


@pytest.mark.parametrize(
    "unfinished",
    [
        rescale(1, cause=TriggerCause.INITIAL_SCHEDULE),
        rescale(1, end=TerminalState.IGNORED),
        rescale(1, end=None),
    ],
)
def test_what_is_no_finished_rescale_is_not_reported(unfinished: Rescale) -> None:
    assert after(reporter(BlockingNotifier, text="x"), [], [unfinished]) == []


def test_failure_and_wide_jobs_are_reported_in_a_line() -> None:
    failed = rescale(1, cause=TriggerCause.RECOVERABLE_FAILOVER, end=TerminalState.FAILED, failure="TASK_FAILED: lost")
    assert (
        rescale_callback.message("j", failed)
        == "job 'j' could not be rescaled from 1 to 2: the job failed (TASK_FAILED: lost)"
    )
    amounts = Amounts(desired={}, sufficient={}, after={"read": 4, "count": 2})
    many = rescale(1, cause=TriggerCause.UPDATE_REQUIREMENT, vertices=amounts)
    assert rescale_callback.message("j", many) == (
        "job 'j' was rescaled from nothing to read=4, count=2: the requirements changed"
    )
    assert rescale_callback.message("j", rescale(1, vertices=Amounts(desired={}, sufficient={}))).startswith(
        "job 'j' was rescaled from nothing to nothing"
    )


@pytest.mark.parametrize("callback", [broken, endless])
def test_callback_that_fails_or_hangs_is_a_line_in_the_log(
    callback: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rescale_callback, "CALL_TIMEOUT", rescale_callback.CALL_TIMEOUT / 6000)
    after(reporter(callback), [], [rescale(1)])
    assert f"on_rescale_callback {__name__}.{callback.__name__} failed: " in caplog.text


def test_notifiers_that_hang_leave_the_threads_of_the_event_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rescales are reported to a notifier that never returns; the event loop then runs other blocking work."""
    monkeypatch.setattr(rescale_callback, "CALL_TIMEOUT", rescale_callback.CALL_TIMEOUT / 6000)
    release = threading.Event()
    monkeypatch.setattr(BlockingNotifier, "notify", lambda *_: release.wait(300))
    reported = reporter(BlockingNotifier, text="x")

    async def run() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        reported.report(JobHistory())
        reported.report(JobHistory(rescales=[rescale(number) for number in range(1, 9)]))
        await reported.finish()
        return await asyncio.wait_for(asyncio.to_thread(lambda: 42), 60)

    try:
        assert asyncio.run(run()) == 42
    finally:
        release.set()


@pytest.mark.parametrize("end", ["timeout", "close"])
def test_call_of_the_task_sdk_in_flight_is_not_canceled(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> int:
        channels.append(channel := Channel())
        callback = reporter(asking)
        for rescales in ([], [rescale(1)]):
            callback.report(JobHistory(rescales=rescales))
        await asyncio.wait_for(channel.is_used.wait(), 60)
        if end == "timeout":
            await callback.finish()
        callback.close()
        other = asyncio.create_task(channel.asend())
        for answer in (1, 2):
            await asyncio.sleep(0)
            channel.answers.put_nowait(answer)
        return await asyncio.wait_for(other, 60)

    monkeypatch.setattr(rescale_callback, "CALL_TIMEOUT", rescale_callback.CALL_TIMEOUT / 6000)
    assert asyncio.run(run()) == 2
    assert received == ["1"]


def test_callback_that_always_hangs_is_not_called_without_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rescale_callback, "CALL_TIMEOUT", rescale_callback.CALL_TIMEOUT / 6000)
    after(reporter(endless), [], [rescale(number) for number in range(1, rescale_callback.AWAITED_CALLS + 2)])
    assert "16 earlier calls have not ended" in caplog.text


def test_callback_that_is_not_there_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    missing = RescaleCallback({"path": "nowhere.notify", "kwargs": {}}, "departures", TASK)
    after(missing, [], [rescale(1)])
    assert "No module named 'nowhere'" in caplog.text


def test_rescale_of_a_job_is_reported_as_its_loop_sees_it(caplog: pytest.LogCaptureFixture) -> None:
    """The record that the scheduler makes has all that is read here."""
    caplog.set_level(logging.WARNING)
    simulation = Simulation(
        resource_stabilization_timeout="2 s",
        scaling_interval_min="5 s",
        executing_stabilization_timeout="2 s",
        max_trigger_delay="3 s",
    )
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.clock.at(30, lambda: simulation.cluster.add_worker(cores=1, memory_mb=512))
    simulation.clock.at(90, simulation.drivers.finish)
    simulation.run()
    views = [view.history.rescales for view in simulation.store.views]
    assert after(reporter(BlockingNotifier, text="{{ message }}"), *views) == [
        "job 'departures' was rescaled from 1 to 2: the available slots changed"
    ]
    assert caplog.text == ""


def test_rescale_of_an_earlier_loop_is_not_reported_when_it_is_read_late() -> None:
    """The job directory cannot be read when the next loop begins."""
    simulation = Simulation(resource_stabilization_timeout="2 s")
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.clock.at(30, lambda: simulation.cluster.add_worker(cores=1, memory_mb=512))
    asyncio.run(Loop(simulation.spec, simulation.ports, RunLimits(recycle_at=START + timedelta(minutes=2))).run())
    earlier, simulation.store.views = [view.history for view in simulation.store.views], []
    with failing_once(simulation.directory):
        asyncio.run(Loop(simulation.spec, simulation.ports, RunLimits(recycle_at=START + timedelta(minutes=4))).run())
    later = [view.history for view in simulation.store.views]
    assert [len(history.rescales) for history in (earlier[-1], later[0], later[-1])] == [2, 0, 2]
    texts = ["job 'departures' was rescaled from 1 to 2: the available slots changed"]
    assert after_histories(reporter(BlockingNotifier, text="{{ message }}"), *earlier) == texts
    received.clear()
    assert after_histories(reporter(BlockingNotifier, text="{{ message }}"), *later) == []


@contextmanager
def failing_once(directory: FakeJobDirectory) -> Iterator[None]:
    """Let the first read of the past fail."""
    read, failures = directory.history, [JobDirectoryError("no route")]

    async def fail_once(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return await read(*arguments)

    with patch.object(directory, "history", fail_once):
        yield


async def publish_and_finish(views: Sequence[JobView], callback: Mapping[str, Any]) -> None:
    clock = ManualClock()
    store = CallbackStore("departures", TASK, clock, StoreAccess(clock), callback)
    for view in views:
        await store.publish(view)
    await store.finish()
    store.close()


def test_store_with_a_callback_publishes_the_view_and_reports_its_rescales(monkeypatch: pytest.MonkeyPatch) -> None:
    comms = FakeComms.install(monkeypatch)
    made = AsyncCallback(plain, kwargs={"text": "rescaled"})
    view = job_view(
        Scenario().given_executing(2).state, History(FakeJobDirectory(), "departures", 10), Urls(), "attempt"
    )
    views = [replace(view, history=replace(view.history, rescales=ended)) for ended in ([], [rescale(2)])]
    asyncio.run(publish_and_finish(views, {"path": made.path, "kwargs": made.kwargs}))
    assert received == ["rescaled departures"]
    assert comms.xcoms
