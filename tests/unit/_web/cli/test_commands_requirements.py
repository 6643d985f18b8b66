"""Commands that read and write resource requirements."""

from __future__ import annotations

import getpass
import json

import pytest

from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import BODY, AirflowApp
from tests.support.airflow.printed_jobs import properties, requirements
from tests.support.airflow.published_documents import batch, executing, place
from tests.support.airflow.rest_api import with_policy
from tests.unit._web.cli.conftest import Run

USER = getpass.getuser()


def joined() -> Scenario:
    """A job of two vertices."""
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 4), max_parallelism=8),
        JobVertex(name="write", parallelism=ParallelismRange(1, 2), max_parallelism=8, inputs=("read",)),
    )
    return Scenario(
        graph=JobGraph(job="departures", vertices=vertices), resource_stabilization_timeout=0
    ).given_executing(2)


@pytest.mark.parametrize("bounds", ["job=2:4", "2:4"])
def test_bounds_are_set_and_written_down(airflow_app: AirflowApp, run: Run, bounds: str) -> None:
    asset = place(airflow_app, executing())
    ran = run("requirements", "set", "departures", bounds)
    assert (ran.code, ran.err) == (0, "")
    wanted = {"job": {"parallelism": {"lowerBound": 2, "upperBound": 4}}}
    assert (airflow_app.requested(asset, "requirements"), requirements(run)["requirements"]) == (wanted, wanted)
    assert airflow_app.stored(asset, "requirements")["via"] == "CLI"
    line = {"event": "adaptive_requirements", "owner": USER, "dag_id": "flights", "job": "departures"}
    assert airflow_app.audit() == [{**line, "via": "CLI", "request": wanted}]
    assert list(airflow_app.marks()) == ["departures"]


def test_bounds_are_those_that_rest_shows(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    run("requirements", "set", "departures", "3")
    answer = airflow_app.client().get("/adaptive/api/v1/jobs/departures/resource-requirements")
    found = requirements(run)
    assert (found["requirements"], f'"{found["version"]}"') == (answer.json(), answer.headers["ETag"])


def test_bounds_are_reset_by_minus_one(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    run("requirements", "set", "departures", "job=2:2")
    assert "| 1     | 4     |" in run("requirements", "set", "departures", "job=-1:-1").out


def test_bounds_of_several_vertices_are_named(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, joined())
    assert run("requirements", "set", "departures", "write=1", "read=1:3").code == 0
    assert requirements(run)["requirements"] == {
        "read": {"parallelism": {"lowerBound": 1, "upperBound": 3}},
        "write": {"parallelism": {"lowerBound": 1, "upperBound": 1}},
    }


def test_bounds_with_violations_are_all_reported_and_change_nothing(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, joined())
    ran = run("requirements", "set", "departures", "read=5:2", "rite=1:x")
    assert (ran.code, ran.out) == (1, "")
    for violation in ("read", "rite", "write", '"x" must be a whole number'):
        assert any(violation in line for line in ran.err.splitlines())
    assert len(ran.err.splitlines()) >= 3
    assert (airflow_app.requested(asset, "requirements"), airflow_app.audit()) == (None, [])


@pytest.mark.parametrize(
    "bounds", ["0", "-2:3", "1:", ":", "", "1:2:3", "2:1", "9", "1.5", "NaN", "٣", "9" * 5000, "1e1"]
)
@pytest.mark.parametrize("how", [[], ["--preview"]])
def test_nonsense_is_refused(airflow_app: AirflowApp, run: Run, bounds: str, how: list[str]) -> None:
    asset = place(airflow_app, executing())
    ran = run("requirements", "set", "departures", f"job={bounds}", *how)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err
    assert len(ran.err) < 1000
    assert airflow_app.requested(asset, "requirements") is None


def test_bounds_without_a_clear_vertex_are_bad_usage(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, joined())
    ran = run("requirements", "set", "departures", "1:2", "read=1", "read=2")
    assert (ran.code, ran.err.splitlines()) == (
        2,
        [
            "'1:2' names no vertex. Write VERTEX=LOWER:UPPER. The vertices of the job are read, write",
            "vertex 'read' is specified 2 times",
        ],
    )


def test_bounds_are_not_set_over_those_of_another_user(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, executing())
    version = requirements(run)["version"]
    assert run("requirements", "set", "departures", "2", "--if-version", version).code == 0
    ran = run("requirements", "set", "departures", "3", "--if-version", version)
    assert (ran.code, "have changed since you read them" in ran.err) == (1, True)
    assert airflow_app.requested(asset, "requirements")["job"]["parallelism"]["upperBound"] == 2


def test_preview_reports_and_changes_nothing(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, executing())
    found = properties(run("requirements", "set", "departures", "1", "--preview").out)
    assert (found["consequence"], found["parallelism"]) == ("RESCALE", "2 -> 1")
    answer = (
        airflow_app.client().post("/adaptive/api/v1/jobs/departures/resource-requirements:preview", json=BODY).json()
    )
    same = json.loads(run("requirements", "set", "departures", "1:4", "--preview", "-o", "json").out)
    assert {*same} == {*answer}
    assert same["consequence"] == answer["consequence"]
    assert (airflow_app.requested(asset, "requirements"), airflow_app.audit()) == (None, [])


def test_job_that_takes_no_bounds_gives_the_reason(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, batch())
    ran = run("requirements", "set", "departures", "1:2")
    assert (ran.code, "is a batch" in ran.err) == (1, True)


def test_bounds_are_set_for_a_while_and_cleared(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, executing())
    assert run("requirements", "set", "departures", "2:3", "--duration", "2 h").code == 0
    assert "until" in airflow_app.stored(asset, "requirements")
    assert " until " in properties(run("show", "departures").out)["requested (requirements)"]
    ran = run("requirements", "clear", "departures")
    assert (ran.code, "is cleared" in ran.out) == (0, True)
    assert airflow_app.requested(asset, "requirements")["job"]["parallelism"] == {"lowerBound": -1, "upperBound": -1}


def test_expiry_in_the_past_is_refused(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    ran = run("requirements", "set", "departures", "2:3", "--until", "2013-01-01T00:00:00Z")
    assert (ran.code, "is in the past" in ran.err) == (1, True)


def test_job_is_displayed_with_whose_bounds_hold_and_its_policys_advice(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, with_policy(problem="it wants too much"))
    found = properties(run("show", "departures").out)
    assert found["bounds by"].startswith("load since")
    assert found["rescale policy"] == "LoadPolicy, active"
    assert found["policy problem"] == "it wants too much"
    assert found["policy advice"] == "1:4: busy"
