"""The trigger of a job: it runs the loop, hands over to the next trigger, and cancels a job whose task has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from airflow_adaptive._airflow.process import deferral
from airflow_adaptive._airflow.process.job_loop import run_job_loop
from airflow_adaptive._airflow.process.process_resources import DeployedJob
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.triggers import adaptive_job
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger
from tests.lab.simulation.one_job import small_job
from tests.support.airflow.airflow_versions import deserialize, serialize
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error
from tests.support.airflow.published_job import cleaned_up, in_background

MINE = "r/1"
TASK: dict[str, Any] = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}


@pytest.mark.parametrize(
    "trigger",
    [
        AdaptiveJobTrigger(
            spec={"a": [1, None]}, connections={"spark": "c"}, base="file:///x", task_key=TASK, cancel_at="2026-01-01"
        ),
        SparkResourcesTrigger(wanted={"graph": {}}, connections={"spark": "c"}, until="2026-01-01T00:00:00+00:00"),
    ],
)
def test_trigger_survives_the_database(trigger):
    path, arguments = trigger.serialize()
    restored: Any = deserialize(serialize(json.loads(json.dumps(arguments))))
    assert path == f"{type(trigger).__module__}.{type(trigger).__name__}"
    assert type(trigger)(**restored).serialize() == trigger.serialize()


# ---- the loop, against a master that does not answer -----------------------------------------------------------------


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", "spark://127.0.0.1:1?ui-port=1&rest-port=1")
    return FakeComms.install(monkeypatch)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., AdaptiveJobTrigger]:
    (tmp_path / "job").mkdir()  # as staging leaves the folder
    spec = JobSpec(
        graph=JobGraph.single("job", ParallelismRange.of(1)),
        options=Options.of({"poll_interval": "10 ms"}),
        directory=f"file://{tmp_path}/job",
        script="script.py",
        py_files=(),
        attempt=MINE,
    )

    def make(attempt: str = MINE, **task: Any) -> AdaptiveJobTrigger:
        encoded = encode(replace(spec, attempt=attempt))
        return AdaptiveJobTrigger(
            spec=encoded, connections={"spark": "spark_test"}, base=f"file://{tmp_path}", task_key=TASK | task
        )

    return make


def ended(base: Path) -> Outcome | None:
    """How the job has ended, None if it has not."""
    newest = asyncio.run(FsspecJobDirectory(Storage.at(str(base)), "job").newest())
    current = None if newest is None else from_json(newest.scheduler).current
    return current.outcome if isinstance(current, Finished) else None


@pytest.mark.parametrize(
    ("state", "owner"), [("failed", MINE), ("success", MINE), ("skipped", MINE), ("removed", MINE), ("failed", None)]
)
def test_job_of_an_ended_task_is_canceled(
    airflow: FakeComms, make: Callable[..., AdaptiveJobTrigger], tmp_path: Path, state: str, owner: str | None
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": state}}, {"attempt": owner}
    asyncio.run(cleaned_up(make()))
    assert ended(tmp_path) is Outcome.CANCELED


@pytest.mark.parametrize(
    ("state", "owner", "recorded"),
    [
        ("deferred", MINE, MINE),
        ("deferred", "r/2", "r/2"),
        ("running", None, "r/2"),
        ("running", MINE, "r/2"),
        (None, None, "r/2"),
        ("up_for_retry", None, "r/2"),
        ("failed", None, "r/2"),
        ("failed", "r/2", None),
    ],
)
def test_job_of_a_task_that_goes_on_is_left_alone(
    airflow: FakeComms,
    make: Callable[..., AdaptiveJobTrigger],
    tmp_path: Path,
    state: str | None,
    owner: str | None,
    recorded: str | None,
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": state}}, {"attempt": owner}
    airflow.asset_states = {} if recorded is None else {"attempt": recorded}
    asyncio.run(cleaned_up(make()))
    assert not (tmp_path / "job" / "journal").exists()


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "restarting", "running", "up_for_retry"])
@pytest.mark.parametrize("begins", [False, True], ids=["fails first", "begins to run the job"])
def test_job_of_a_cleared_task_is_watched_until_the_task_runs_it(
    airflow: FakeComms,
    make: Callable[..., AdaptiveJobTrigger],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
    begins: bool,
) -> None:
    """A task with a broken declaration fails before it records its attempt. A user marks a cleared task as failed while its DAG is paused."""
    monkeypatch.setattr(adaptive_job, "HANDOVER_POLL_INTERVAL", timedelta(milliseconds=20))
    airflow.task_states, airflow.xcoms, airflow.asset_states = {"r": {"t": state}}, {"attempt": MINE}, {"attempt": MINE}

    async def clear() -> None:
        watch = asyncio.create_task(cleaned_up(make()))
        await asyncio.wait({watch}, timeout=0.2)
        assert not watch.done()
        if begins:
            airflow.asset_states = {"attempt": "r/2"}
        else:
            airflow.task_states = {"r": {"t": "failed"}}
        await watch

    asyncio.run(clear())
    assert ended(tmp_path) is (None if begins else Outcome.CANCELED)


@pytest.mark.parametrize("state", [None, "running"])
def test_watch_of_a_cleared_task_ends_when_its_driver_has_stopped_by_itself(
    airflow: FakeComms,
    make: Callable[..., AdaptiveJobTrigger],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
) -> None:
    monkeypatch.setattr(adaptive_job, "HANDOVER_POLL_INTERVAL", timedelta(milliseconds=20))
    airflow.task_states, airflow.asset_states = {"r": {"t": state}}, {"attempt": MINE}
    trigger = make()
    moment = timedelta(milliseconds=10)
    options = replace(trigger._job.spec.options, trigger_lifetime=moment, orphan_timeout=5 * moment)
    trigger.spec = encode(replace(trigger._job.spec, options=options))
    asyncio.run(asyncio.wait_for(cleaned_up(trigger), timeout=60))
    assert ended(tmp_path) is None


def test_job_is_left_alone_when_no_one_knows_the_task(
    airflow: FakeComms, make: Callable[..., AdaptiveJobTrigger], tmp_path: Path
) -> None:
    airflow.error = api_server_error()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(cleaned_up(make()), timeout=1))
    assert not (tmp_path / "job" / "journal").exists()


def test_trigger_whose_job_another_attempt_took_over_reports_it(
    airflow: FakeComms, make: Callable[..., AdaptiveJobTrigger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))
    airflow.task_states, airflow.xcoms = {"r": {"t": "deferred"}}, {"attempt": "s/2"}

    async def take_over() -> Any:
        firing = asyncio.ensure_future(anext(aiter(make().run())))
        other = make(attempt="s/2")
        while not firing.done():
            leave = RunLimits(recycle_at=datetime.now(UTC) + timedelta(milliseconds=50))
            try:
                await run_job_loop(other._job, leave)
            except SupersededError:
                continue
        return firing.result().payload

    assert asyncio.run(take_over()) == {"status": "superseded", "attempt": "s/2"}


def test_trigger_whose_duplicate_took_over_waits(
    airflow: FakeComms, make: Callable[..., AdaptiveJobTrigger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))
    monkeypatch.setattr(adaptive_job, "STANDBY_DELAY", timedelta(0))
    loop = AsyncMock(side_effect=[SupersededError(7, f"{MINE}#duplicate"), {"status": "recycle"}])
    monkeypatch.setattr(adaptive_job, "run_job_loop", loop)
    assert asyncio.run(fire(make())) == {"status": "recycle"}


# ---- between two triggers --------------------------------------------------------------------------------------------


@pytest.fixture
def short_lived(make: Callable[..., AdaptiveJobTrigger], monkeypatch: pytest.MonkeyPatch) -> AdaptiveJobTrigger:
    """A trigger whose lifetime is over at once."""
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(milliseconds=100))
    monkeypatch.setattr(adaptive_job, "HANDOVER_POLL_INTERVAL", timedelta(milliseconds=20))
    monkeypatch.setattr(adaptive_job, "STANDBY_DELAY", timedelta(0))
    trigger = make()
    options = replace(trigger._job.spec.options, trigger_lifetime=timedelta(milliseconds=200))
    trigger.spec = encode(replace(trigger._job.spec, options=options))
    return trigger


async def fire(trigger: AdaptiveJobTrigger) -> dict[str, Any]:
    payload: dict[str, Any] = (await anext(aiter(trigger.run()))).payload
    return payload


def test_loop_of_a_recycled_trigger_goes_on_until_the_next_has_taken_over(
    airflow: FakeComms, short_lived: AdaptiveJobTrigger, make: Callable[..., AdaptiveJobTrigger], tmp_path: Path
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": "scheduled"}}, {"attempt": MINE}

    async def hand_on() -> str:
        await fire(short_lived)
        (old,) = in_background()
        await asyncio.wait({old}, timeout=0.2)
        assert not old.done()
        following = asyncio.create_task(fire(make()))
        await old
        assert not following.done()
        following.cancel()
        newest = await FsspecJobDirectory(Storage.at(str(tmp_path)), "job").newest()
        assert newest is not None
        return newest.owner.partition("#")[0]

    assert asyncio.run(hand_on()) == MINE
    assert ended(tmp_path) is None


@pytest.mark.parametrize("error", [False, True], ids=["", "which Airflow tells late"])
def test_job_whose_task_is_ended_between_two_triggers_is_canceled(
    airflow: FakeComms, short_lived: AdaptiveJobTrigger, tmp_path: Path, error: bool
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": "failed"}}, {"attempt": MINE}

    async def hand_on() -> None:
        await fire(short_lived)
        (old,) = in_background()
        airflow.error = api_server_error() if error else None
        await asyncio.wait({old}, timeout=0.2 if error else None)
        assert old.done() is not error
        airflow.error = None
        await old

    asyncio.run(hand_on())
    assert ended(tmp_path) is Outcome.CANCELED


def test_trigger_that_is_ended_stops_its_loop(airflow: FakeComms, make: Callable[..., AdaptiveJobTrigger]) -> None:
    async def end() -> set[asyncio.Task[Any]]:
        running = asyncio.create_task(fire(make()))
        await asyncio.wait({running}, timeout=0.2)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        others = asyncio.all_tasks() - {asyncio.current_task()}  # The shared cluster ends in the background.
        return (await asyncio.wait(others, timeout=60))[1] if others else set()

    assert asyncio.run(end()) == set()


def test_recycled_trigger_whose_duplicate_has_taken_over_does_not_take_the_job_back(
    airflow: FakeComms, short_lived: AdaptiveJobTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": "scheduled"}}, {"attempt": MINE}
    monkeypatch.setattr(adaptive_job, "STANDBY_DELAY", timedelta(milliseconds=300))
    taken: list[str] = []

    async def lost(*_: Any) -> Any:
        taken.append("over")
        raise SupersededError(7, f"{MINE}#duplicate")

    monkeypatch.setattr(adaptive_job, "run_job_loop", lost)

    async def hand_on() -> None:
        assert (await fire(short_lived))["status"] == "recycle"
        (old,) = in_background()
        await old

    asyncio.run(hand_on())
    assert taken == ["over"]


@pytest.mark.parametrize(("state", "canceled"), [("failed", ["attempt-1"]), ("deferred", [])])
def test_task_that_ended_while_airflow_was_down_is_recognized_later(
    monkeypatch: pytest.MonkeyPatch, state: str, canceled: list[str]
) -> None:
    """The triggerer stops the loop and calls `cleanup`, the state of the task cannot be read, and Airflow answers later."""
    airflow = FakeComms.install(monkeypatch)
    airflow.task_states, airflow.xcoms, airflow.error = (
        {"r": {"t": state}},
        {"attempt": "attempt-1"},
        api_server_error(),
    )
    monkeypatch.setattr(adaptive_job, "HANDOVER_POLL_INTERVAL", timedelta(0))
    found: list[str] = []

    async def cancel(job: DeployedJob) -> None:
        found.append(job.spec.attempt)

    monkeypatch.setattr(adaptive_job, "cancel_until_ended", cancel)
    spec = encode(small_job("job", (1, 2), {}))
    trigger = AdaptiveJobTrigger(spec=spec, connections={"spark": "c"}, base="file:///x", task_key=TASK)

    async def kill() -> None:
        call = asyncio.create_task(cleaned_up(trigger))
        assert (await asyncio.wait({call}, timeout=0.5))[0] == set()
        airflow.error = None
        assert (await asyncio.wait({call}, timeout=60))[0] == {call}

    asyncio.run(kill())
    assert found == canceled


def test_end_of_a_trigger_does_not_wait_for_the_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver needs longer to stop than Airflow waits at a shutdown."""
    airflow = FakeComms.install(monkeypatch)
    airflow.task_states, airflow.xcoms = {"r": {"t": "failed"}}, {"attempt": "attempt-1"}
    trigger = AdaptiveJobTrigger(
        spec=encode(small_job("job", (1, 2), {})), connections={"spark": "c"}, base="file:///x", task_key=TASK
    )
    ended: list[str] = []

    async def kill() -> None:
        is_stopped = asyncio.Event()

        async def cancel(job: DeployedJob) -> None:
            await is_stopped.wait()
            ended.append(job.spec.attempt)

        monkeypatch.setattr(adaptive_job, "cancel_until_ended", cancel)
        await trigger.cleanup()
        is_stopped.set()
        await asyncio.wait(in_background(), timeout=60)

    asyncio.run(kill())
    assert ended == ["attempt-1"]


def test_killed_trigger_of_another_version_reports_once_that_its_driver_may_still_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A task defers, another version is installed that cannot read the spec of the trigger, and a user ends the task."""
    FakeComms.install(monkeypatch)
    spec = encode(small_job("job", (1, 2), {})) | {"graph": None}
    trigger = AdaptiveJobTrigger(spec=spec, connections={"spark": "c"}, base="file:///x", task_key=TASK)

    async def kill() -> None:
        await cleaned_up(trigger)
        assert not in_background(), "no background task tries again"

    asyncio.run(kill())
    (record,) = [record for record in caplog.records if record.name == adaptive_job.__name__]
    assert record.getMessage().startswith(
        "The job cannot be canceled, and its driver may still run. Kill the driver in the web UI of its master."
    )
    assert "install the same version of airflow-adaptive in all Airflow components" in record.getMessage()


def test_trigger_that_has_fired_leaves_the_job_to_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    FakeComms.install(monkeypatch)
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))
    spec = encode(small_job("job", (1, 2), {})) | {"graph": None}
    trigger = AdaptiveJobTrigger(spec=spec, connections={"spark": "c"}, base="file:///x", task_key=TASK)

    async def run() -> None:
        assert [event.payload["status"] async for event in trigger.run()] == ["error"]
        await cleaned_up(trigger)

    asyncio.run(run())
    assert not [record for record in caplog.records if record.name == adaptive_job.__name__]


SPEC: dict[str, Any] = encode(small_job("job", (1, 2), {}))


@pytest.mark.parametrize("change", [{"graph": None}, {"attempt": 7}, {"options": {"poll_interval": "soon"}}])
def test_trigger_whose_spec_cannot_be_read_ends_with_an_error_that_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """A task defers, another version is installed that cannot read the spec of the trigger, and the triggerer starts the trigger."""
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))

    async def fire() -> dict[str, Any]:
        trigger = AdaptiveJobTrigger(spec=SPEC | change, connections={"spark": "c"}, base="file:///x", task_key=TASK)
        payload: dict[str, Any] = (await anext(aiter(trigger.run()))).payload
        return payload

    event = asyncio.run(fire())
    assert (event["status"], event["driver"]) == ("error", None)
    assert (
        "install the same version of airflow-adaptive in all Airflow components, and clear the task" in event["message"]
    )
