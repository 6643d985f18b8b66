"""The rescales of a job have the fields of the scheduler's records."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.timeline import Rescale
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.job_files import master_with_log, place_with_files
from tests.support.airflow.published_documents import executing, history, place, suspended
from tests.support.airflow.rest_api import get


def rescaled() -> Scenario:
    """It was raised to three slots, after its cooldown, with a downtime of two and a half seconds."""
    job = executing(slots=2, scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    job.when_slots(held=2, free=1).when_slots(held=3)
    return job.after(2.5).when_plan_activated()


def test_rescales_are_the_records_of_the_scheduler_newest_first(airflow_app: AirflowApp) -> None:
    job = rescaled()
    place(airflow_app, job)
    listed = get(airflow_app, "/jobs/departures/rescales")["rescales"]
    assert [decode(Rescale, record) for record in listed] == [*history(job).at(job.state).rescales][::-1]
    assert [record["number"] for record in listed] == [2, 1]
    assert (listed[0]["trigger_cause"], listed[0]["terminal_state"]) == ("NEW_RESOURCE_AVAILABLE", "COMPLETED")
    assert listed[0]["vertices"] == {
        "desired": {"job": 4},
        "sufficient": {"job": 1},
        "before": {"job": 2},
        "after": {"job": 3},
    }
    assert listed[0]["downtime"] == 2.5
    assert listed[0]["states"][0]["state"] == "Executing"


def test_rescale_is_found_by_its_number(airflow_app: AirflowApp) -> None:
    place(airflow_app, rescaled())
    newest = get(airflow_app, "/jobs/departures/rescales")["rescales"][0]
    assert get(airflow_app, "/jobs/departures/rescales/2") == newest


@pytest.mark.parametrize(("number", "status"), [("99", 404), ("x", 422), ("0", 422), ("-1", 422), ("1" * 37, 422)])
def test_rescale_that_is_none_is_not_found(airflow_app: AirflowApp, number: str, status: int) -> None:
    place(airflow_app, rescaled())
    assert airflow_app.client().get(f"{API}/jobs/departures/rescales/{number}").status_code == status


def test_summary_counts_rescales_and_has_durations_in_seconds(airflow_app: AirflowApp) -> None:
    place(airflow_app, rescaled())
    summary = get(airflow_app, "/jobs/departures/rescales/summary")
    assert [summary[name] for name in ("total", "completed", "ignored", "failed", "in_progress")] == [2, 2, 0, 0, 0]
    assert summary["downtime"].keys() == {"min", "max", "avg", "p50", "p90", "p95", "p99", "p999"}
    assert summary["downtime"]["max"] == 2.5
    assert summary["failed_duration"] is None


def test_suspended_job_reports_how_it_ended(airflow_app: AirflowApp) -> None:
    place(airflow_app, suspended())
    job = get(airflow_app, "/jobs/departures")
    assert (job["state"], job["outcome"]) == ("Finished", "SUSPENDED")


@pytest.mark.parametrize(("user", "status"), [("editor", 200), ("viewer", 200), (None, 401)])
def test_end_of_the_driver_log_is_read_from_the_cluster(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: str | None, status: int
) -> None:
    with master_with_log() as master:
        place_with_files(airflow_app, monkeypatch, tmp_path, master, executing())
        answer = airflow_app.client(user).get(f"{API}/jobs/departures/driver-log?lines=1")
    assert answer.status_code == status
    if status == 200:
        assert [answer.json()[name] for name in ("stdout", "stderr", "waits")] == [["three"], ["WARN Spark"], ""]


def test_log_that_is_unknown_here_names_the_reason(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing(), job_directory="file:///gone")
    answer = airflow_app.client().get(f"{API}/jobs/departures/driver-log")
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "no-driver")
