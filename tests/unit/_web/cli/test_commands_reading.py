"""Commands that print jobs and their history."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from airflow.utils import yaml

from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.printed_jobs import properties
from tests.support.airflow.published_documents import executing, place
from tests.unit._web.cli.conftest import Run


def test_jobs_are_listed(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    place(airflow_app, executing("arrivals"), "other")
    ran = run("jobs")
    assert (ran.code, ran.err) == (0, "")
    head, _, *rows = ran.out.splitlines()
    assert [cell.strip() for cell in head.split("|")][:5] == ["job", "state", "parallelism", "bounds", "slots"]
    assert [[cell.strip() for cell in row.split("|")][:5] for row in rows if "|" in row] == [
        ["arrivals", "Executing", "2", "1:4", "2/2"],
        ["departures", "Executing", "2", "1:4", "2/2"],
    ]


def test_jobs_can_be_filtered(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    place(airflow_app, executing("arrivals"), "other")
    assert [job["job"] for job in json.loads(run("jobs", "--dag-id", "other", "-o", "json").out)] == ["arrivals"]
    assert json.loads(run("jobs", "--state", "Finished", "--state", "Failing", "-o", "json").out) == []
    assert len(json.loads(run("jobs", "--state", "Executing", "-o", "json").out)) == 2


def test_state_that_does_not_exist_is_refused(run: Run) -> None:
    ran = run("jobs", "--state", "executing")
    assert (ran.code, ran.out) == (2, "")
    assert "no state 'executing'. The states are Created, WaitingForResources" in ran.err


def test_no_jobs_are_reported_as_such(run: Run) -> None:
    assert (run("jobs").out.strip(), json.loads(run("jobs", "-o", "json").out)) == ("No data found", [])


def test_json_and_yaml_are_what_the_rest_api_answers(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client().get("/adaptive/api/v1/jobs/departures").json() | {"editable": None}
    assert json.loads(run("show", "departures", "-o", "json").out) == answer
    assert yaml.safe_load(run("show", "departures", "-o", "yaml").out) == answer


def test_job_is_displayed(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    found = properties(run("show", "departures").out)
    assert found["state"].startswith("Executing since 20")
    assert [found[name] for name in ("parallelism", "bounds", "slots")] == ["2", "1:4", "2 held, 2 held or offered"]
    assert found["task"] == "flights / stream / manual__2013-01-01"
    assert found["last transition"].split(" ", 1)[1].startswith("Deploying -> Executing: ")
    assert run("show", "departures", "-o", "plain").code == 0


@pytest.mark.parametrize(
    ("state", "mark"),
    [
        ("deferred", "(stale, published at 20"),
        *((state, "(no control loop)") for state in ("success", "failed", "removed")),
    ],
)
def test_state_that_no_control_loop_confirms_is_marked(
    airflow_app: AirflowApp, run: Run, state: str, mark: str
) -> None:
    place(airflow_app, executing())
    airflow_app.run(state=state)
    airflow_app.age(timedelta(minutes=3))
    assert properties(run("show", "departures").out)["state"].startswith(f"Executing {mark}")
    assert f"Executing {mark}" in " ".join(run("jobs", "-o", "plain").out.split())


def test_job_that_has_published_nothing_is_of_unknown_state(airflow_app: AirflowApp, run: Run) -> None:
    airflow_app.show(airflow_app.declare("departures"), {"desired_state": {"value": "running"}})
    found = properties(run("show", "departures").out)
    assert found["state"] == "unknown since -"
    assert [cell.strip() for cell in run("jobs").out.splitlines()[2].split("|")][:2] == ["departures", "unknown"]
    assert run("requirements", "get", "departures").err == (
        "Job 'departures' has not published its vertices and bounds yet, or uses another version of the format.\n"
    )


@pytest.mark.parametrize("of", ["transitions", "decisions", "rescales"])
def test_history_begins_with_the_newest(airflow_app: AirflowApp, run: Run, of: str) -> None:
    place(airflow_app, executing())
    command = ["history", "departures", "--of", of]
    everything = json.loads(run(*command, "-o", "json").out)
    assert everything
    assert json.loads(run(*command, "--limit", "1", "-o", "json").out) == everything[:1]
    rows = [line for line in run(*command).out.splitlines()[2:] if "|" in line]
    assert len(rows) >= len(everything)
    if of == "transitions":
        assert (everything[0]["target"], everything[-1]["source"]) == ("Executing", "Created")


def test_history_of_rescales_is_that_of_rest(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client().get("/adaptive/api/v1/jobs/departures/rescales").json()["rescales"]
    assert json.loads(run("history", "departures", "--of", "rescales", "-o", "json").out) == answer
    assert "INITIAL_SCHEDULE" in run("history", "departures", "--of", "rescales").out


def test_history_of_failures_is_that_of_rest(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing().when_query_failed().when_driver_ended())
    answer = airflow_app.client().get("/adaptive/api/v1/jobs/departures/failures").json()["failures"]
    assert json.loads(run("history", "departures", "--of", "failures", "-o", "json").out) == answer
    assert answer[0]["failure"]["message"] in run("history", "departures", "--of", "failures").out


@pytest.mark.parametrize(
    "command",
    [
        ["show", "arivals"],
        ["history", "arivals"],
        ["requirements", "get", "arivals"],
        ["requirements", "set", "arivals", "1:2"],
        ["cancel", "arivals", "--yes"],
        ["suspend", "arivals"],
        ["resume", "arivals"],
    ],
)
def test_unknown_job_is_reported_in_one_line(airflow_app: AirflowApp, run: Run, command: list[str]) -> None:
    ran = run(*command)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "There is no adaptive job 'arivals'. `airflow adaptive jobs` lists all jobs. A job exists after its first run.\n"
    )
    assert airflow_app.audit() == []
