"""The rescale history of a job, in the format of FLIP-487."""

from __future__ import annotations

import pytest

from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place, suspended
from tests.support.airflow.rest_api import get


def rescaled() -> Scenario:
    """It was raised to three slots, after its cooldown."""
    job = executing(slots=2, scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    job.when_slots(held=2, free=1).when_slots(held=3)
    return job.when_plan_activated()


def test_rescales_are_reported_in_flinks_words(airflow_app: AirflowApp) -> None:
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


def test_suspended_job_reports_how_it_ended(airflow_app: AirflowApp) -> None:
    place(airflow_app, suspended())
    job = get(airflow_app, "/jobs/departures")
    assert (job["state"], job["outcome"]) == ("Finished", "SUSPENDED")
