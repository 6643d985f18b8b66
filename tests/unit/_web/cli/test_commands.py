"""`airflow adaptive ...` over a real database of Airflow: it prints jobs and changes them as the REST API does."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.utils import yaml

from airflow_adaptive._core.codec import encode_plain
from airflow_adaptive._core.deployment import Preparation
from airflow_adaptive._core.protocol.documents import PreparedQuery, StateSchema
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.provider_info import get_provider_info
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import BODY, AirflowApp
from tests.support.airflow.deployments import deployed, store_dag
from tests.support.airflow.job_files import master_with_log, place_with_files
from tests.support.airflow.printed_jobs import properties, requirements
from tests.support.airflow.published_documents import executing, place, suspended
from tests.support.airflow.rest_api import get, with_policy
from tests.support.repository import ROOT
from tests.unit._web.cli.conftest import Ran, Run

DOCS = ROOT / "docs" / "reference" / "cli.md"
USER = getpass.getuser()


@pytest.mark.parametrize(
    ("command", "desired_state"),
    [(["cancel", "departures", "-y"], "canceled"), (["suspend", "departures"], "suspended")],
)
def test_desired_state_reaches_the_control_requests(
    airflow_app: AirflowApp, run: Run, command: list[str], desired_state: str
) -> None:
    asset = place(airflow_app, executing())
    ran = run(*command)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Requested that job 'departures' stops ")
    assert airflow_app.requested(asset, "desired_state") == desired_state
    line = {"event": f"adaptive_{command[0]}", "owner": USER, "dag_id": "flights", "job": "departures"}
    assert airflow_app.audit() == [{**line, "via": "CLI", "request": desired_state}]


@pytest.mark.parametrize(("typed", "code"), [("y", 0), (" Yes ", 0), ("n", 1), ("", 1), ("cancel", 1)])
def test_cancel_requires_a_confirmation(
    airflow_app: AirflowApp, run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    asset = place(airflow_app, executing())
    questions: list[str] = []

    def answer(question: str) -> str:
        questions.append(question)
        return typed

    monkeypatch.setattr("builtins.input", answer)
    assert run("cancel", "departures").code == code
    assert questions == ["Cancel job 'departures' permanently? [y/N] "]
    assert airflow_app.requested(asset, "desired_state") == ("running" if code else "canceled")


def test_cancel_without_a_terminal_for_its_confirmation_is_refused(
    airflow_app: AirflowApp, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_input(_: str) -> str:
        raise EOFError

    asset = place(airflow_app, executing())
    monkeypatch.setattr("builtins.input", no_input)
    assert run("cancel", "departures").err == (
        "Job 'departures' was not canceled, because this was not confirmed. Use --yes to confirm. [not-confirmed]\n"
    )
    assert airflow_app.requested(asset, "desired_state") == "running"


def test_job_that_reaches_a_state_ends_the_wait(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    assert (
        run("wait", "departures", "--state", "FINISHED", "--state", "Executing").out
        == "Job 'departures' is Executing.\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (
            ["departures", "--state", "SUSPENDED"],
            1,
            "Job 'departures' is Executing, and not SUSPENDED within 0 s. [timeout]\n",
        ),
        (
            ["gone", "--state", "Executing"],
            1,
            "Job 'gone' is unknown to Airflow, and not Executing within 0 s. [timeout]\n",
        ),
        (["departures", "--state", "executing"], 2, "There is no state 'executing'. The states are Created,"),
        (["departures", "--state", "Executing", "--timeout", "soon"], 2, "--timeout: 'soon' is not a duration"),
    ],
)
def test_wait_that_fails_names_the_state(
    airflow_app: AirflowApp, run: Run, words: list[str], code: int, error: str
) -> None:
    place(airflow_app, executing())
    ran = run("wait", *([] if "--timeout" in words else ["--timeout", "0 s"]), *words)
    assert (ran.code, ran.out, ran.err[: len(error)]) == (code, "", error)


def test_log_of_the_driver_is_printed_by_stream(
    airflow_app: AirflowApp, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with master_with_log() as master:
        place_with_files(airflow_app, monkeypatch, tmp_path, master, executing())
        ran, output = run("logs", "departures", "--lines", "1"), json.loads(run("logs", "departures", "-o", "json").out)
    driver = output["submission_id"]
    assert ran.out == f"==> stdout of {driver} <==\nthree\n==> stderr of {driver} <==\nWARN Spark\n"
    assert output["stdout"] == ["one", "two", "three"]


def test_job_is_reset_after_its_end_and_a_confirmation(
    airflow_app: AirflowApp, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: "n")
    with master_with_log() as master:
        place_with_files(airflow_app, monkeypatch, tmp_path, master, suspended())
    assert run("reset", "departures").code == 2
    assert run("reset", "departures", "--from-beginning").err.startswith("Job 'departures' was not reset, because")
    ran = run("reset", "departures", "--from-beginning", "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "The next start of job 'departures' reads from the beginning. Its checkpoints are in file://"
    )
    assert not (tmp_path / "departures" / "checkpoints").exists()
    assert [line["event"] for line in airflow_app.audit()] == ["adaptive_reset"]


def test_job_that_runs_is_not_reset(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    assert run("reset", "departures", "--from-beginning", "--yes").err == (
        "Job 'departures' has not ended (Executing). Suspend or cancel the job first, and wait for its end. [running]\n"
    )
    assert airflow_app.audit() == []


def test_airflow_writes_down_that_a_changing_command_was_called(airflow_app: AirflowApp, run: Run) -> None:
    from airflow.models.log import Log  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    place(airflow_app, executing())
    run("suspend", "departures")
    with airflow_app.session() as session:
        assert session.scalar(select(Log.owner).where(Log.event == "cli_suspend_job")) == USER


@pytest.mark.long
def test_definition_is_light_and_known_to_airflow() -> None:
    """It is imported when any `airflow` command starts."""
    (name,) = get_provider_info()["cli"]
    module, _, function = name.rpartition(".")
    heavy = "('airflow_adaptive._web.data.metadata_database.jobs', 'airflow_adaptive._web.cli.commands', 'fastapi', 'sqlalchemy.orm', 'pydantic')"
    code = (
        "import sys, airflow.cli.cli_config; before = set(sys.modules); "
        f"import {module} as m; groups = m.{function}(); "
        f"print([g.name for g in groups], [n for n in {heavy} if n in set(sys.modules) - before])"
    )
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().splitlines()[-1] == "['adaptive'] []"


def examples() -> list[tuple[str, str]]:
    """Commands of the page, and what it shows after them."""
    blocks = re.findall(r"^```\n(\$ airflow adaptive .*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    commands = [
        command for block in blocks for command in re.split(r"^\$ airflow adaptive ", block, flags=re.MULTILINE)
    ]
    return [(command.partition("\n")[0], command.partition("\n")[2]) for command in commands if command]


def printed(ran: Ran) -> str:
    """What a terminal shows, whenever that is."""
    lines = [
        re.sub(r"20\d\d-\d\d-\d\dT[\d:]+\+00:00", "2026-11-21T12:00:00+00:00", line)
        for line in (ran.out + ran.err).splitlines()
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines if line.strip())


def test_page_shows_what_the_commands_print(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    output = [(command, printed(run(*shlex.split(command)))) for command, _ in examples()]
    assert examples() == output
    assert len(output) == 9


def test_jobs_are_listed(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, executing())
    place(airflow_app, executing("arrivals"), "other")
    ran = run("jobs")
    assert (ran.code, ran.err) == (0, "")
    head, _, *rows = ran.out.splitlines()
    assert [cell.strip() for cell in head.split("|")][:6] == [
        "job",
        "health",
        "state",
        "parallelism",
        "bounds",
        "slots",
    ]
    assert [[cell.strip() for cell in row.split("|")][:6] for row in rows if "|" in row] == [
        ["arrivals", "runs", "Executing", "2", "1:4", "2/2"],
        ["departures", "runs", "Executing", "2", "1:4", "2/2"],
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
        "Job 'departures' has not published its vertices and bounds yet, or uses another version of the format. [unknown-state]\n"
    )


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
        "There is no adaptive job 'arivals'. `airflow adaptive jobs` lists all jobs. A job exists after its first run. [not-found]\n"
    )
    assert airflow_app.audit() == []


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


def test_bounds_of_several_vertices_are_named(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, joined())
    assert run("requirements", "set", "departures", "write=1", "read=1:3").code == 0
    assert requirements(run)["requirements"] == {
        "read": {"parallelism": {"lowerBound": 1, "upperBound": 3}},
        "write": {"parallelism": {"lowerBound": 1, "upperBound": 1}},
    }


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
            "'1:2' names no vertex. Write VERTEX=LOWER:UPPER. The vertices of the job are read, write [usage]",
            "vertex 'read' is specified 2 times [usage]",
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


def test_deployment_is_previewed_with_one_row_for_each_change(
    airflow_app: AirflowApp, run: Run, tmp_path: Path
) -> None:
    running = store_dag(airflow_app, tmp_path)
    newest = store_dag(airflow_app, tmp_path, code="2")
    counts = StateSchema(operator="dedupe", key="id bigint", partitions=4)
    hours = PreparedQuery(name="hours", sources=("KafkaV2",), state_after=(counts,), plan=("Deduplicate",))
    documents = deployed(running, newest)
    documents["deployment"]["preparation"] = encode_plain(Preparation(deployment="new", queries=(hours,)))
    place(airflow_app, executing().when_redeployed("new"), **documents)
    store_dag(airflow_app, tmp_path, driver_memory="2g")
    ran = run("deployment", "departures", "-o", "plain")
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["pending", "stage", "PREPARING", "-"] in rows
    assert ["pending", "code", *("1" * 12, "->", "2" * 12), "DRIVER"] in rows
    assert ["declared", "driver_memory", "1g", "->", "2g", "DRIVER"] in rows
    texts = [" ".join(row) for row in rows]
    assert "pending new query hours it starts without state: its checkpoint has none -" in texts
    assert "pending sources of hours - -> KafkaV2 -" in texts
    assert "pending state of hours - -> dedupe (id bigint: ?), 4 partition(s) -" in texts
    assert "pending plan of hours +Deduplicate -" in texts
    output = json.loads(run("deployment", "departures", "-o", "json").out)
    assert output == get(airflow_app, "/jobs/departures/deployment")


def test_bounds_are_set_for_a_while_and_cleared(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, executing())
    assert run("requirements", "set", "departures", "2:3", "--duration", "2 h").code == 0
    assert "until" in airflow_app.stored(asset, "requirements")
    assert " until " in properties(run("show", "departures").out)["requested (requirements)"]
    ran = run("requirements", "clear", "departures")
    assert (ran.code, "is cleared" in ran.out) == (0, True)
    assert airflow_app.requested(asset, "requirements")["job"]["parallelism"] == {"lowerBound": -1, "upperBound": -1}


def test_job_is_displayed_with_whose_bounds_hold_and_its_policys_advice(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, executing())
    airflow_app.show(asset, with_policy(problem="it wants too much"))
    found = properties(run("show", "departures").out)
    assert found["bounds by"].startswith("load since")
    assert found["rescale policy"] == "LoadPolicy, active"
    assert found["policy problem"] == "it wants too much"
    assert found["policy advice"] == "1:4: busy"


@pytest.mark.parametrize(
    ("of", "path"), [(of, of) for of in ("transitions", "rescales", "failures")] + [("decisions", "transitions")]
)
def test_history_is_that_of_the_rest_api_newest_first(airflow_app: AirflowApp, run: Run, of: str, path: str) -> None:
    place(airflow_app, executing().when_query_failed().when_driver_ended())
    everything = airflow_app.client().get(f"/adaptive/api/v1/jobs/departures/{path}").json()[of]
    command = ["history", "departures", "--of", of]
    assert json.loads(run(*command, "-o", "json").out) == everything
    assert json.loads(run(*command, "--limit", "1", "-o", "json").out) == everything[:1]
    rows = [line for line in run(*command).out.splitlines()[2:] if "|" in line]
    assert len(rows) >= len(everything) > 0
