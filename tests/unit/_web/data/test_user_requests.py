"""Cancel, suspend and resume: a request is stored before its response is sent, and Airflow runs the task of a resumed job again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from airflow.models.callback import Callback
from airflow.models.taskinstance import TaskInstance
from airflow.state import AssetScope
from airflow.state.metastore import MetastoreBackend
from sqlalchemy import event, select
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from airflow_adaptive._web.data.metadata_database.changes import JobTransaction
from tests.lab.scenario import HOPELESS, Scenario
from tests.support.airflow.airflow_app import API, RUN, AirflowApp
from tests.support.airflow.published_documents import canceled, executing, place, published, suspended

PATH = f"{API}/jobs/departures"


def request(airflow_app: AirflowApp, what: str) -> tuple[int, str]:
    answer = airflow_app.client().post(f"{PATH}/{what}", json={})
    return answer.status_code, answer.json().get("type", "").rpartition(":")[2]


STATES = {"cancel": "canceled", "suspend": "suspended", "resume": "running"}


@pytest.mark.parametrize("what", ["cancel", "suspend"])
def test_desired_state_is_in_the_control_requests_before_it_is_answered(airflow_app: AirflowApp, what: str) -> None:
    asset = place(airflow_app, executing())
    answer = airflow_app.client().post(f"{PATH}/{what}", json={})
    assert (answer.status_code, answer.json()["desired_state"], answer.json()["state"]) == (
        202,
        STATES[what],
        "Executing",
    )
    assert airflow_app.requested(asset, "desired_state") == STATES[what]
    assert airflow_app.stored(asset, "desired_state")["by"] == "editor"
    line = {"event": f"adaptive_{what}", "owner": "editor", "dag_id": "flights"}
    assert airflow_app.audit() == [{**line, "job": "departures", "via": "REST", "request": STATES[what]}]
    assert list(airflow_app.marks()) == ["departures"]


@pytest.mark.parametrize("what", ["cancel", "suspend", "resume"])
def test_repeated_request_changes_nothing(airflow_app: AirflowApp, what: str) -> None:
    asset = place(airflow_app, executing(), desired_state={"value": "suspended" if what == "resume" else "running"})
    assert [request(airflow_app, what)[0] for _ in range(3)] == [202, 202, 202]
    assert airflow_app.requested(asset, "desired_state") == STATES[what]
    assert len(airflow_app.audit()) == 1


def test_body_may_be_left_out_but_not_its_type(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client().post(f"{PATH}/suspend", headers={"Content-Type": "application/json"})
    assert answer.status_code == 202


def test_job_that_has_published_nothing_yet_can_be_canceled(airflow_app: AirflowApp) -> None:
    asset = airflow_app.declare("departures")
    airflow_app.show(asset, {"desired_state": {"value": "running"}})
    assert request(airflow_app, "cancel") == (202, "")
    assert airflow_app.requested(asset, "desired_state") == "canceled"


def test_job_that_has_ended_accepts_no_requests(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing().when_query_failed(HOPELESS).when_driver_ended())
    assert [request(airflow_app, what) for what in ("cancel", "suspend", "resume")] == [(409, "finished")] * 3
    assert airflow_app.requested(asset, "desired_state") == "running"
    assert airflow_app.audit() == []


def test_canceled_job_stays_canceled(airflow_app: AirflowApp) -> None:
    place(airflow_app, canceled())
    assert request(airflow_app, "cancel") == (202, "")
    assert [request(airflow_app, what) for what in ("suspend", "resume")] == [(409, "finished")] * 2


def test_job_that_is_being_canceled_can_not_be_saved(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing(), desired_state={"value": "canceled"})
    assert [request(airflow_app, what) for what in ("suspend", "resume")] == [(409, "canceling")] * 2
    assert airflow_app.requested(asset, "desired_state") == "canceled"


# ---- suspended jobs -------------------------------------------------------------------------------------------------


def test_suspended_job_is_run_again_by_airflow(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success")
    assert request(airflow_app, "resume") == (202, "")
    assert airflow_app.task_state() is None
    assert airflow_app.run_state() == "queued"
    assert airflow_app.requested(asset, "desired_state") == "running"
    assert [line["event"] for line in airflow_app.audit()] == ["adaptive_resume"]


def test_job_that_was_resumed_is_not_cleared_again(airflow_app: AirflowApp) -> None:
    place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success")
    assert [request(airflow_app, "resume")[0] for _ in range(3)] == [202, 202, 202]
    assert len(airflow_app.audit()) == 1


def test_suspended_job_whose_task_is_about_to_end_is_resumed_a_little_later(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="deferred")
    answer = airflow_app.client().post(f"{PATH}/resume", json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "5")
    assert airflow_app.task_state() == "deferred"
    assert airflow_app.requested(asset, "desired_state") == "suspended"


@pytest.mark.parametrize(
    ("paused", "answer", "state"), [(False, (409, "suspending"), "success"), (True, (202, ""), None)]
)
def test_task_is_not_cleared_behind_the_back_of_a_scheduler_that_ends_its_run(
    airflow_app: AirflowApp, paused: bool, answer: tuple[int, str], state: str | None
) -> None:
    place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success", ends=True)
    airflow_app.pause(paused)
    assert request(airflow_app, "resume") == answer
    assert airflow_app.task_state() == state


@pytest.mark.parametrize("run", [{"ends": False}, {"ends": True, "next_task": "report"}])
def test_suspended_job_is_resumed_if_its_run_has_ended_or_continues_with_another_task(
    airflow_app: AirflowApp, run: dict[str, Any]
) -> None:
    place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success", **run)
    airflow_app.pause(False)
    assert request(airflow_app, "resume") == (202, "")


def test_attempts_that_airflow_hides_do_not_continue_a_run(airflow_app: AirflowApp) -> None:
    """Airflow 3.4 keeps earlier attempts as task instances, and a hook of all sessions hides them."""
    hidden = with_loader_criteria(TaskInstance, TaskInstance.task_id != "report", include_aliases=True)

    def hide(state: ORMExecuteState) -> None:
        state.statement = state.statement.options(hidden)

    place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run(state="success", ends=True, next_task="report")
    airflow_app.pause(False)
    event.listen(Session, "do_orm_execute", hide)
    try:
        assert request(airflow_app, "resume") == (409, "suspending")
    finally:
        event.remove(Session, "do_orm_execute", hide)


def test_job_that_stops_is_resumed_when_it_has_stopped(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing().when_suspended(), desired_state={"value": "suspended"})
    assert request(airflow_app, "resume") == (409, "suspending")


def test_suspended_job_whose_run_is_gone_is_not_resumed(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, suspended(), desired_state={"value": "suspended"})
    answer = airflow_app.client().post(f"{PATH}/resume", json={})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "run-gone")
    assert answer.json()["detail"] == (
        f"Run {RUN!r} of DAG 'flights' of job 'departures' does not exist anymore. Trigger flights. The job continues from its "
        "checkpoint."
    )
    assert airflow_app.requested(asset, "desired_state") == "suspended"
    assert airflow_app.audit() == []


def test_task_that_does_not_run_the_job_is_not_cleared(airflow_app: AirflowApp) -> None:
    """A user who can write to the state store of an Asset must not be able to clear the tasks of other DAGs."""
    asset = place(airflow_app, suspended(), desired_state={"value": "suspended"})
    forged = published(suspended())
    forged["summary"]["task"] = {"dag_id": "payments", "task_id": "pay", "run_id": RUN, "map_index": -1}
    airflow_app.show(asset, forged)
    airflow_app.dag("payments")
    airflow_app.run("payments", "pay")
    assert request(airflow_app, "resume") == (409, "run-gone")
    assert airflow_app.task_state() == "success"


def test_suspended_job_has_nothing_to_suspend_or_cancel(airflow_app: AirflowApp) -> None:
    place(airflow_app, suspended(), desired_state={"value": "suspended"})
    assert request(airflow_app, "suspend") == (202, "")
    assert request(airflow_app, "cancel") == (409, "suspended")
    assert airflow_app.audit() == []


def test_change_markers_belong_to_no_team(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of a team was the first to create the Variable; then a user changes a job of another team."""
    from airflow.models.team import Team  # noqa: PLC0415
    from airflow.models.variable import Variable  # noqa: PLC0415

    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    with airflow_app.session() as session:
        session.add(Team(name="blue"))
    Variable.set("airflow_adaptive_change_markers", '{"of_blue": "1"}', team_name="blue")
    place(airflow_app, executing())
    airflow_app.client().post(f"{API}/jobs/departures/suspend", json={})
    assert list(airflow_app.marks()) == ["of_blue", "departures"]
    assert Variable.get_team_name("airflow_adaptive_change_markers") is None


# ---- ended jobs whose loop could not publish the end -------------------------------------------------------------------


REPORTED = {
    "requests": [],
    "is_running": False,
    "end": {"state": "Finished", "outcome": "FAILED", "cause": "disk full"},
}


def details(airflow_app: AirflowApp) -> tuple[str, str | None, str | None, bool]:
    """State, outcome and cause of the job, equal in the list and in the details, and whether the state is stale."""
    client = airflow_app.client()
    found, (listed,) = client.get(PATH).json(), client.get(f"{API}/jobs").json()["jobs"]
    names = ("state", "outcome", "cause", "stale")
    assert [found[name] for name in names] == [listed[name] for name in names]
    return found["state"], found["outcome"], found["cause"], found["stale"]


def answers(airflow_app: AirflowApp) -> list[tuple[int, str]]:
    return [request(airflow_app, what) for what in ("cancel", "suspend", "resume")]


def test_end_that_only_the_task_could_report_is_the_end_of_the_job(airflow_app: AirflowApp) -> None:
    """A late write of a loop may have replaced the end that the loop published."""
    place(airflow_app, executing(), handled_requests=REPORTED)
    assert details(airflow_app) == ("Finished", "FAILED", "disk full", False)
    assert answers(airflow_app) == [(409, "finished")] * 3


FAILED = executing().when_query_failed(HOPELESS).when_driver_ended()

RETRIED = REPORTED | {"retried": "flights/stream/" + RUN}

BEGUN = {"requests": [], "is_running": True, "end": {}}


@pytest.mark.parametrize("what", ["cancel", "suspend"])
@pytest.mark.parametrize(
    ("job", "handled", "state", "status"),
    [
        (FAILED, RETRIED, "up_for_retry", 202),
        (executing(), RETRIED, "up_for_retry", 202),
        (FAILED, RETRIED, "queued", 202),
        (FAILED, BEGUN, "deferred", 202),
        (FAILED, RETRIED, "failed", 409),
        (FAILED, BEGUN, "failed", 409),
        (FAILED, REPORTED, "running", 409),
    ],
)
def test_failed_job_whose_task_runs_it_again_can_be_stopped(
    airflow_app: AirflowApp, job: Scenario, handled: dict[str, Any], state: str, status: int, what: str
) -> None:
    asset = place(airflow_app, job, desired_state={}, handled_requests=handled)
    airflow_app.run(state=state)
    assert request(airflow_app, what)[0] == status
    assert (airflow_app.requested(asset, "desired_state") == STATES[what]) is (status == 202)


@pytest.mark.parametrize("state", ["deferred", "running", "queued", "scheduled", "up_for_retry", None])
def test_job_of_a_task_that_may_continue_has_not_ended(airflow_app: AirflowApp, state: str | None) -> None:
    place(airflow_app, executing())
    airflow_app.run(state=state)
    assert details(airflow_app) == ("Executing", None, None, False)
    assert request(airflow_app, "cancel") == (202, "")


@pytest.mark.parametrize("state", ["success", "skipped", "failed", "upstream_failed", "removed"])
def test_job_whose_task_has_ended_without_a_report_is_canceled_by_a_triggerer(
    airflow_app: AirflowApp, state: str
) -> None:
    """The driver may run, so the job is not called ended: a user marked the task while no triggerer ran, for example."""
    asset = place(airflow_app, executing())
    airflow_app.show(asset, {"job_directory": "file:///jobs"})
    airflow_app.run(state=state)
    found = airflow_app.client().get(PATH).json()
    assert (found["abandoned"], *details(airflow_app)[:2]) == (True, "Executing", None)
    assert [request(airflow_app, what) for what in ("suspend", "resume")] == [(409, "no-loop")] * 2
    assert request(airflow_app, "cancel") == (202, "")
    with airflow_app.session() as session:
        (callback,) = session.scalars(select(Callback)).all()
        assert callback.data["kwargs"] == {"job": "departures", "base": "file:///jobs"}
        assert callback.data["path"].endswith("cancel_abandoned_job")
        assert callback.trigger is not None
    assert [line["event"] for line in airflow_app.audit()] == ["adaptive_cancel"]


def test_job_without_a_loop_and_without_a_directory_cannot_be_canceled(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.run(state="removed")
    assert request(airflow_app, "cancel") == (409, "no-loop")
    assert airflow_app.requested(asset, "desired_state") == "running"


def test_job_that_ends_while_a_user_resumes_it_refuses_the_request(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task has reported the end after the request was accepted, and before it was stored."""
    asset = place(airflow_app, executing(), desired_state={"value": "suspended"})
    commit = JobTransaction.request

    def late(change: JobTransaction, *arguments: Any) -> None:
        commit(change, *arguments)
        handled = {"requests": [{"value": "suspended"}], "is_running": False, "end": {}}
        change._session.flush()
        MetastoreBackend().set(
            AssetScope(asset_id=asset), "handled_requests", json.dumps(handled), session=change._session
        )

    monkeypatch.setattr(JobTransaction, "request", late)
    assert request(airflow_app, "resume") == (409, "suspending")


@pytest.mark.parametrize(("age", "is_stale"), [(timedelta(seconds=100), False), (timedelta(seconds=140), True)])
def test_published_state_that_is_old_is_stale(airflow_app: AirflowApp, age: timedelta, is_stale: bool) -> None:
    place(airflow_app, executing())
    airflow_app.age(age)
    assert details(airflow_app)[3] is is_stale


def test_job_that_has_ended_is_never_stale(airflow_app: AirflowApp) -> None:
    place(airflow_app, suspended())
    airflow_app.age(timedelta(days=1))
    assert not details(airflow_app)[3]
