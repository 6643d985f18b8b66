"""Jobs of a fleet that no task runs any more, and that no loop has noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.job.protocol.codec import encode_journal, journal_name
from airflow_adaptive.job.protocol.documents import Action, Directive, JournalDocument
from airflow_adaptive.launch.abandoned_jobs import cancel_abandoned_jobs
from airflow_adaptive.launch.cluster.connection_ids import ConnectionIds
from airflow_adaptive.scheduler.snapshot import to_json
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.stores.task_xcoms import TaskKey
from airflow_adaptive.testing.scenario import Scenario
from tests.support.airflow.fake_supervisor import FakeComms

pytestmark = pytest.mark.asyncio

RUNS = Scenario().given_executing(2).state
ENDED = Scenario().given_executing(2).when_canceled().when_driver_ended().state


def _journal(base: Path, job: str, attempt: str, state: SchedulerState) -> None:
    directive = Directive(epoch=0, nonce="n", version=0, action=Action.RUN, plan=None)
    document = JournalDocument(
        job=f"d:t:{job}", number=1, at="", owner=f"{attempt}#1", directive=directive, scheduler=to_json(state)
    )
    journal = base / "d~t" / job / "journal"
    journal.mkdir(parents=True)
    (journal / journal_name(1)).write_bytes(encode_journal(document))


async def _canceled(base: Path, map_index: int = 0, job: str = "d:t:fc") -> list[str]:
    canceled = []

    async def cancel(spec: Any, connections: Any, base: str, task: TaskKey) -> None:
        canceled.append(f"{spec.attempt} of {task}")

    task = TaskKey(dag_id="d", task_id="t", run_id="r", map_index=map_index)
    await cancel_abandoned_jobs(job, ConnectionIds("spark"), f"file://{base}", task, cancel)
    return canceled


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeComms:
    """A fleet of three jobs was cleared with a list of two while its triggerer was down."""
    fake = FakeComms.install(monkeypatch)
    fake.task_states = {"r": {"t_0": "deferred", "t_1": "deferred", "t_2": "removed"}}
    fake.xcoms = {"attempt": "d/t[1]/r/new"}
    _journal(tmp_path, "fa", "d/t[1]/r/new", RUNS)
    _journal(tmp_path, "fc", "d/t[2]/r/old", RUNS)
    _journal(tmp_path, "gone", "d/t[2]/r/old", RUNS)
    _journal(tmp_path, "ended", "d/t[2]/r/old", ENDED)
    _journal(tmp_path, "foreign", "attempt", RUNS)
    (tmp_path / "d~t" / ".tmp").mkdir()
    return fake


async def test_loop_of_the_first_item_cancels_a_job_whose_item_has_left_the_list(
    airflow: FakeComms, tmp_path: Path
) -> None:
    assert await _canceled(tmp_path) == ["d/t[2]/r/old of d/t[2]/r"]
    assert await _canceled(tmp_path, map_index=1) == []
    assert await _canceled(tmp_path, map_index=-1, job="fc") == []


async def test_nothing_is_canceled_while_airflow_or_the_storage_does_not_answer(
    airflow: FakeComms, tmp_path: Path
) -> None:
    airflow.error = OSError("down")
    assert await _canceled(tmp_path) == []
    airflow.error = None
    (tmp_path / "d~t").rename(tmp_path / "away")
    (tmp_path / "d~t").write_text("no folder")
    assert await _canceled(tmp_path) == []
