"""Jobs that no task runs any more, and that no loop has noticed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time import comms

from airflow_adaptive._airflow.process.abandoned_jobs import (
    REQUEST_TRIES,
    NotExaminedError,
    cancel_abandoned_job,
    cancel_abandoned_jobs,
    canceling_abandoned_jobs,
)
from airflow_adaptive._airflow.process.process_resources import DeployedJob, ProcessResources
from airflow_adaptive._core.ports import JobKey
from airflow_adaptive._core.protocol.documents import Action, Directive, JournalDocument, encode_document, journal_name
from airflow_adaptive._core.scheduler.snapshot import to_json
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import TaskKey
from tests.lab.scenario import Scenario
from tests.support.airflow.fake_supervisor import FakeComms

pytestmark = pytest.mark.asyncio

RUNS = Scenario().given_executing(2).state
ENDED = Scenario().given_executing(2).when_canceled().when_driver_ended().state


class Supervisor(FakeComms):
    """A supervisor that knows the XComs `attempt` and `state` of each task instance, by task and map index."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[tuple[str, int], str] = {}
        self.states: dict[tuple[str, int], str] = {}

    def send(self, message: Any) -> Any:
        """Answer as the supervisor would."""
        if isinstance(message, comms.GetXCom):
            xcoms = self.states if message.key == "state" else self.attempts
            found = xcoms.get((message.task_id, -1 if message.map_index is None else message.map_index))
            return comms.XComResult(key=message.key, value=found)
        return super().send(message)


def _journal(base: Path, job: str, attempt: str, state: SchedulerState = RUNS, conn_id: str | None = "spark") -> None:
    directive = Directive(epoch=0, nonce="n", version=0, action=Action.RUN, plan=None)
    document = JournalDocument(
        job=job, number=1, at="", owner=f"{attempt}#1", directive=directive, scheduler=to_json(state)
    )
    files = {"journal": encode_document(document)}
    if conn_id is not None:
        connections = {"spark": conn_id, "kubernetes": "", "namespace": "", "kafka": ""}
        files["owners"] = json.dumps({"job": job, "task": "d/t", "connections": connections}).encode()
    for name, content in files.items():
        folder = base / JobKey.parse(job).folder / name
        folder.mkdir(parents=True)
        (folder / journal_name(1)).write_bytes(content)


async def _canceled(base: Path, job: str = "d:t:fa", *, is_observer: bool = False) -> list[str]:
    canceled = []

    async def cancel(job: DeployedJob) -> None:
        canceled.append(f"{job.spec.attempt} of {job.task} with {job.connections.spark}")

    ProcessResources.current().next_sweeps.clear()
    await cancel_abandoned_jobs(job, None if is_observer else f"file://{base}", cancel)
    return sorted(canceled)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Supervisor:
    """A fleet of four jobs was cleared with a list of two while its triggerer was down."""
    fake = Supervisor.install(monkeypatch)
    assert isinstance(fake, Supervisor)
    fake.task_states = {"r": {"t_0": "deferred", "t_1": "deferred", "t_2": "removed", "t_3": "removed"}}
    fake.attempts = {("t", 1): "d/t[1]/r/new", ("t", 2): "d/t[2]/r/old", ("t", 3): "d/t[3]/r/old"}
    _journal(tmp_path, "d:t:fa", "d/t[1]/r/new")
    _journal(tmp_path, "d:t:fc", "d/t[2]/r/old", conn_id="own")
    _journal(tmp_path, "d:t:ended", "d/t[3]/r/old", ENDED)
    _journal(tmp_path, "d:t:foreign", "attempt")
    (tmp_path / "d~t" / ".tmp").mkdir()
    return fake


async def test_job_whose_item_has_left_the_list_is_canceled_through_its_own_connections(
    airflow: Supervisor, tmp_path: Path
) -> None:
    for job in ("d:t:fa", "other", "e:u:fa"):
        assert await _canceled(tmp_path, job) == ["d/t[2]/r/old of d/t[2]/r with own"]
    assert await _canceled(tmp_path, "d:t:fc") == []


async def test_trigger_that_observes_a_job_examines_its_folder_and_the_job_itself(
    airflow: Supervisor, tmp_path: Path
) -> None:
    """The triggerer ended while it canceled the job, so its trigger does not exist any more."""
    assert await _canceled(tmp_path, "d:t:fc", is_observer=True) == [], "the job was never deployed"
    airflow.asset_states = {"fc:job_directory": f"file://{tmp_path}"}
    assert await _canceled(tmp_path, "d:t:fc", is_observer=True) == ["d/t[2]/r/old of d/t[2]/r with own"]


async def test_list_that_is_empty_leaves_no_job(airflow: Supervisor, tmp_path: Path) -> None:
    airflow.task_states = {"r": {"t": "skipped", "t_1": "removed", "t_2": "removed"}}
    assert len(await _canceled(tmp_path, "other")) == 2


@pytest.mark.parametrize("state", ["removed", "failed", "upstream_failed", "success"])
async def test_job_of_a_task_that_was_deleted_or_has_ended_is_canceled(
    airflow: Supervisor, tmp_path: Path, state: str
) -> None:
    airflow.task_states, airflow.attempts = {"r": {"s": state}}, {("s", -1): "d/s/r/1"}
    _journal(tmp_path, "single", "d/s/r/1", conn_id="own")
    assert await _canceled(tmp_path) == ["d/s/r/1 of d/s/r with own"]


async def test_job_whose_attempt_this_airflow_does_not_know_is_not_canceled(
    airflow: Supervisor, tmp_path: Path
) -> None:
    """Another Airflow uses the folder; its tasks have the same names, and some of its runs do not exist here."""
    airflow.task_states, airflow.attempts = {"r": {"s": "failed"}}, {("s", -1): "d/s/r/here"}
    _journal(tmp_path, "same", "d/s/r/there")
    _journal(tmp_path, "other", "e/s/run/there")
    assert await _canceled(tmp_path) == []


async def test_attempt_that_only_the_store_of_the_job_knows_is_canceled(airflow: Supervisor, tmp_path: Path) -> None:
    """A later try failed before it recorded its attempt, and Airflow has deleted the XComs of the earlier one."""
    airflow.task_states, airflow.attempts = {"r": {"s": "failed"}}, {}
    airflow.asset_states = {"attempt": "d/s/r/1"}
    _journal(tmp_path, "single", "d/s/r/1")
    assert await _canceled(tmp_path) == ["d/s/r/1 of d/s/r with spark"]


async def test_job_whose_connections_are_unknown_is_not_canceled(airflow: Supervisor, tmp_path: Path) -> None:
    airflow.task_states, airflow.attempts = {"r": {"s": "failed"}}, {("s", -1): "d/s/r/1"}
    _journal(tmp_path, "single", "d/s/r/1", conn_id=None)
    assert await _canceled(tmp_path) == []


async def test_loops_of_a_process_examine_a_folder_once(airflow: Supervisor, tmp_path: Path) -> None:
    assert len(await _canceled(tmp_path)) == 1
    async with canceling_abandoned_jobs("d:t:fa", f"file://{tmp_path}"):
        await asyncio.sleep(0)
    assert [*ProcessResources.current().next_sweeps] == [f"file://{tmp_path}"]


async def test_nothing_is_canceled_while_airflow_or_the_storage_does_not_answer(
    airflow: Supervisor, tmp_path: Path
) -> None:
    airflow.error = OSError("down")
    airflow.attempts = {}
    assert await _canceled(tmp_path) == []
    airflow.error = None
    assert await _canceled(tmp_path / "missing") == []


async def _requested(base: Path, job: str, deleted: TaskKey | None = None) -> list[str]:
    """Cancel a job because a user requests it. Time passes at once."""
    canceled = []

    async def cancel(job: DeployedJob) -> None:
        canceled.append(f"{job.spec.attempt} of {job.task} with {job.connections.spark}")

    await cancel_abandoned_job(job, f"file://{base}", None if deleted is None else asdict(deleted), cancel)
    return canceled


@pytest.mark.parametrize("state", [RUNS, ENDED], ids=["running", "ended"])
async def test_user_cancels_a_job_also_if_only_its_end_was_not_published(
    airflow: Supervisor, tmp_path: Path, state: SchedulerState
) -> None:
    airflow.task_states, airflow.attempts = {"r": {"s": "failed"}}, {("s", -1): "d/s/r/1"}
    _journal(tmp_path, "single", "d/s/r/1", state)
    assert await _requested(tmp_path, "single") == ["d/s/r/1 of d/s/r with spark"]


async def test_cancellation_by_a_user_is_tried_again_until_airflow_answers(
    airflow: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        airflow.error = None if len(waits) == 3 else airflow.error

    airflow.task_states, airflow.attempts = {"r": {"s": "failed"}}, {("s", -1): "d/s/r/1"}
    _journal(tmp_path, "single", "d/s/r/1")
    monkeypatch.setattr(ProcessResources.current().clock, "sleep", sleep)
    airflow.error = OSError("down")
    assert await _requested(tmp_path, "single") == ["d/s/r/1 of d/s/r with spark"]
    assert len(waits) == 3
    airflow.error = OSError("down")
    with pytest.raises(Exception, match="down"):
        await _requested(tmp_path, "single")
    assert len(waits) == 3 + REQUEST_TRIES - 1


@pytest.mark.parametrize("attempt", ["d/s/r/1", "d/s/r/here"])
async def test_cancellation_that_is_impossible_fails_with_the_reason(
    airflow: Supervisor, tmp_path: Path, attempt: str
) -> None:
    airflow.task_states, airflow.attempts = {"r": {"s": "failed"}}, {("s", -1): attempt}
    _journal(tmp_path, "single", "d/s/r/1", conn_id=None)
    with pytest.raises(NotExaminedError, match="run its DAG again"):
        await _requested(tmp_path, "single")


DELETED = TaskKey(dag_id="d", task_id="s", run_id="r")


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "never begun"])
async def test_end_of_the_job_of_a_deleted_task_is_recorded_in_its_xcoms(
    airflow: Supervisor, tmp_path: Path, begun: bool
) -> None:
    """A later attempt may have ended the job, and its loop wrote the XComs of another task instance."""
    airflow.task_states, airflow.attempts = {"r": {"s": "removed"}}, {("s", -1): "d/s/r/1"}
    if begun:
        _journal(tmp_path, "single", "d/s/r/1")
    assert await _requested(tmp_path, "single", DELETED) == ["d/s/r/1 of d/s/r with spark"] * begun
    assert airflow.xcoms == {"state": "CANCELED"}


async def test_end_that_the_loop_recorded_for_a_deleted_task_stays(airflow: Supervisor, tmp_path: Path) -> None:
    airflow.task_states, airflow.attempts = {"r": {"s": "removed"}}, {("s", -1): "d/s/r/1"}
    airflow.states = {("s", -1): "FAILED"}
    _journal(tmp_path, "single", "d/s/r/1", ENDED)
    await _requested(tmp_path, "single", DELETED)
    assert airflow.xcoms == {}


async def test_job_of_a_deleted_task_that_another_task_runs_has_no_end(airflow: Supervisor, tmp_path: Path) -> None:
    airflow.task_states, airflow.attempts = {"r": {"s": "removed", "u": "deferred"}}, {("u", -1): "d/u/r/2"}
    _journal(tmp_path, "single", "d/u/r/2")
    assert await _requested(tmp_path, "single", DELETED) == []
    assert airflow.xcoms == {}
