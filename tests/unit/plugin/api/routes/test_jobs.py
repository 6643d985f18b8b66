"""What is told of jobs: lists, details, plan, figures, timeline, failures, rescales."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive.scheduler.events import SlotOffer, SlotsChanged
from airflow_adaptive.testing.scenario import Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, figures, place, reported, scenario, shown, suspended


def get(airflow_app: AirflowApp, path: str, **query: Any) -> Any:
    answer = airflow_app.client("viewer").get(f"{API}{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


# ---- lists ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_jobs(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing("departures"))
    place(airflow_app, scenario("arrivals").given_waiting(), dag_id="others")
    airflow_app.show(airflow_app.declare("delays_2"), {"desired_state": "running"})


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


@pytest.mark.usefixtures("three_jobs")
def test_list_comes_in_pages(airflow_app: AirflowApp) -> None:
    pages = [get(airflow_app, "/jobs", limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [[job["job"] for job in page["jobs"]] for page in pages] == [["arrivals", "delays_2"], ["departures"], []]
    assert {page["total_entries"] for page in pages} == {3}


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "x"}, {"state": "Broken"}])
def test_query_that_is_wrong_is_told_what_is(airflow_app: AirflowApp, query: dict[str, Any]) -> None:
    answer = airflow_app.client().get(f"{API}/jobs", params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["errors"][0].startswith(f"query.{next(iter(query))}")


def test_job_in_a_list_shows_what_matters(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    (job,) = get(airflow_app, "/jobs")["jobs"]
    assert (job["state"], job["parallelism"], job["requirements"]) == (
        "Executing",
        {"job": 2},
        {"job": {"lower": 1, "upper": 4}},
    )
    assert (job["slots"], job["desired_state"]) == ({"held": 2, "available": 2}, "running")
    assert job["last_transition"]["target"] == "Executing"
    assert job["figures"]["lower"] == 1
    assert job["figures"]["input"] == 40.0
    assert job["task"]["task_id"] == "stream"


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("arrivals", 404),
        ("..%2f..%2fetc%2fpasswd", 404),
        ("%2e%2e", 404),
        ("a/b", 404),
        ("a%00b", 422),
        ("a%5cb", 422),
        ("a" * 251, 422),
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


def test_method_that_is_none_is_a_problem_too(airflow_app: AirflowApp) -> None:
    answer = airflow_app.client().patch(f"{API}/jobs/departures/resource-requirements", json={})
    assert (answer.status_code, answer.headers["content-type"]) == (405, "application/problem+json")
    assert answer.headers["allow"]


def test_what_nobody_expected_is_not_told_outside(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_adaptive.plugin.data import metadata_database  # noqa: PLC0415

    def broken(*_: Any) -> None:
        raise RuntimeError("a secret")

    place(airflow_app, executing())
    monkeypatch.setattr(metadata_database, "revisions", broken)
    answer = airflow_app.client().get(f"{API}/jobs/departures")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


# ---- a job ----------------------------------------------------------------------------------------------------------


def test_details_have_the_clocks_of_the_scheduler(airflow_app: AirflowApp) -> None:
    job = executing()
    place(airflow_app, job)
    details = get(airflow_app, "/jobs/departures")
    assert details["clocks"][0]["name"] == "TRANSITION"
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


def test_details_have_the_backoff_of_a_restart(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing().when_query_failed())
    assert get(airflow_app, "/jobs/departures")["backoff"]["seconds"] > 0


def test_addresses_that_are_no_web_pages_are_left_out(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(
        asset, shown(executing(), master="http://m:8080", driver="javascript:alert(1)", stdout="http://[", stderr="x")
    )
    assert get(airflow_app, "/jobs/departures")["urls"] == {
        "master": "http://m:8080",
        "driver": None,
        "executors": None,
        "stdout": None,
        "stderr": None,
    }


GARBAGE = [
    None,
    3,
    "x",
    [],
    [1],
    {"format": 2},
    {"format": 1, "state": "Dancing"},
    {"format": 1, "slots": "many"},
    {"at": 1},
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_mirror_that_is_not_understood_is_taken_for_absent(airflow_app: AirflowApp, garbage: Any) -> None:
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
    assert (details["state"], details["clocks"], details["figures"]) == ("unknown", [], None)
    assert get(airflow_app, "/jobs")["total_entries"] == 1
    assert get(airflow_app, "/jobs/departures/metrics")["points"] == []
    assert get(airflow_app, "/jobs/departures/transitions") == {"transitions": [], "decisions": []}
    assert get(airflow_app, "/jobs/departures/failures")["failures"] == []
    assert get(airflow_app, "/jobs/departures/rescales/history") == []
    assert airflow_app.client().get(f"{API}/jobs/departures/plan").status_code == 404
    assert airflow_app.client().get(f"{API}/jobs/departures/rescales/config").status_code == 404


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
    forged = shown(executing())
    forge(forged["scheduler"])
    airflow_app.show(place(airflow_app, executing()), forged)
    assert get(airflow_app, "/jobs/departures")["vertices"] == []
    assert airflow_app.client().get(f"{API}/jobs/departures/plan").status_code == 404


def test_plan_that_pretends_to_be_enormous_costs_nothing(airflow_app: AirflowApp) -> None:
    forged = shown(executing())
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
    job.unsettled(SlotsChanged(at=job.now, offers=offers))
    place(airflow_app, job, **reported(3))
    plan = get(airflow_app, "/jobs/departures/plan")
    assert plan["vertices"][0] | {"planned": 3, "effective": 3} == plan["vertices"][0]
    assert plan["slots"] == {"planned": 3, "kept": 3, "held": 3, "available": 4, "minimum": 1, "maximum": 4}
    assert [len(plan["executors"]), plan["executors"][0]["worker"]] == [3, "w1:8081"]
    assert [(worker["worker"], worker["slot_count"], worker["load"]) for worker in plan["workers"]] == [
        ("w1", 2, 2.0),
        ("w2", 1, 1.0),
    ]
    subtasks = [subtask for worker in plan["workers"] for slot in worker["slots"] for subtask in slot]
    assert sorted(subtask["index"] for subtask in subtasks) == [0, 1, 2]
    assert plan["imbalance"] == pytest.approx(4 / 3)


def test_job_without_a_plan_has_none_to_show(airflow_app: AirflowApp) -> None:
    place(airflow_app, scenario().given_waiting())
    plan = get(airflow_app, "/jobs/departures/plan")
    assert (plan["version"], plan["workers"], plan["imbalance"]) == (None, [], None)
    assert plan["vertices"][0]["planned"] is None


def test_plan_of_thousands_of_subtasks_is_shown_without_them(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_adaptive.plugin.api import job_details  # noqa: PLC0415

    monkeypatch.setattr(job_details, "MOST_SUBTASKS", 1)
    place(airflow_app, executing())
    (worker,) = get(airflow_app, "/jobs/departures/plan")["workers"]
    assert (worker["slots"], worker["slot_count"]) == (None, 2)


@pytest.mark.parametrize("step", [10, 60, 600])
def test_figures_come_in_three_resolutions(airflow_app: AirflowApp, step: int) -> None:
    place(airflow_app, executing())
    page = get(airflow_app, "/jobs/departures/metrics", step=step)
    assert (page["step"], page["columns"][0]) == (step, "at")
    assert len(page["points"]) == (3 if step == 10 else 1)


def test_figures_since_a_moment_are_the_rest(airflow_app: AirflowApp) -> None:
    job = executing()
    place(airflow_app, job, **figures(job, 5))
    points = get(airflow_app, "/jobs/departures/metrics")["points"]
    assert get(airflow_app, "/jobs/departures/metrics", since=points[-2][0])["points"] == points[-2:]


def test_figures_that_are_no_numbers_are_unknown(airflow_app: AirflowApp) -> None:
    asset = place(airflow_app, executing())
    page = dict(figures(executing())["metrics/10"])
    page["points"] = [[*point[:4], float("nan"), float("inf"), *point[6:]] for point in page["points"]]
    airflow_app.show(asset, {"metrics/10": page})
    assert [point[4:6] for point in get(airflow_app, "/jobs/departures/metrics")["points"]] == [[None, None]] * 3
    assert get(airflow_app, "/jobs/departures")["figures"]["input"] is None


@pytest.mark.parametrize("query", [{"step": 7}, {"step": "x"}, {"since": -1}])
def test_resolution_that_is_none_is_refused(airflow_app: AirflowApp, query: dict[str, Any]) -> None:
    place(airflow_app, executing())
    assert airflow_app.client().get(f"{API}/jobs/departures/metrics", params=query).status_code == 422


def test_timeline_tells_the_newest_first(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    told = get(airflow_app, "/jobs/departures/transitions")
    assert [step["target"] for step in told["transitions"]] == ["Executing", "Deploying", "WaitingForResources"]
    assert told["decisions"][0]["reason"]


def test_failures_tell_their_causes_the_newest_first(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing().when_query_failed())
    told = get(airflow_app, "/jobs/departures/failures")
    assert told["total_entries"] == 1
    assert told["failures"][0]["failure"]["error_class"] == "TASK_FAILED"
    assert "restart in" in told["failures"][0]["decision"]


# ---- rescales -------------------------------------------------------------------------------------------------------


def rescaled() -> Scenario:
    """It was raised to three slots, after its cooldown."""
    job = executing(slots=2, scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    job.when_slots(held=2, free=1).when_slots(held=3)
    return job.when_in_force()


def test_rescales_are_told_in_flinks_words(airflow_app: AirflowApp) -> None:
    place(airflow_app, rescaled())
    newest, first = get(airflow_app, "/jobs/departures/rescales/history")
    assert (first["number"], first["triggerCause"], first["terminatedReason"]) == (1, "INITIAL_SCHEDULE", "SUCCEEDED")
    assert (newest["triggerCause"], newest["terminalState"], newest["tier"]) == (
        "NEW_RESOURCE_AVAILABLE",
        "COMPLETED",
        "QUERY",
    )
    assert newest["vertices"]["job"] == {
        "jobVertexId": "job",
        "jobVertexName": "job",
        "slotSharingGroupId": "default",
        "slotSharingGroupName": "default",
        "desiredParallelism": 4,
        "sufficientParallelism": 1,
        "preRescaleParallelism": 2,
        "postRescaleParallelism": 3,
    }
    assert newest["slots"]["default"]["minimalRequiredSlots"] == 1
    assert newest["schedulerStates"] is None


def test_rescale_is_found_by_uuid_and_by_number(airflow_app: AirflowApp) -> None:
    place(airflow_app, rescaled())
    newest = get(airflow_app, "/jobs/departures/rescales/history")[0]
    by_uuid = get(airflow_app, f"/jobs/departures/rescales/details/{newest['rescaleUuid']}")
    assert by_uuid == get(airflow_app, "/jobs/departures/rescales/details/2")
    assert by_uuid["schedulerStates"][0]["state"] == "Executing"
    assert set(by_uuid["schedulerStates"][0]) == {
        "state", "enterTimestampInMillis", "leaveTimestampInMillis", "durationInMillis", "stringifiedException",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "status"), [("99", 404), ("0" * 36, 404), ("x", 422), ("1" * 37, 422), ("-1", 404)])
def test_rescale_that_is_none_is_not_found(airflow_app: AirflowApp, name: str, status: int) -> None:
    place(airflow_app, rescaled())
    assert airflow_app.client().get(f"{API}/jobs/departures/rescales/details/{name}").status_code == status


def test_overview_and_summary_count_rescales(airflow_app: AirflowApp) -> None:
    place(airflow_app, rescaled())
    counts = {"ignored": 0, "inProgress": 0, "completed": 2, "failed": 0}
    overview, summary = (get(airflow_app, f"/jobs/departures/rescales/{name}") for name in ("overview", "summary"))
    assert overview["rescalesCounts"] == summary["rescalesCounts"] == counts
    assert overview["latest"]["completed"]["number"] == 2
    assert (overview["latest"]["failed"], overview["latest"]["ignored"]) == (None, None)
    assert set(summary["rescalesDurationStatsInMillis"]) == {"min", "max", "avg", "p50", "p90", "p95", "p99", "p999"}
    assert summary["failedRescalesDurationStatsInMillis"] is None


def test_rescale_configuration_has_flinks_names(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing(scaling_interval_min=20, resource_wait_timeout=-1))
    config = get(airflow_app, "/jobs/departures/rescales/config")
    assert config["executingCooldownTimeoutInMillis"] == 20_000
    assert config["submissionResourceWaitTimeoutInMillis"] == -1
    assert config["schedulerExecutionMode"] is None
    assert config["rescaleHistoryMax"] == 1000


def test_suspended_job_tells_how_it_ended(airflow_app: AirflowApp) -> None:
    place(airflow_app, suspended())
    job = get(airflow_app, "/jobs/departures")
    assert (job["state"], job["outcome"]) == ("Finished", "SUSPENDED")
