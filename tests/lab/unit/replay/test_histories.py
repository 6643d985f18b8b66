"""Recorded histories, whose replay gives the same states, commands and reasons.

`tests.support.scheduler.record_histories` records the histories again.
"""

import json
from dataclasses import replace
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
from tests.lab.replay.histories import History, HistoryError, Recorder, decode_event, replay
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


def test_histories_are_of_the_simulation_and_of_a_real_cluster():
    assert {History.read(file).source for file in FILES} == {"simulated cluster", "embedded Spark cluster"}


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


def test_repeated_step_is_in_the_history_once():
    assert [step["event"]["type"] for step in recorded().steps] == ["SchedulingStarted", "CancelRequested"]
    assert recorded().steps[-1]["state"] == "Finished(CANCELED)"


def test_history_survives_its_file(tmp_path: Path):
    recorded().write(tmp_path / "history.json")
    assert History.read(tmp_path / "history.json") == recorded()
    assert not list(replay(recorded()))


def test_nothing_is_recorded_when_the_recorder_is_closed():
    original = machine.step
    recorded()
    assert machine.step is original


def test_history_without_steps_is_refused():
    with Recorder(options={}) as recorder:
        pass
    with pytest.raises(HistoryError, match="nothing was recorded"):
        recorder.history("nothing", "here")


def test_history_of_a_job_under_other_options_is_refused():
    state = machine.create(JobGraph.single("job", ParallelismRange(1, 2)), Options())
    with Recorder(options={"stop_timeout": 5}) as recorder:
        machine.step(state, SchedulingStarted(at=NOW))
    with pytest.raises(HistoryError, match="had already started"):
        recorder.history("wrong options", "here")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "Executing"),
        ("version", 7),
        ("parallelism", {"v": 2}),
        ("commands", [{}]),
        ("reason_code", "COOLDOWN"),
        ("reason", "no reason"),
    ],
)
def test_every_difference_is_reported(name: str, value: object):
    first, *others = recorded().steps
    (difference,) = replay(replace(recorded(), steps=[{**first, name: value}, *others]))
    assert difference.startswith(f"step 1, SchedulingStarted: {name} was {value!r}, is ")


@pytest.mark.parametrize("content", ["", "[]", '{"title": "no steps"}'])
def test_file_without_a_history_is_refused(tmp_path: Path, content: str):
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(HistoryError, match=r"other\.json is not a history"):
        History.read(tmp_path / "other.json")


def test_unknown_event_is_refused():
    with pytest.raises(HistoryError, match="unknown type of event: 'MoonRose'"):
        decode_event({"type": "MoonRose"})


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
