"""Jobs of a mapped task, whose documents are in the state store of one Asset."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow.airflow_app import API, BODY, AirflowApp
from tests.support.airflow.published_documents import executing, published
from tests.support.airflow.rest_api import get

pytestmark = pytest.mark.usefixtures("either_store")

JOBS = ("arrivals", "departures", "dep%rtures")


def place_fleet(airflow_app: AirflowApp) -> int:
    """The jobs of a mapped task, and a job of another task with the same id."""
    fleet = airflow_app.declare_asset("adaptive://fleet/flights/streams", task_id="streams")
    for index, job in enumerate(JOBS):
        documents = published(executing(job))
        documents["summary"]["task"] |= {"task_id": "streams", "map_index": index}
        airflow_app.show(fleet, {f"{job}:{key}": value for key, value in documents.items()})
    airflow_app.show(airflow_app.declare("departures"), published(executing()))
    return fleet


def names(airflow_app: AirflowApp, **query: Any) -> list[str]:
    return [job["job"] for job in get(airflow_app, "/jobs", **query)["jobs"]]


def test_each_job_of_a_fleet_is_listed_by_its_name(airflow_app: AirflowApp) -> None:
    place_fleet(airflow_app)
    fleet = [f"flights:streams:{job}" for job in sorted(JOBS)]
    assert names(airflow_app) == ["departures", *fleet]
    assert names(airflow_app, dag_id="flights", task_id="streams") == fleet
    assert names(airflow_app, dag_id="flights", task_id="streams", map_index=1) == ["flights:streams:departures"]


def test_each_job_of_a_fleet_has_details_of_its_own(airflow_app: AirflowApp) -> None:
    place_fleet(airflow_app)
    details = get(airflow_app, "/jobs/flights:streams:departures")
    assert (details["job"], details["task"]["map_index"], details["dag_ids"]) == (
        "flights:streams:departures",
        1,
        ["flights"],
    )
    assert [vertex["upper"] for vertex in details["vertices"]] == [4]


def test_request_reaches_only_its_job(airflow_app: AirflowApp) -> None:
    fleet, client = place_fleet(airflow_app), airflow_app.client()
    path = f"{API}/jobs/flights:streams:departures"
    assert client.put(f"{path}/resource-requirements", json=BODY).status_code == 200
    assert client.post(f"{path}/suspend", json={}).status_code == 202
    assert airflow_app.requested(fleet, "departures:requirements") == BODY
    assert airflow_app.requested(fleet, "departures:desired_state") == "suspended"
    assert airflow_app.requested(fleet, "arrivals:desired_state") != "suspended"
    assert [*airflow_app.marks()] == ["flights:streams:departures"]
    assert get(airflow_app, "/jobs/departures")["desired_state"] != "suspended"


def test_unknown_job_of_a_fleet_does_not_exist(airflow_app: AirflowApp) -> None:
    place_fleet(airflow_app)
    for name in ("flights:streams:unknown", "flights:other:departures", "flights:streams", "flights:streams:"):
        assert airflow_app.client("viewer").get(f"{API}/jobs/{name}").status_code == 404


def test_asset_of_a_team_is_no_job(airflow_app: AirflowApp) -> None:
    asset = airflow_app.declare_asset("departures")
    airflow_app.show(asset, published(executing()))
    assert names(airflow_app) == []
