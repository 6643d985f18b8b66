"""The invariants at the end of a simulation."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.requirements.control_requests import CALENDAR, DESIRED_STATE, REQUIREMENTS
from airflow_adaptive._core.requirements.request_bodies import encode_requirements
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.faults import Faults
from tests.lab.fleet.invariants.recovery import EMPTIED_S, NOTICE_S, Recovery
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.fleet.scenario import PlannedEvent
from tests.support.fleet.scenarios import QUIET


@pytest.fixture
def environment():
    """A fleet whose jobs have not started, with a running driver of each job."""
    environment: Any = Environment(QUIET)
    environment.drivers.cluster.is_known = lambda submission_id: True
    for job, planned in environment.jobs.items():
        environment.airflow.scheduler.add(environment._task(planned))
        environment.drivers.started.append(driver(job))
    return environment


def driver(job, *, runs_query=True):
    settings, processes = SimpleNamespace(job=job), SimpleNamespace(is_alive=True)
    return SimpleNamespace(
        settings=settings,
        name=f"driver of {job}",
        runs_query=runs_query,
        processes=processes,
        submission_id=job,
        launched_at=1.0,
    )


def violated(environment):
    with pytest.raises(ViolationError) as caught:
        Recovery(environment).check()
    return caught.value.invariant


def accepted(environment, job, key, upper):
    """A request of a user that Airflow has accepted."""
    value = encode_requirements({"job": ParallelismRange(1, upper)})
    environment.airflow.users.request(job, key, value)
    environment.airflow.users.requests[-1].accepted_at = 1.0
    return environment.airflow.users.requests[-1].request.document(environment.triggerers[0].process.wall_time())


def test_running_jobs_fulfill_them(environment):
    Recovery(environment).check()


def test_a_job_without_a_driver_although_slots_are_free_is_found(environment):
    environment.drivers.started[0].runs_query = False
    assert violated(environment) == "recovery"


def test_a_driver_of_a_canceled_job_is_found(environment):
    environment.marked_failed["job-0"] = 1.0
    assert violated(environment) == "recovery"


@pytest.mark.parametrize(
    ("kind", "at", "is_permitted"),
    [
        ("triggerer_is_killed", 1.0, True),
        ("triggerer_is_stopped", 1.0 + NOTICE_S, True),
        ("triggerer_is_killed", 1.1 + NOTICE_S, False),
        ("triggerer_is_killed", 0.9, False),
        ("airflow_fails", 1.0, False),
    ],
)
def test_a_driver_continues_if_the_triggerer_ends_soon_after_a_user_has_marked_the_task_as_failed(
    environment, kind, at, is_permitted
):
    environment.marked_failed["job-0"] = 1.0
    event = PlannedEvent(at=at, kind=kind, duration=0, target=0, size=0)
    environment.scenario = replace(environment.scenario, events=[event])
    if is_permitted:
        Recovery(environment).check()
    else:
        assert violated(environment) == "recovery"


@pytest.mark.parametrize("has_loop", [True, False])
def test_a_driver_continues_only_if_no_triggerer_runs_the_trigger_of_the_task_that_a_user_marks_as_failed(
    environment, has_loop
):
    scheduler, first = environment.airflow.scheduler, environment.triggerers[0]
    environment.airflow.api.database.add_trigger(scheduler.instance(scheduler.tasks["job-0"]), {})
    (trigger,) = environment.airflow.api.database.triggers.values()
    if has_loop:
        first._tasks[trigger.trigger_id] = SimpleNamespace()
    Faults(environment).task_is_marked_failed(
        PlannedEvent(at=1, kind="task_is_marked_failed", duration=0, target=0, size=0)
    )
    if has_loop:
        assert violated(environment) == "recovery"
    else:
        Recovery(environment).check()


def test_a_task_that_failed_without_a_reason_is_found(environment):
    scheduler = environment.airflow.scheduler
    scheduler.instance(scheduler.tasks["job-0"]).state = TaskState.FAILED
    scheduler.errors["job-0"] = RuntimeError("the job has failed")
    assert violated(environment) == "recovery"


@pytest.mark.parametrize("is_start", [True, False])
def test_a_storage_that_fails_is_a_reason_only_before_the_task_is_deferred(environment, is_start):
    scheduler = environment.airflow.scheduler
    scheduler.instance(scheduler.tasks["job-0"]).state = TaskState.FAILED
    scheduler.record_error(scheduler.tasks["job-0"], OSError("503 Slow Down"))
    if is_start:
        scheduler.failed_starts.add("job-0")
        Recovery(environment).check()
    else:
        assert violated(environment) == "recovery"


@pytest.mark.parametrize("has_run", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        "SUBMISSION_REFUSED: access denied (401)",
        "the store of Airflow's connections did not answer within 30 s: check Airflow's API server, its metadata database and its secrets backend",
    ],
)
def test_a_refusal_and_missing_connections_are_reasons_only_before_the_first_driver(environment, error, has_run):
    scheduler = environment.airflow.scheduler
    scheduler.instance(scheduler.tasks["job-0"]).state = TaskState.FAILED
    scheduler.errors["job-0"] = RuntimeError(f"job 'job-0' failed: {error}")
    first = environment.drivers.started[0]
    first.processes.is_alive = False
    if has_run:
        assert violated(environment) == "recovery"
    else:
        environment.drivers.started.remove(first)
        Recovery(environment).check()


@pytest.mark.parametrize(("cleared_at", "is_final"), [(0.5, False), (2.0, True)])
def test_a_refusal_of_a_new_run_is_a_reason_if_only_earlier_runs_had_drivers(environment, cleared_at, is_final):
    scheduler = environment.airflow.scheduler
    scheduler.instance(scheduler.tasks["job-0"]).state = TaskState.FAILED
    scheduler.errors["job-0"] = RuntimeError("job 'job-0' failed: SUBMISSION_REFUSED: access denied (401)")
    environment.drivers.started[0].processes.is_alive = False
    environment.cleared["job-0"] = cleared_at
    if is_final:
        Recovery(environment).check()
    else:
        assert violated(environment) == "recovery"


def test_a_request_that_the_store_does_not_contain_is_found(environment):
    accepted(environment, "job-0", REQUIREMENTS, upper=2)
    assert violated(environment) == "requests"


def test_a_request_that_another_source_has_replaced_is_found(environment):
    document = accepted(environment, "job-0", REQUIREMENTS, upper=2)
    environment.airflow.api.database.asset_states["adaptive://job/job-0"][REQUIREMENTS] = {**document, "by": "calendar"}
    assert violated(environment) == "requests"


def test_a_request_that_the_job_does_not_follow_is_found(environment):
    store = environment.airflow.api.database.asset_states["adaptive://job/job-0"]
    store[CALENDAR] = accepted(environment, "job-0", CALENDAR, upper=2)
    store["summary"] = {"requirements": {"job": {"lower": 1, "upper": 3}}}
    assert violated(environment) == "requests"
    store["summary"] = {"requirements": {"job": {"lower": 1, "upper": 2}}}
    Recovery(environment).check()


def test_a_rescale_policy_has_precedence_over_the_calendar_and_not_over_a_user(environment):
    environment.jobs["job-0"] = replace(environment.jobs["job-0"], has_policy=True)
    store = environment.airflow.api.database.asset_states["adaptive://job/job-0"]
    store[CALENDAR] = accepted(environment, "job-0", CALENDAR, upper=2)
    store["summary"] = {"requirements": {"job": {"lower": 1, "upper": 3}}}
    Recovery(environment).check()
    store[REQUIREMENTS] = accepted(environment, "job-0", REQUIREMENTS, upper=2)
    assert violated(environment) == "requests"


def test_an_unhandled_exception_is_found(environment):
    environment.triggerers[0].loop.call_exception_handler({"message": "Task exception was never retrieved"})
    assert violated(environment) == "exceptions"


@pytest.mark.parametrize("accepted_at", [1.0, None])
def test_a_request_that_got_an_error_may_have_stopped_the_job_or_not(environment, accepted_at):
    environment.airflow.users.request("job-0", DESIRED_STATE, "canceled")
    environment.airflow.users.requests[-1].accepted_at = accepted_at
    if accepted_at is None:
        Recovery(environment).check()
    else:
        assert violated(environment) == "recovery"


@pytest.mark.parametrize(("cleared_at", "must_be_over"), [(0.5, True), (2.0, False)])
def test_a_canceled_job_runs_again_after_its_task_is_cleared(environment, cleared_at, must_be_over):
    environment.airflow.users.request("job-0", DESIRED_STATE, "canceled")
    environment.airflow.users.requests[-1].accepted_at = 1.0
    environment.cleared["job-0"] = cleared_at
    if must_be_over:
        assert violated(environment) == "recovery"
    else:
        Recovery(environment).check()


@pytest.mark.parametrize(("emptied_at", "is_lost"), [(0.9, False), (1.0, True), (1.0 + EMPTIED_S, True), (90.0, False)])
def test_a_request_to_stop_may_be_lost_if_airflow_empties_the_store_at_that_time(environment, emptied_at, is_lost):
    environment.airflow.users.request("job-0", DESIRED_STATE, "canceled")
    environment.airflow.users.requests[-1].accepted_at = 1.0
    environment.emptied.append(("job-0", emptied_at))
    if is_lost:
        Recovery(environment).check()
    else:
        assert violated(environment) == "recovery"
