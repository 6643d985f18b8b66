"""Whether a task instance will run again decides whether its job is canceled."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive.launch.task_state import END_STATES, is_attempt_over
from airflow_adaptive.stores.task_xcoms import TaskKey
from tests.support.airflow.fake_supervisor import FakeComms

TASK = TaskKey(dag_id="d", task_id="t", run_id="r")


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


@pytest.mark.parametrize("state", sorted(END_STATES))
@pytest.mark.parametrize(("owner", "over"), [("r/1", True), (None, True), ("r/2", False)])
def test_attempt_is_over_when_its_task_has_ended_unless_another_attempt_owns_the_task(
    airflow: FakeComms, state: str, owner: str | None, over: bool
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": state}}, {"attempt": owner}
    assert is_attempt_over(TASK, "r/1") is over


@pytest.mark.parametrize("state", ["deferred", "running", "up_for_retry", None])
def test_attempt_of_a_task_that_continues_is_not_over(airflow: FakeComms, state: str | None) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": state}}, {"attempt": "r/1"}
    assert not is_attempt_over(TASK, "r/1")


@pytest.mark.parametrize(("active_runs", "over"), [(set(), True), ({"r"}, False)])
def test_task_that_was_deleted_is_over_unless_airflow_creates_it_again(
    airflow: FakeComms, active_runs: set[str], over: bool
) -> None:
    airflow.active_runs = active_runs
    assert is_attempt_over(TASK, "r/1") is over


@pytest.mark.parametrize("states", [("failed", "running"), ("running", "failed")])
def test_mapped_task_is_found_by_its_index(airflow: FakeComms, states: tuple[str, str]) -> None:
    airflow.task_states = {"r": dict(zip(("t_0", "t_1"), states, strict=True))}
    mapped = [TaskKey(dag_id="d", task_id="t", run_id="r", map_index=index) for index in (0, 1)]
    assert [is_attempt_over(task, "r/1") for task in mapped] == [state == "failed" for state in states]


def test_states_of_other_runs_and_tasks_are_not_read(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DAG may have thousands of runs."""
    sent: list[Any] = []

    def send(message: Any) -> Any:
        sent.append(message)
        return FakeComms.send(airflow, message)

    monkeypatch.setattr(airflow, "send", send)
    is_attempt_over(TaskKey(dag_id="d", task_id="t", run_id="r", map_index=3), "r/1")
    states, runs, _ = sent
    assert (states.dag_id, states.task_ids, states.run_ids, states.map_index) == ("d", ["t"], ["r"], 3)
    assert (runs.dag_id, runs.run_ids) == ("d", ["r"])
