"""Bodies about jobs, also of a fleet: details, plan, metrics, timeline and failures."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._core.scheduler.events import SlotOffer, SlotsChanged
from tests.support.airflow.airflow_app import API, BODY, AirflowApp
from tests.support.airflow.published_documents import executing, place, published, reported, time_series
from tests.support.airflow.rest_api import get

pytestmark = pytest.mark.usefixtures("either_store")


def test_details_have_the_clocks_of_the_scheduler(airflow_app: AirflowApp) -> None:
    job = executing()
    place(airflow_app, job)
    details = get(airflow_app, "/jobs/departures")
    assert details["deadlines"][0]["name"] == "TRANSITION"
    assert details["waiting"]["phase"] == "Cooldown"
    assert details["vertices"] == [
        {
            "name": "job",
            "lower": 1,
            "upper": 4,
            "max_parallelism": 8,
            "stateful": True,
            "slot_sharing_group": "default",
            "inputs": [],
        }
    ]
    assert details["options"]["scaling_interval_min"] == 30.0
    assert details["reactive"] is False


def test_addresses_that_are_no_web_pages_are_left_out(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(
        asset,
        published(executing(), master="http://m:8080", driver="javascript:alert(1)", stdout="http://[", stderr="x"),
    )
    assert get(airflow_app, "/jobs/departures")["urls"] == {
        "master": "http://m:8080",
        "driver": None,
        "executors": None,
        "stdout": None,
        "stderr": None,
    }


@pytest.mark.parametrize("garbage", ["x", {"format": 1, "state": "Dancing"}])
def test_published_state_that_is_not_understood_is_taken_for_absent(airflow_app: AirflowApp, garbage: Any) -> None:
    asset = place(airflow_app, executing())
    keys = (
        "summary",
        "scheduler",
        "history",
        "rescales",
        "driver",
        "metrics/10",
        "asked",
        "requirements",
        "desired_state",
    )
    airflow_app.show(asset, dict.fromkeys(keys, garbage))
    details = get(airflow_app, "/jobs/departures")
    assert (details["state"], details["deadlines"], details["metrics"]) == ("unknown", [], None)
    assert get(airflow_app, "/jobs")["total_entries"] == 1
    assert get(airflow_app, "/jobs/departures/metrics")["points"] == []
    assert get(airflow_app, "/jobs/departures/transitions") == {"transitions": [], "decisions": []}
    assert get(airflow_app, "/jobs/departures/failures")["failures"] == []
    assert get(airflow_app, "/jobs/departures/rescales")["rescales"] == []
    assert airflow_app.client().get(f"{API}/jobs/departures/plan").status_code == 404


def no_vertex(state: dict[str, Any]) -> None:
    state["current"]["plan"]["parallelism"] = {}


def other_vertex(state: dict[str, Any]) -> None:
    state["requirements"]["other"] = state["requirements"].pop("job")


def no_subtasks(state: dict[str, Any]) -> None:
    state["current"]["plan"]["parallelism"]["job"] = 0


def no_graph(state: dict[str, Any]) -> None:
    state["job"]["vertices"] = []


def times_without_a_zone(state: dict[str, Any]) -> None:
    state["current"]["since"] = "2013-01-01T00:00:00"


@pytest.mark.parametrize("forge", [no_vertex, other_vertex, no_subtasks, no_graph, times_without_a_zone])
def test_state_that_contradicts_itself_is_taken_for_absent(airflow_app: AirflowApp, forge: Any) -> None:
    forged = published(executing())
    forge(forged["scheduler"])
    airflow_app.show(place(airflow_app, executing()), forged)
    assert get(airflow_app, "/jobs/departures")["vertices"] == []
    assert airflow_app.client().get(f"{API}/jobs/departures/plan").status_code == 404


def test_plan_that_pretends_to_be_enormous_costs_nothing(airflow_app: AirflowApp) -> None:
    forged = published(executing())
    forged["scheduler"]["current"]["plan"]["parallelism"]["job"] = 10**15
    forged["scheduler"]["offers"][0]["held"] = 10**15
    airflow_app.show(place(airflow_app, executing()), forged)
    assert get(airflow_app, "/jobs/departures/plan")["workers"] == []


def test_plan_shows_where_the_subtasks_lie(airflow_app: AirflowApp) -> None:
    job = executing(slots=3)
    offers = (
        SlotOffer(worker="w1", held=2, address="w1:8081"),
        SlotOffer(worker="w2", held=1, free=1, address="w2:8081"),
    )
    job.apply_without_timers(SlotsChanged(at=job.now, offers=offers))
    place(airflow_app, job, **reported(3))
    plan = get(airflow_app, "/jobs/departures/plan")
    assert plan["vertices"][0] | {"planned": 3, "effective": 3} == plan["vertices"][0]
    slots = {"planned": 3, "kept": 3, "held": 3, "available": 4, "minimum": 1, "maximum": 4}
    assert plan["slots"] == slots | {"standby": None, "standby_prepared": False}
    assert [len(plan["executors"]), plan["executors"][0]["worker"]] == [3, "w1:8081"]
    assert [(worker["worker"], worker["slot_count"], worker["load"]) for worker in plan["workers"]] == [
        ("w1", 2, 2.0),
        ("w2", 1, 1.0),
    ]
    subtasks = [subtask for worker in plan["workers"] for slot in worker["slots"] for subtask in slot]
    assert sorted(subtask["index"] for subtask in subtasks) == [0, 1, 2]
    assert plan["imbalance"] == pytest.approx(4 / 3)


@pytest.mark.parametrize("step", [10, 60, 600])
def test_metrics_come_in_three_resolutions(airflow_app: AirflowApp, step: int) -> None:
    place(airflow_app, executing())
    page = get(airflow_app, "/jobs/departures/metrics", step=step)
    assert (page["step"], page["columns"][0]) == (step, "at")
    assert len(page["points"]) == (3 if step == 10 else 1)


def test_metrics_since_a_moment_are_the_rest(airflow_app: AirflowApp) -> None:
    job = executing()
    place(airflow_app, job, **time_series(job, 5))
    points = get(airflow_app, "/jobs/departures/metrics")["points"]
    assert get(airflow_app, "/jobs/departures/metrics", since=points[-2][0])["points"] == points[-2:]


def test_metrics_that_are_no_numbers_are_unknown(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    page = dict(time_series(executing())["metrics/10"])
    page["points"] = [[*point[:4], float("nan"), float("inf"), *point[6:]] for point in page["points"]]
    page["newest"] = page["points"][-1]
    airflow_app.show(asset, {"metrics/10": page})
    assert [point[4:6] for point in get(airflow_app, "/jobs/departures/metrics")["points"]] == [[None, None]] * 3
    assert get(airflow_app, "/jobs/departures")["metrics"]["input"] is None


@pytest.mark.parametrize("query", [{"step": 7}, {"step": "x"}, {"since": -1}])
def test_resolution_that_is_none_is_refused(airflow_app: AirflowApp, query: dict[str, Any]) -> None:
    place(airflow_app, executing())
    assert airflow_app.client().get(f"{API}/jobs/departures/metrics", params=query).status_code == 422


def test_timeline_reports_the_newest_first(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    found = get(airflow_app, "/jobs/departures/transitions")
    assert [step["target"] for step in found["transitions"]] == ["Executing", "Deploying", "WaitingForResources"]
    assert {item["reason_code"] for item in found["transitions"] + found["decisions"]} >= {
        "PLAN_ACTIVATED",
        "SLOTS_AVAILABLE",
    }
    assert found["decisions"][0]["reason"]


def test_failures_report_their_causes_the_newest_first(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing().when_query_failed())
    found = get(airflow_app, "/jobs/departures/failures")
    assert found["total_entries"] == 1
    assert found["failures"][0]["failure"]["error_class"] == "TASK_FAILED"
    assert "restarting in" in found["failures"][0]["decision"]


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
