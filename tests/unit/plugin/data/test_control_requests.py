"""Cancel, suspend and resume: what is wished is in the inbox before it is answered; a suspended job is run again by Airflow."""

from __future__ import annotations

import pytest

from airflow_adaptive.testing.scenario import HOPELESS
from tests.support.airflow_app import API, RUN, AirflowWorld
from tests.support.published_documents import canceled, executing, place, shown, suspended

PATH = f"{API}/jobs/departures"


def ask(world: AirflowWorld, what: str) -> tuple[int, str]:
    answer = world.client().post(f"{PATH}/{what}", json={})
    return answer.status_code, answer.json().get("type", "").rpartition(":")[2]


STATES = {"cancel": "canceled", "suspend": "suspended", "resume": "running"}


@pytest.mark.parametrize("what", ["cancel", "suspend"])
def test_wish_is_in_the_inbox_before_it_is_answered(world: AirflowWorld, what: str) -> None:
    asset = place(world, executing())
    answer = world.client().post(f"{PATH}/{what}", json={})
    assert (answer.status_code, answer.json()["desired_state"], answer.json()["state"]) == (
        202,
        STATES[what],
        "Executing",
    )
    assert world.stored(asset, "desired_state") == STATES[what]
    assert world.stored(asset, "requesters")["desired_state"]["by"] == "editor"
    line = {"event": f"adaptive_{what}", "owner": "editor", "dag_id": "flights"}
    assert world.audit() == [{**line, "job": "departures", "via": "REST", "asked": STATES[what]}]
    assert list(world.marks()) == ["departures"]


@pytest.mark.parametrize("what", ["cancel", "suspend", "resume"])
def test_asking_again_changes_nothing(world: AirflowWorld, what: str) -> None:
    asset = place(world, executing(), desired_state="suspended" if what == "resume" else "running")
    assert [ask(world, what)[0] for _ in range(3)] == [202, 202, 202]
    assert world.stored(asset, "desired_state") == STATES[what]
    assert len(world.audit()) == 1


def test_body_may_be_left_out_but_not_its_type(world: AirflowWorld) -> None:
    place(world, executing())
    answer = world.client().post(f"{PATH}/suspend", headers={"Content-Type": "application/json"})
    assert answer.status_code == 202


def test_job_that_has_shown_nothing_yet_can_be_canceled(world: AirflowWorld) -> None:
    asset = world.declare("departures")
    world.show(asset, {"desired_state": "running"})
    assert ask(world, "cancel") == (202, "")
    assert world.stored(asset, "desired_state") == "canceled"


def test_job_that_has_ended_can_not_be_asked_anything(world: AirflowWorld) -> None:
    asset = place(world, executing().when_query_failed(HOPELESS).when_driver_ended())
    assert [ask(world, what) for what in ("cancel", "suspend", "resume")] == [(409, "finished")] * 3
    assert world.stored(asset, "desired_state") == "running"
    assert world.audit() == []


def test_canceled_job_stays_canceled(world: AirflowWorld) -> None:
    place(world, canceled())
    assert ask(world, "cancel") == (202, "")
    assert [ask(world, what) for what in ("suspend", "resume")] == [(409, "finished")] * 2


def test_job_that_is_being_canceled_can_not_be_saved(world: AirflowWorld) -> None:
    asset = place(world, executing(), desired_state="canceled")
    assert [ask(world, what) for what in ("suspend", "resume")] == [(409, "canceling")] * 2
    assert world.stored(asset, "desired_state") == "canceled"


# ---- suspended jobs -------------------------------------------------------------------------------------------------


def test_suspended_job_is_run_again_by_airflow(world: AirflowWorld) -> None:
    asset = place(world, suspended(), desired_state="suspended")
    world.run(state="success")
    assert ask(world, "resume") == (202, "")
    assert world.task_state() is None
    assert world.run_state() == "queued"
    assert world.stored(asset, "desired_state") == "running"
    assert [line["event"] for line in world.audit()] == ["adaptive_resume"]


def test_job_that_was_resumed_is_not_cleared_again(world: AirflowWorld) -> None:
    place(world, suspended(), desired_state="suspended")
    world.run(state="success")
    assert [ask(world, "resume")[0] for _ in range(3)] == [202, 202, 202]
    assert len(world.audit()) == 1


def test_suspended_job_whose_task_is_about_to_end_is_resumed_a_little_later(world: AirflowWorld) -> None:
    asset = place(world, suspended(), desired_state="suspended")
    world.run(state="deferred")
    answer = world.client().post(f"{PATH}/resume", json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "5")
    assert world.task_state() == "deferred"
    assert world.stored(asset, "desired_state") == "suspended"


@pytest.mark.parametrize(
    ("paused", "answer", "state"), [(False, (409, "suspending"), "success"), (True, (202, ""), None)]
)
def test_task_is_not_cleared_behind_the_back_of_a_scheduler_that_ends_its_run(
    world: AirflowWorld, paused: bool, answer: tuple[int, str], state: str | None
) -> None:
    place(world, suspended(), desired_state="suspended")
    world.run(state="success", ends=True)
    world.pause(paused)
    assert ask(world, "resume") == answer
    assert world.task_state() == state


def test_job_that_stops_is_resumed_when_it_has_stopped(world: AirflowWorld) -> None:
    place(world, executing().when_suspended(), desired_state="suspended")
    assert ask(world, "resume") == (409, "suspending")


def test_suspended_job_whose_run_is_gone_is_not_resumed(world: AirflowWorld) -> None:
    asset = place(world, suspended(), desired_state="suspended")
    answer = world.client().post(f"{PATH}/resume", json={})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "run-gone")
    assert answer.json()["detail"] == (
        f"Run {RUN!r} of DAG 'flights' that job 'departures' belongs to is gone: trigger flights; the job goes on from its "
        "checkpoint."
    )
    assert world.stored(asset, "desired_state") == "suspended"
    assert world.audit() == []


def test_task_that_does_not_run_the_job_is_not_cleared(world: AirflowWorld) -> None:
    """Whoever can write into the state store of an Asset must not have others' tasks run."""
    asset = place(world, suspended(), desired_state="suspended")
    forged = shown(suspended())
    forged["summary"]["task"] = {"dag_id": "payments", "task_id": "pay", "run_id": RUN, "map_index": -1}
    world.show(asset, forged)
    world.dag("payments")
    world.run("payments", "pay")
    assert ask(world, "resume") == (409, "run-gone")
    assert world.task_state() == "success"


def test_suspended_job_has_nothing_to_suspend_or_cancel(world: AirflowWorld) -> None:
    place(world, suspended(), desired_state="suspended")
    assert ask(world, "suspend") == (202, "")
    assert ask(world, "cancel") == (409, "suspended")
    assert world.audit() == []
