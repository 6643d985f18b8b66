"""The list of jobs, and paths that do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place, scenario
from tests.support.airflow.rest_api import bounds, get


@pytest.fixture
def three_jobs(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing("departures"))
    place(airflow_app, scenario("arrivals").given_waiting(), dag_id="others")
    airflow_app.show(airflow_app.declare("delays_2"), {"desired_state": {"value": "running"}})


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["arrivals", "delays_2", "departures"]),
        ({"state": "Executing"}, ["departures"]),
        ({"state": ["Executing", "unknown"]}, ["delays_2", "departures"]),
        ({"dag_id": "others"}, ["arrivals"]),
        ({"dag_id": "flights", "task_id": "stream"}, ["delays_2", "departures"]),
        ({"task_id": "other"}, []),
        ({"name_pattern": "DE"}, ["delays_2", "departures"]),
        ({"name_pattern": "d%s"}, ["delays_2", "departures"]),
        ({"name_pattern": "s_2"}, ["delays_2"]),
        ({"name_pattern": "ta%de"}, []),
        ({"name_pattern": "%"}, ["arrivals", "delays_2", "departures"]),
        ({"name_pattern": ".*"}, []),
        ({"name_pattern": "%a" * 125}, []),
    ],
)
@pytest.mark.usefixtures("three_jobs")
def test_list_is_filtered(airflow_app: AirflowApp, query: dict[str, Any], names: list[str]) -> None:
    found = get(airflow_app, "/jobs", **query)
    assert [job["job"] for job in found["jobs"]] == names
    assert found["total_entries"] == len(names)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("-lag_s", ["b", "a", "c", "ended", "unknown"]),
        ("-backlog", ["a", "b", "c", "ended", "unknown"]),
        ("-parallelism", ["b", "a", "c", "ended", "unknown"]),
        ("-failures", ["c", "a", "b", "ended", "unknown"]),
        ("health", ["c", "unknown", "ended", "a", "b"]),
    ],
)
def test_list_is_sorted_over_all_its_pages(airflow_app: AirflowApp, order: str, names: list[str]) -> None:
    columns = ["at", "slots", "lower", "upper", "input", "processed", "batch_ms", "backlog", "unread_files", "lag_s"]
    jobs = {
        executing("ended").when_canceled().when_driver_ended(): (9, None, 9.0),
        executing("a"): (4, None, 2.0),
        executing("b", 3): (None, 3, 7.0),
        executing("c", 1).when_query_failed(): (None, None, None),
    }
    for job, values in jobs.items():
        point = [0, 1, 1, 1, None, None, None, *values]
        series: dict[str, Any] = {
            "step": 10,
            "columns": columns,
            "newest": point,
            "lag_trend": "short",
            "points": [point],
        }
        place(airflow_app, job, "flights", **{"metrics/10": series})
    airflow_app.show(airflow_app.declare("unknown"), {"desired_state": {"value": "running"}})
    pages = [get(airflow_app, "/jobs", order_by=order, limit=3, offset=offset) for offset in (0, 3)]
    assert [job["job"] for page in pages for job in page["jobs"]] == names


def test_task_filter_selects_the_tasks_of_the_selected_dag(airflow_app: AirflowApp) -> None:
    asset = airflow_app.declare("departures")
    airflow_app.show(asset, {"desired_state": {"value": "running"}})
    airflow_app.schedule_on(asset, "consumer")
    assert get(airflow_app, "/jobs", dag_id="consumer")["total_entries"] == 1
    assert get(airflow_app, "/jobs", dag_id="consumer", task_id="stream")["total_entries"] == 0


@pytest.mark.usefixtures("three_jobs")
def test_list_comes_in_pages(airflow_app: AirflowApp) -> None:
    pages = [get(airflow_app, "/jobs", limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [[job["job"] for job in page["jobs"]] for page in pages] == [["arrivals", "delays_2"], ["departures"], []]
    assert {page["total_entries"] for page in pages} == {3}


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "x"}, {"state": "Broken"}])
def test_wrong_query_is_reported_with_its_violation(airflow_app: AirflowApp, query: dict[str, Any]) -> None:
    answer = airflow_app.client().get(f"{API}/jobs", params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["type"] == "urn:airflow-adaptive:problem:invalid-parameters"
    assert answer.json()["instance"] == answer.request.url.path
    assert answer.json()["errors"][0].startswith(f"query.{next(iter(query))}")


def test_job_in_a_list_shows_what_matters(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    (job,) = get(airflow_app, "/jobs")["jobs"]
    assert (job["state"], job["parallelism"], job["requirements"]) == (
        "Executing",
        {"job": 2},
        {"job": {"lower": 1, "upper": 4}},
    )
    slots = {"held": 2, "available": 2, "total": None, "driver_cores": 0}
    assert (job["slots"], job["desired_state"]) == (slots, "running")
    assert job["last_transition"]["target"] == "Executing"
    assert job["metrics"]["lower"] == 1
    assert job["metrics"]["input"] == 40.0
    assert job["task"]["task_id"] == "stream"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("arrivals", 404),
        ("..%2f..%2fetc%2fpasswd", 404),
        ("%2e%2e", 404),
        ("a/b", 404),
        ("a%00b", 422),
        ("a%5cb", 422),
        ("a" * 701, 422),
        ("%ff%fe", 404),
        ("' OR 1=1 --", 404),
        ("departures;drop", 404),
    ],
)
def test_forged_name_finds_nothing(airflow_app: AirflowApp, name: str, status: int) -> None:
    place(airflow_app, executing())
    for path in (f"/jobs/{name}", f"/jobs/{name}/plan"):
        answer = airflow_app.client().get(API + path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize("name", ["departures%0a", "%0adepartures", "a%0ab"])
def test_name_with_a_line_break_finds_nothing(airflow_app: AirflowApp, name: str) -> None:
    """Starlette's mounts let no line break through, so it is Airflow itself that answers."""
    place(airflow_app, executing())
    assert airflow_app.client().get(f"{API}/jobs/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/nothing", "/jobs/departures/nothing", "/jobs/departures/rescales", "/jobs/"])
def test_path_that_is_none_is_a_problem_too(airflow_app: AirflowApp, path: str) -> None:
    answer = airflow_app.client().get(API + path, follow_redirects=False)
    assert answer.status_code in (404, 307)
    if answer.status_code == 404:
        assert answer.json()["type"] == "urn:airflow-adaptive:problem:not-found"
        assert answer.json()["instance"] == answer.request.url.path


def test_method_that_is_none_is_a_problem_too(airflow_app: AirflowApp) -> None:
    answer = airflow_app.client().patch(f"{API}/jobs/departures/resource-requirements", json={})
    assert (answer.status_code, answer.headers["content-type"]) == (405, "application/problem+json")
    assert answer.headers["allow"]


def test_unexpected_errors_are_not_reported_outside(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

    def broken(*_: Any) -> None:
        raise RuntimeError("a secret")

    place(airflow_app, executing())
    monkeypatch.setattr(state_store, "revisions", broken)
    answer = airflow_app.client().get(f"{API}/jobs/departures")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


# ---- a state store outside of Airflow's database --------------------------------------------------------------------


def test_state_in_a_storage_of_the_workers_is_reported_as_a_problem(airflow_app: AirflowApp) -> None:
    """With `[workers] state_store_backend`, the database contains references instead of the documents of a job."""
    from airflow.sdk.execution_time.context import _wrap_external_ref  # noqa: PLC0415

    asset = airflow_app.declare("departures")
    keys = ("summary", "scheduler", "desired_state", "metrics/10")
    airflow_app.show(asset, {key: _wrap_external_ref(f"s3://bucket/{key}") for key in keys})
    found = get(airflow_app, "/jobs")
    assert "[workers] state_store_backend" in found["problem"]
    assert found["jobs"][0]["problem"] == found["problem"]
    assert get(airflow_app, "/jobs/departures")["problem"] == found["problem"]
    answer = airflow_app.client().put(f"{API}/jobs/departures/resource-requirements", json={"job": bounds(1, 2)})
    assert (answer.status_code, answer.json()["detail"]) == (409, found["problem"])


def test_state_outside_of_the_database_is_reported_as_a_problem(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__STATE_STORE__BACKEND", "airflow.state.BaseStoreBackend")
    found = get(airflow_app, "/jobs")
    assert (found["total_entries"], "[state_store] backend" in found["problem"]) == (0, True)


def test_job_that_has_published_its_state_has_no_problem(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    assert (get(airflow_app, "/jobs")["problem"], get(airflow_app, "/jobs/departures")["problem"]) == (None, None)
