"""The view of a job: typed values of its state and its past."""

from __future__ import annotations

from airflow_adaptive._core.scheduler.job_graph import JobType
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.view import MAX_FAILURES, STATE_NAMES, JobView, SchedulerStateName, SlotCounts, Urls
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.scenario import HOPELESS, TRANSIENT, Scenario
from tests.support.airflow.published_documents import batch, canceled, executing, history


def view_of(job: Scenario) -> JobView:
    return job_view(job.state, history(job), Urls(master="http://master:8080"), "attempt")


def test_view_of_a_running_job_has_its_plan_its_slots_and_its_past() -> None:
    job = executing()
    view = view_of(job)
    assert (view.job, view.job_type, view.state, view.attempt) == (
        "departures",
        JobType.STREAMING,
        "Executing",
        "attempt",
    )
    assert (view.parallelism, view.slots) == ({"job": 2}, SlotCounts(held=2, available=2))
    assert (view.outcome, view.cause, view.recent_failures) == (None, None, ())
    assert view.history.transitions[-1].target == view.state
    assert (view.scheduler, view.urls.master) == (job.state, "http://master:8080")


def test_view_of_a_job_before_its_start_has_no_plan_and_no_driver() -> None:
    view = view_of(batch())
    assert (view.job_type, view.state, view.parallelism, view.submission_id) == (JobType.BATCH, "Created", None, None)


def test_view_of_a_job_that_has_ended_names_the_outcome_and_the_cause() -> None:
    assert (view_of(canceled()).outcome, view_of(canceled()).cause) == (Outcome.CANCELED, None)
    failed = view_of(executing().when_query_failed(HOPELESS).when_driver_ended())
    assert (failed.outcome, failed.cause) == (Outcome.FAILED, HOPELESS.summary)


def test_view_has_the_newest_failures() -> None:
    job = executing(failure_history_size=16)
    for number in range(MAX_FAILURES + 3):
        job.when_query_failed(Failure(error_class=TRANSIENT.error_class, message=f"failure {number}"))
        job.after(100).when_plan_activated()
    failures = view_of(job).recent_failures
    assert len(failures) == MAX_FAILURES
    assert failures[-1].failure.message == f"failure {MAX_FAILURES + 2}"


def test_states_are_named_in_the_order_in_which_a_job_passes_them() -> None:
    assert (STATE_NAMES[0], STATE_NAMES[-1]) == ("Created", "Finished")
    assert [*SchedulerStateName] == [*STATE_NAMES, "unknown"]
