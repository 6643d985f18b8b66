"""DAGs of rescale policies on a real Airflow: scheduler, dag-processor and workers, and jobs as they show themselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pendulum
import pytest

from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive._core.requirements.control_requests import CALENDAR
from airflow_adaptive._core.scheduler.snapshot import to_json
from airflow_adaptive.local.waiting import wait_until
from airflow_adaptive.operators.rescale_policy import TASK_ID
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_under_test import AirflowObserver, AirflowUnderTest
from tests.support.repository import ROOT

pytestmark = pytest.mark.long

TIMEOUT_S = 240.0
ZONE = "Asia/Kathmandu"
"""Far from UTC, and not by full hours."""

DAGS = dedent(
    """
    from datetime import UTC, datetime

    from airflow.sdk import DAG, Asset, task

    from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
    from airflow_adaptive.operators import rescale_policy_dag
    from airflow_adaptive._airflow.store.job_asset import job_asset
    from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
    from airflow_adaptive._airflow.store.task_xcoms import task_of

    SINCE = datetime(2026, 1, 1, tzinfo=UTC)

    with DAG("mirrored_jobs", schedule=None):

        def publish(job, **context):
            publisher = task_of(context)
            for key, document in {{ATTEMPT: f"{{publisher}}/1", **context["dag_run"].conf[job]}}.items():
                job_asset(job).store_of(publisher).set(key, document)

        for job in ("mirrored", "mirrored_suspended"):
            task(publish, task_id=job, outlets=[Asset(f"adaptive://job/{{job}}")])(job)

    policy = scheduled_policy(
        zone="{zone}", windows=[window("rush", (2, 4), start="{begin}", end="{end}")], default=(1, 2), look_ahead=None
    )
    rescale_policy_dag("rush_hour", job="mirrored", policy=policy, start_date=SINCE)
    rescale_policy_dag("rush_hour_of_suspended", job="mirrored_suspended", policy=policy, start_date=SINCE)
    """
)

EXAMPLES = ROOT / "dags"

BROKEN = dedent(
    """
    from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
    from airflow_adaptive.operators import rescale_policy_dag

    policy = scheduled_policy(
        zone="Europe/Atlantis",
        windows=[
            window("nothing", (2, 4), start="08:00", end="12:00", dates=["2026-02-30"]),
            window("crossed", (4, 2), cron="0 25 * * *", duration="1 h"),
        ],
    )
    rescale_policy_dag("broken_calendar", job="mirrored", policy=policy)
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rush:
    """When the bounds change, in UTC."""

    begin: datetime
    end: datetime

    def local(self, at: datetime) -> str:
        """As the wall clock of the policy's zone shows it."""
        return f"{at.astimezone(pendulum.timezone(ZONE)):%H:%M:%S}"


@pytest.fixture
def rush(airflow: AirflowUnderTest, playground: Path) -> Iterator[Rush]:
    """DAGs of a policy whose window begins and ends soon, and a file of DAGs that can't be read."""
    now = datetime.now(UTC).replace(microsecond=0)
    rush = Rush(begin=now + timedelta(seconds=75), end=now + timedelta(seconds=120))
    source = DAGS.format(zone=ZONE, begin=rush.local(rush.begin), end=rush.local(rush.end))
    files = {playground / "dags" / "calendars.py": source, playground / "dags" / "broken_calendar.py": BROKEN}
    for file, text in files.items():
        file.write_text(text)
    wait_until(lambda: airflow.api.has_dag("rush_hour_of_suspended"), TIMEOUT_S, "the DAGs of the policy")
    yield rush
    for file in files:
        file.unlink()


def publish(api: AirflowObserver, **changes: dict[str, Any]) -> None:
    """Let tasks publish jobs that execute with bounds of 1 and 4, as their loops would do it: job -> what is different in its summary."""
    scenario = Scenario()
    scenario.given_executing(2)
    scheduler = json.loads(json.dumps(to_json(scenario.state)))
    summary = {"format": 1, "state": "Executing", "outcome": None, "requirements": {"job": {"lower": 1, "upper": 4}}}
    documents = {job: {"scheduler": scheduler, "summary": summary | change} for job, change in changes.items()}
    run = api.trigger("mirrored_jobs", documents)
    wait_until(lambda: api.run_state("mirrored_jobs", run) == "success", TIMEOUT_S, "the documents of the jobs")


def dag(api: AirflowObserver, dag_id: str) -> dict[str, Any]:
    """What Airflow shows of a DAG."""
    details: dict[str, Any] = api._request("GET", f"/api/v2/dags/{dag_id}/details")
    return details


def runs(api: AirflowObserver, dag_id: str) -> list[dict[str, Any]]:
    """The runs of a DAG that have ended, the oldest first."""
    path = f"/api/v2/dags/{dag_id}/dagRuns?order_by=run_after"
    found: list[dict[str, Any]] = api._request("GET", path)["dag_runs"]
    return [run for run in found if run["state"] in ("success", "failed")]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_policy_rescales_a_job_for_its_window_and_makes_up_once_for_missed_runs(
    airflow: AirflowUnderTest, rush: Rush
) -> None:
    api = airflow.api
    publish(api, mirrored={}, mirrored_suspended={"state": "Finished", "outcome": "SUSPENDED"})
    details = dag(api, "rush_hour")
    assert details["timetable_summary"] == f"Rescale policy ({ZONE})"
    assert details["timetable_description"] == f"Changes of the rescale policy: rush ({ZONE})"

    api.unpause("rush_hour")
    api.unpause("rush_hour_of_suspended")
    wait_until(lambda: runs(api, "rush_hour"), TIMEOUT_S, "the run that makes up for what was missed")
    (missed,) = runs(api, "rush_hour")
    assert moment(missed["run_after"]) == rush.end - timedelta(days=1), "only the last of many changes that were missed"
    assert bounds(api) == (1, 2)
    assert moment(dag(api, "rush_hour")["next_dagrun_run_after"]) == rush.begin

    wait_until(lambda: bounds(api) == (2, 4), 2 * TIMEOUT_S, "the bounds of the window")
    assert rush.begin <= set_at(api) < rush.end
    wait_until(lambda: bounds(api) == (1, 2), 2 * TIMEOUT_S, "the bounds after the window")
    assert rush.end <= set_at(api)
    wait_until(lambda: len(runs(api, "rush_hour")) == 3, TIMEOUT_S, "the end of the run")
    assert [moment(run["run_after"]) for run in runs(api, "rush_hour")[1:]] == [rush.begin, rush.end]
    assert moment(dag(api, "rush_hour")["next_dagrun_run_after"]) == rush.begin + timedelta(days=1)

    for run in runs(api, "rush_hour_of_suspended"):
        assert api.task_state("rush_hour_of_suspended", run["dag_run_id"], TASK_ID) == "skipped"
    assert api.asset_state(f"{JOBS}mirrored_suspended", CALENDAR) is None


def bounds(api: AirflowObserver) -> tuple[int, int] | None:
    """The requested bounds."""
    body = api.asset_state(f"{JOBS}mirrored", CALENDAR)
    return body and tuple(body["value"]["job"]["parallelism"].values())


def set_at(api: AirflowObserver) -> datetime:
    return moment(api.asset_state(f"{JOBS}mirrored", CALENDAR)["at"])


def test_policy_that_can_t_be_used_is_one_import_error_that_reports_everything(
    airflow: AirflowUnderTest, rush: Rush
) -> None:
    (error,) = wait_until(airflow.api.import_errors, TIMEOUT_S, "the import error")
    assert "broken_calendar.py" in error
    last = error.strip().splitlines()[-1]
    assert error.count("policy.RescalePolicyError: ") == 1
    for violation in ("Europe/Atlantis", "2026-02-30", "window 'crossed'"):
        assert violation in last


@pytest.fixture
def examples(playground: Path) -> Iterator[list[str]]:
    """Ids of the DAGs of `dags/`, which are among Airflow's for a while."""
    dags = playground / "dags"
    shutil.copytree(EXAMPLES / "jobs", dags / "jobs")
    copies = [dags / file.name for file in EXAMPLES.glob("*.py")]
    for copy in copies:
        copy.write_text((EXAMPLES / copy.name).read_text())
    yield [copy.stem for copy in copies]
    for copy in copies:
        copy.unlink()
    shutil.rmtree(dags / "jobs")


def test_examples_are_read_and_show_their_timetable(airflow: AirflowUnderTest, examples: list[str]) -> None:
    for dag_id in examples:
        wait_until(partial(airflow.api.has_dag, dag_id), TIMEOUT_S, f"example {dag_id}")
    assert not [error for error in airflow.api.import_errors() if any(name in error for name in examples)]
    details = dag(airflow.api, "flight_departures_calendar")
    assert details["timetable_summary"] == "Rescale policy (America/New_York)"
