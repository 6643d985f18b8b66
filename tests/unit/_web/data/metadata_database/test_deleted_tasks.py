"""Jobs whose task was deleted from its DAG file, so that Airflow has emptied the store of the job."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.models.callback import Callback
from sqlalchemy import select

from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import TASK, canceled, executing, place, place_deleted, suspended

PATH = f"{API}/jobs/departures"


def listed(airflow_app: AirflowApp) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = airflow_app.client().get(f"{API}/jobs").json()["jobs"]
    return jobs


def status(airflow_app: AirflowApp) -> int:
    return int(airflow_app.client().get(PATH).status_code)


def request(airflow_app: AirflowApp, what: str) -> tuple[int, str]:
    answer = airflow_app.client().post(f"{PATH}/{what}", json={})
    return answer.status_code, answer.json().get("type", "").rpartition(":")[2]


@pytest.mark.parametrize("state", ["removed", "failed", "success"])
def test_job_that_a_deleted_task_has_left_is_displayed_without_a_control_loop(
    airflow_app: AirflowApp, state: str
) -> None:
    """Airflow marks a task instance as removed only while its DAG run is active."""
    place_deleted(airflow_app, executing(), state)
    (item,) = listed(airflow_app)
    found = airflow_app.client().get(PATH).json()
    for job in (item, found):
        assert [job[key] for key in ("job", "state", "outcome", "abandoned")] == ["departures", "Executing", None, True]
        assert [job[key] for key in ("parallelism", "task", "dag_ids")] == [{"job": 2}, TASK, ["flights"]]
        assert job["urls"]["driver"] == "http://h1:4040"
        assert job["published_at"] is not None
    (transition, *_) = airflow_app.client().get(f"{PATH}/transitions").json()["transitions"]
    assert transition["target"] == "Executing"


@pytest.mark.parametrize("job", [suspended(), canceled()], ids=["suspended", "canceled"])
def test_job_of_a_deleted_task_that_has_ended_does_not_exist(airflow_app: AirflowApp, job: Scenario) -> None:
    place_deleted(airflow_app, job)
    assert (listed(airflow_app), status(airflow_app)) == ([], 404)


def test_job_of_a_deleted_task_is_canceled_by_a_triggerer_and_vanishes(
    airflow_app: AirflowApp,
) -> None:
    place_deleted(airflow_app, executing())
    assert [request(airflow_app, what) for what in ("suspend", "resume")] == [(409, "no-loop")] * 2
    assert [request(airflow_app, "cancel") for _ in range(2)] == [(202, "")] * 2
    with airflow_app.session() as session:
        for callback in session.scalars(select(Callback)).all():
            assert callback.data["kwargs"] == {"job": "departures", "base": "file:///jobs", "task": TASK}
    assert [line["event"] for line in airflow_app.audit()] == ["adaptive_cancel"]
    airflow_app.delete_tasks()  # The scheduler empties stores again and again.
    assert listed(airflow_app)[0]["desired_state"] == "canceled"
    airflow_app.push({"state": "CANCELED"}, TASK)
    assert (listed(airflow_app), status(airflow_app), request(airflow_app, "cancel")[0]) == ([], 404, 404)


def test_job_that_has_begun_again_has_its_own_documents(airflow_app: AirflowApp) -> None:
    place_deleted(airflow_app, executing())
    place(airflow_app, suspended(), dag_id="other")
    (item,) = listed(airflow_app)
    assert (item["outcome"], item["dag_ids"]) == ("SUSPENDED", ["other"])


@pytest.mark.parametrize(("state", "is_left"), [("Executing", True), ("FINISHED", False)])
def test_last_task_instance_of_a_job_decides(airflow_app: AirflowApp, state: str, is_left: bool) -> None:
    place_deleted(airflow_app, executing())
    later = TASK | {"run_id": "later"}
    airflow_app.run(state="success", run_id="later")
    job = {"name": "departures", "job_directory": "file:///jobs"}
    airflow_app.push({"adaptive_job/departures": job, "state": state}, later)
    assert [item["task"] for item in listed(airflow_app)] == [later] * is_left


def test_job_of_a_task_that_may_run_is_not_left(airflow_app: AirflowApp) -> None:
    place_deleted(airflow_app, executing(), "deferred")
    assert (listed(airflow_app), status(airflow_app)) == ([], 404)


@pytest.mark.parametrize(
    "xcom",
    ["s3://bucket/reference", 1, [], {}, {"name": "departures"}, {"name": 1, "job_directory": "file:///jobs"}, None],
)
def test_xcom_of_another_origin_names_no_job(airflow_app: AirflowApp, xcom: Any) -> None:
    place_deleted(airflow_app, executing())
    airflow_app.push({"adaptive_job/departures": xcom}, TASK)
    assert (listed(airflow_app), status(airflow_app)) == ([], 404)


@pytest.mark.parametrize(
    ("moved", "state"),
    [(["transitions", "decisions", "parallelism", "spark_driver_url"], "Executing"), (["state"], "unknown")],
)
def test_job_is_displayed_without_what_a_backend_of_xcoms_keeps_elsewhere(
    airflow_app: AirflowApp, moved: list[str], state: str
) -> None:
    place_deleted(airflow_app, executing())
    airflow_app.push(dict.fromkeys(moved, "s3://bucket/reference"), TASK)
    assert [(item["state"], item["abandoned"]) for item in listed(airflow_app)] == [(state, True)]
    assert [airflow_app.client().get(f"{PATH}{part}").status_code for part in ("", "/transitions")] == [200, 200]


def test_job_of_a_fleet_is_left_too(airflow_app: AirflowApp) -> None:
    """The task instance ran a single job before, so it has two XComs; the newest one counts."""
    place_deleted(airflow_app, executing())
    name = "flights:stream:departures"
    airflow_app.declare_asset("adaptive://fleet/flights/stream")
    airflow_app.delete_tasks()
    airflow_app.push({"adaptive_fleet/flights/stream": {"name": name, "job_directory": "file:///jobs"}}, TASK)
    assert [item["job"] for item in listed(airflow_app)] == [name]
    assert airflow_app.client().get(f"{API}/jobs/{name}").json()["abandoned"]


def test_user_without_rights_on_the_dag_does_not_see_the_job(airflow_app: AirflowApp) -> None:
    place_deleted(airflow_app, executing())
    assert airflow_app.client(None).get(PATH).status_code == 401
    assert airflow_app.client("viewer").post(f"{PATH}/cancel", json={}).status_code == 403


def test_subscribers_learn_that_the_task_of_a_job_was_deleted_and_of_its_end(airflow_app: AirflowApp) -> None:
    from airflow_adaptive._web.api.routes.events import poll  # noqa: PLC0415
    from airflow_adaptive._web.data.metadata_database.jobs import find_job, reading  # noqa: PLC0415

    place(airflow_app, executing())
    with reading() as session:
        job = find_job("departures", session)
    assert job is not None
    first = poll(job, None)
    airflow_app.clean()
    place_deleted(airflow_app, executing())
    second = poll(job, first and first.revision)
    assert second is not None
    assert second.content.job.abandoned
    assert poll(job, second.revision) is None
    airflow_app.push({"state": "CANCELED"}, TASK)
    third = poll(job, second.revision)
    assert third is not None
    assert third.content is None
