"""Whether a task runs a job decides whether the job is canceled."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time import comms

from airflow_adaptive._airflow.process.job_loop import END_STATES, Fate, fate_of, is_task_over
from airflow_adaptive._core.view import TaskKey
from tests.support.airflow.fake_supervisor import FakeComms

TASK = TaskKey(dag_id="d", task_id="t", run_id="r")
MOVED = TaskKey(dag_id="d", task_id="t", run_id="r", map_index=1)
JOB = "d:t:fb"


class Supervisor(FakeComms):
    """A supervisor that knows the XComs of each map index.

    Attributes:
        attempts: map index -> XCom `attempt`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[int, str] = {}
        self.sent: list[Any] = []

    def send(self, message: Any) -> Any:
        """Answer as the supervisor would."""
        self.sent.append(message)
        if isinstance(message, comms.GetXCom) and message.map_index in self.attempts:
            return comms.XComResult(key=message.key, value=self.attempts[message.map_index])
        return super().send(message)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    fake = Supervisor.install(monkeypatch)
    assert isinstance(fake, Supervisor)
    return fake


@pytest.mark.parametrize("state", sorted(END_STATES))
@pytest.mark.parametrize(("owner", "over"), [("r/1", True), (None, True), ("r/2", False)])
def test_attempt_is_over_when_its_task_has_ended_unless_another_attempt_owns_the_task(
    airflow: Supervisor, state: str, owner: str | None, over: bool
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": state}}, {"attempt": owner}
    assert (fate_of("job", TASK, "r/1") is Fate.OVER) is over


@pytest.mark.parametrize(
    ("state", "owner", "recorded", "was_deferred", "fate"),
    [
        ("deferred", "r/1", "r/1", True, Fate.CONTINUES),
        # The loop of the attempt runs in its worker, or the task was cleared, and its XComs are not deleted yet.
        ("running", "r/1", "r/1", False, Fate.CONTINUES),
        ("running", "r/1", "r/1", True, Fate.UNKNOWN),
        ("running", None, "r/1", False, Fate.UNKNOWN),
        # A cleared task may fail before it records an attempt.
        *((state, "r/1", "r/1", True, Fate.UNKNOWN) for state in (None, "scheduled", "queued", "up_for_retry")),
        *(
            (state, None, "r/2", True, Fate.CONTINUES)
            for state in (None, "queued", "running", "up_for_retry", "failed")
        ),
    ],
)
def test_cleared_task_decides_about_the_job_when_it_has_begun_to_run_it(
    airflow: Supervisor, state: str | None, owner: str | None, recorded: str, was_deferred: bool, fate: Fate
) -> None:
    airflow.task_states, airflow.xcoms = {"r": {"t": state}}, {"attempt": owner}
    airflow.asset_states = {"attempt": recorded}
    assert fate_of("job", TASK, "r/1", was_deferred=was_deferred) is fate


@pytest.mark.parametrize(("active_runs", "over"), [(set(), True), ({"r"}, False)])
def test_task_that_was_deleted_is_over_unless_airflow_creates_it_again(
    airflow: Supervisor, active_runs: set[str], over: bool
) -> None:
    airflow.active_runs = active_runs
    for job, task in (("job", TASK), (JOB, MOVED)):
        assert fate_of(job, task, "r/1") is (Fate.OVER if over else Fate.UNKNOWN)


@pytest.mark.parametrize("states", [("failed", "running"), ("running", "failed")])
def test_mapped_task_is_found_by_its_index(airflow: Supervisor, states: tuple[str, str]) -> None:
    airflow.task_states = {"r": dict(zip(("t_0", "t_1"), states, strict=True))}
    mapped = [TaskKey(dag_id="d", task_id="t", run_id="r", map_index=index) for index in (0, 1)]
    assert [is_task_over(task) for task in mapped] == [state == "failed" for state in states]


@pytest.mark.parametrize(
    ("states", "attempts", "recorded", "fate"),
    [
        # The task instance of the attempt runs the job, or ended by itself or by a user: the items of the others are different ones.
        (["deferred", "deferred"], {1: "b/1"}, "b/1", Fate.CONTINUES),
        (["queued", "failed"], {1: "b/1"}, "b/1", Fate.OVER),
        (["queued", "success"], {}, "b/1", Fate.OVER),
        # The run was cleared, and nothing is known before its task instances start.
        ([None, None, None], {1: "b/1"}, "b/1", Fate.UNKNOWN),
        (["deferred", "running"], {0: "c/2"}, "b/1", Fate.UNKNOWN),
        (["scheduled", "deferred"], {1: "a/2"}, "b/1", Fate.UNKNOWN),
        (["running", "deferred"], {1: "a/2"}, "b/1", Fate.UNKNOWN),
        (["queued", "removed"], {}, "b/1", Fate.UNKNOWN),
        (["deferred", "up_for_retry"], {0: "a/2", 1: "b/1"}, "b/1", Fate.UNKNOWN),
        # No task instance runs the job: its item left the list.
        (["deferred", "deferred", "removed"], {0: "c/2", 1: "a/2"}, "b/1", Fate.OVER),
        (["deferred", "deferred"], {0: "c/2", 1: "a/2"}, None, Fate.OVER),
        # A task that begins to run has the XComs of its previous attempt for a moment.
        (["deferred", "running"], {0: "c/2", 1: "b/1"}, "b/1", Fate.UNKNOWN),
        (["running", "deferred"], {0: "a/1", 1: "a/2"}, "b/1", Fate.UNKNOWN),
        (["deferred"], {0: "c/2"}, "b/1", Fate.OVER),
        (["deferred", "removed"], {0: "c/2"}, "b/1", Fate.OVER),
        (["upstream_failed", "upstream_failed"], {}, "b/1", Fate.OVER),
        # The job has moved to another map index.
        (["deferred", "deferred"], {0: "b/2", 1: "a/2"}, "b/2", Fate.CONTINUES),
        (["deferred", "removed"], {0: "b/2"}, "b/2", Fate.CONTINUES),
        (["deferred", None], {0: "b/2"}, "b/2", Fate.CONTINUES),
    ],
)
def test_job_of_a_fleet_belongs_to_the_task_instance_that_runs_its_id(
    airflow: Supervisor, states: list[str | None], attempts: dict[int, str], recorded: str | None, fate: Fate
) -> None:
    airflow.task_states = {"r": {f"t_{index}": state for index, state in enumerate(states)}}
    airflow.attempts = attempts
    airflow.asset_states = {} if recorded is None else {"fb:attempt": recorded}
    assert fate_of(JOB, MOVED, "b/1") is fate


def test_states_of_other_runs_and_tasks_are_not_read(airflow: Supervisor) -> None:
    """A DAG may have thousands of runs."""
    is_task_over(TaskKey(dag_id="d", task_id="t", run_id="r", map_index=3))
    states, runs = airflow.sent
    assert (states.dag_id, states.task_ids, states.run_ids, states.map_index) == ("d", ["t"], ["r"], 3)
    assert (runs.dag_id, runs.run_ids) == ("d", ["r"])
