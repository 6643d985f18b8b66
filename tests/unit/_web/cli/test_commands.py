"""`airflow adaptive ...` over a real database of Airflow."""

from __future__ import annotations

import getpass
import re
import shlex
import subprocess
import sys

import pytest

from airflow_adaptive.provider_info import get_provider_info
from tests.lab.scenario import HOPELESS
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.published_documents import canceled, executing, place, suspended
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


def test_cancel_without_anybody_who_could_confirm_is_refused(
    airflow_app: AirflowApp, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_input(_: str) -> str:
        raise EOFError

    asset = place(airflow_app, executing())
    monkeypatch.setattr("builtins.input", no_input)
    assert run("cancel", "departures").err == (
        "Job 'departures' was not canceled, because the cancellation was not confirmed. Use --yes to confirm.\n"
    )
    assert airflow_app.requested(asset, "desired_state") == "running"


def test_suspended_job_is_run_again(airflow_app: AirflowApp, run: Run) -> None:
    asset = place(airflow_app, suspended(), desired_state={"value": "suspended"})
    airflow_app.run()
    assert run("resume", "departures").code == 0
    assert (airflow_app.requested(asset, "desired_state"), airflow_app.task_state(), airflow_app.run_state()) == (
        "running",
        None,
        "queued",
    )


@pytest.mark.parametrize("command", ["cancel", "suspend", "resume"])
def test_job_that_has_ended_accepts_no_requests(airflow_app: AirflowApp, run: Run, command: str) -> None:
    place(airflow_app, executing().when_query_failed(HOPELESS).when_driver_ended())
    ran = run(command, "departures", *(["--yes"] if command == "cancel" else []))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("Job 'departures' has ended (FAILED)")
    assert len(ran.err.splitlines()) == 1


def test_canceled_job_stays_canceled(airflow_app: AirflowApp, run: Run) -> None:
    place(airflow_app, canceled())
    assert run("resume", "departures").code == 1


def test_airflow_writes_down_that_a_changing_command_was_called(airflow_app: AirflowApp, run: Run) -> None:
    from airflow.models.log import Log  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    place(airflow_app, executing())
    run("suspend", "departures")
    with airflow_app.session() as session:
        assert session.scalar(select(Log.owner).where(Log.event == "cli_suspend_job")) == USER


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


def test_every_command_has_a_help(run: Run) -> None:
    output = run("--help").out
    assert all(word in output for word in ("jobs", "show", "requirements", "cancel", "suspend", "resume", "history"))
    assert "VERTEX=LOWER:UPPER" in run("requirements", "set", "--help").out


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
