"""Recorded histories, whose replay gives the same states, commands and reasons.

`tests.support.scheduler.record_histories` records the histories again.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import CancelRequested, SchedulingStarted
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Finished
from tests.lab.replay.__main__ import main
from tests.lab.replay.histories import History, Recorder, decode_event, replay
from tests.support.repository import ROOT
from tests.support.scheduler.invariants import check_step

HISTORIES = ROOT / "tests" / "support" / "scheduler" / "recorded_histories"
FILES = sorted(HISTORIES.glob("*.json"))
NOW = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_replay_gives_the_recorded_outcomes(file: Path):
    assert not list(replay(History.read(file)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_job_finished_and_met_the_invariants(file: Path):
    history = History.read(file)
    state = history.begin()
    for recorded in history.steps:
        event = decode_event(recorded["event"])
        step = machine.step(state, event)
        check_step(state, event, step)
        state = step.state
    assert isinstance(state.current, Finished)
    assert state.driver is None


# ---- recording and replay -------------------------------------------------------------------------------------------


def recorded() -> History:
    """Return the history of a job that starts and is canceled. The vertex of the job has non-default fields."""
    vertex = JobVertex(name="v", parallelism=ParallelismRange(1, 2), max_parallelism=8, stateful=False)
    state = machine.create(JobGraph(job="job", vertices=(vertex,)), Options.of({"stop_timeout": 5}))
    with Recorder(options={"stop_timeout": 5}) as recorder:
        machine.step(state, SchedulingStarted(at=NOW))
        state = machine.step(state, SchedulingStarted(at=NOW)).state
        machine.step(state, CancelRequested(at=NOW))
    return recorder.history("started and canceled", "here")


def test_history_survives_its_file(tmp_path: Path):
    recorded().write(tmp_path / "history.json")
    assert History.read(tmp_path / "history.json") == recorded()
    assert not list(replay(recorded()))


def test_command_line_prints_the_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(HISTORIES), str(FILES[0])]) == 0
    assert capsys.readouterr().out.count("as recorded\n") == len(FILES) + 1
    history = json.loads(FILES[0].read_text())
    history["steps"][0]["reason"] = "a whim"
    (tmp_path / "changed.json").write_text(json.dumps(history))
    (tmp_path / "empty.json").write_text("")
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "differences: 1\n  step 1, SchedulingStarted: reason was 'a whim', is 'scheduling started'\n" in printed
    assert "empty.json: cannot be replayed\n" in printed
