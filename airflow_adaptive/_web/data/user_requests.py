"""Control requests: the requests that a job accepts, and their effects. The REST API and the command line use this module.

A control request is committed to the state store of the job's Asset before the response is sent. The control loop copies the
request into the journal of the job and then applies the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import State
from airflow_adaptive._airflow.store.task_xcoms import BASE
from airflow_adaptive._core.requirements import control_requests
from airflow_adaptive._core.requirements.control_requests import (
    DESIRED_STATE,
    REQUIREMENTS,
    DesiredState,
    Requester,
    is_override_cleared,
)
from airflow_adaptive._core.requirements.control_requests import KEYS as REQUEST_KEYS
from airflow_adaptive._core.requirements.request_bodies import (
    RESET,
    NotRescalableError,
    admit,
    encode_requirements,
    parse_expiry,
    require_rescalable,
    version_of,
)
from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState
from airflow_adaptive._core.view import POLICY, SCHEDULER, SUMMARY, TaskKey
from airflow_adaptive._web.data.errors import RequestRefusedError, conflict
from airflow_adaptive._web.data.metadata_database.changes import RETRY_AFTER_S, JobTransaction, change
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.published_state import PublishedState, with_task_states

KEYS: Final = (*REQUEST_KEYS, SUMMARY, SCHEDULER, POLICY, BASE)
"""Documents that decide whether a job accepts a request."""

EVENTS: Final = {
    DesiredState.RUNNING: "adaptive_resume",
    DesiredState.SUSPENDED: "adaptive_suspend",
    DesiredState.CANCELED: "adaptive_cancel",
}
"""Desired state -> event in Airflow's event log."""


# ---- resource requirements ------------------------------------------------------------------------------------------


def known_state(job: Job, published: PublishedState) -> SchedulerState:
    """Return the state of the scheduler. Raises `RequestRefusedError`: the job has not published the state (409)."""
    if published.state is None:
        detail = published.problem or (
            f"Job {job.name!r} has not published its vertices and bounds yet, or uses another version of the format."
        )
        raise conflict("unknown-state", detail, RETRY_AFTER_S)
    return published.state


def check_rescalable(job: Job, published: PublishedState) -> SchedulerState:
    """Return the state of the scheduler of a job that accepts resource requirements.

    Raises:
        RequestRefusedError: the job is a batch job, is reactive, has ended, or has not published its state (409).
    """
    summary = published.summary
    try:
        require_rescalable(job.name, published.state, summary.job_type, summary.outcome)
    except NotRescalableError as error:
        raise conflict(error.kind, str(error)) from error
    return known_state(job, published)


def invalid(error: RequirementsError) -> RequestRefusedError:
    """Return the error for an invalid request body."""
    detail = " ".join(error.violations)
    return RequestRefusedError(HTTPStatus.BAD_REQUEST, "invalid-requirements", detail, error.violations)


def resolved_override(body: Any, state: SchedulerState, published: PublishedState) -> Requirements:
    """Return the requirements that apply if the body becomes the requirements override of a user.

    Raises:
        RequestRefusedError: the body is invalid (400). The error lists all violations.
    """
    try:
        admit(body, state)
    except RequirementsError as error:
        raise invalid(error) from error
    return published.resolved_requirements(state, datetime.now(UTC), override=body)


def expiry_of(duration: str | None, until: str | None) -> datetime | None:
    """Return the time at which bounds expire, None for bounds that do not expire.

    Raises:
        RequestRefusedError: both values are given, or one is invalid (400).
    """
    try:
        return parse_expiry(duration, until, datetime.now(UTC))
    except ValueError as error:
        raise RequestRefusedError(HTTPStatus.BAD_REQUEST, "invalid-expiry", str(error)) from error


def set_requirements(
    job: Job,
    requester: Requester,
    session: Session,
    body: Any,
    is_expected: Callable[[str], bool] = lambda _: True,
    expires_at: datetime | None = None,
) -> Requirements:
    """Store a requirements override, which overrides all other sources. Repeating a request changes nothing.

    Args:
        job: job to change.
        requester: user who makes the request.
        session: session of the database, which the function commits.
        body: decoded request body of FLIP-291.
        is_expected: returns whether a version of the requirements is a version that the user knows.
        expires_at: time at which the override expires, None for an override that applies until a user clears the override.

    Returns:
        The complete requirements, without -1.

    Raises:
        RequestRefusedError: the body is invalid (400), the job accepts no requirements (409), or the requirements have changed
            since the user read them (412).
    """
    with _change(job, requester, session) as (made, published):
        state = check_rescalable(job, published)
        requirements = resolved_override(body, state, published)
        if not is_expected(version_of(published.resolved_requirements(state, datetime.now(UTC)))):
            detail = f"The requirements of job {job.name!r} have changed since you read them. Read them again."
            raise RequestRefusedError(HTTPStatus.PRECONDITION_FAILED, "lost-update", detail)
        record = published.requesters.get(REQUIREMENTS)
        if body != published.requested_requirements or expires_at != (None if record is None else record.until):
            made.request(REQUIREMENTS, body, "adaptive_requirements", published.summary.task, expires_at)
        return requirements


def clear_requirements(job: Job, requester: Requester, session: Session) -> None:
    """Clear the user's requirements override. Also allowed after the job has ended, because its next run would inherit it.

    The bounds of the rescale policy or of a calendar become active again, or else the bounds that the DAG declares.
    """
    with _change(job, requester, session) as (made, published):
        requested = published.requested_requirements
        if isinstance(requested, Mapping) and requested and not is_override_cleared(published.control_requests):
            made.request(
                REQUIREMENTS,
                encode_requirements(dict.fromkeys(requested, RESET)),
                "adaptive_requirements",
                published.summary.task,
            )


# ---- desired state --------------------------------------------------------------------------------------------------


def cancel(job: Job, requester: Requester, session: Session) -> None:
    """Request that the job stops permanently. A triggerer cancels a job without a control loop.

    Raises:
        RequestRefusedError: the job has ended with another outcome, or its directory is unknown (409).
    """
    _stop(job, requester, session, DesiredState.CANCELED, Outcome.CANCELED)


def suspend(job: Job, requester: Requester, session: Session) -> None:
    """Request that the job stops at a batch boundary. Raises `RequestRefusedError`: the job has ended permanently, or is being canceled (409)."""
    _stop(job, requester, session, DesiredState.SUSPENDED, Outcome.SUSPENDED)


def resume(job: Job, requester: Requester, session: Session) -> None:
    """Request that a suspended job runs again: Airflow clears its task, and the job continues from its checkpoint.

    Raises:
        RequestRefusedError: the job is not suspended, or its DAG run does not exist anymore (409).
    """
    with _change(job, requester, session) as (made, published):
        outcome = published.summary.outcome
        if outcome is None:
            _resume_running(job, made, published)
        elif outcome != Outcome.SUSPENDED:
            raise _ended(job, outcome, "Run its DAG again.")
        else:
            _resume_suspended(job, made, published)
    if outcome is None:
        _require_effect(job, requester, session)


def _require_effect(job: Job, requester: Requester, session: Session) -> None:
    """Check that the task of the job reads a request that is stored now. The task reads the requests again after it has reported the end.

    Raises:
        RequestRefusedError: the task has reported the end of the job without the request (409).
    """
    with _change(job, requester, session) as (_, published):
        is_running = control_requests.is_job_running(published.documents)
        if control_requests.HANDLED in published.documents and not is_running:
            detail = f"Job {job.name!r} has stopped meanwhile. Resume the job after Airflow has ended its task."
            raise conflict("suspending", detail, RETRY_AFTER_S)


def require_ended(job: Job, requester: Requester, session: Session, event: str) -> PublishedState:
    """Add an entry to the audit log for a change of what a job that has ended leaves, and return its published state.

    Raises:
        RequestRefusedError: the job runs, or its task is about to run it (409).
    """
    with _change(job, requester, session) as (made, published):
        if published.final_outcome is None or published.desired_state is DesiredState.RUNNING:
            status = published.summary.status
            raise conflict(
                "running",
                f"Job {job.name!r} has not ended ({status}). Suspend or cancel the job first, and wait for its end.",
            )
        made.audit(event, None, published.summary.task)
        return published


@contextmanager
def _change(job: Job, requester: Requester, session: Session) -> Iterator[tuple[JobTransaction, PublishedState]]:
    """Lock a job, and yield the change and the published state of the locked job."""
    with change(job, requester, session) as made:
        published = PublishedState(documents=made.documents(KEYS), revisions={})
        yield made, with_task_states([published], session)[0]


def _stop(job: Job, requester: Requester, session: Session, desired_state: DesiredState, end: Outcome) -> None:
    """Request a stop. A job that has already ended with the requested outcome is not changed."""
    with _change(job, requester, session) as (made, published):
        outcome = published.final_outcome
        if outcome == end:
            return
        if outcome is not None:
            raise _ended(job, outcome, "There is nothing to stop.")
        if desired_state is not DesiredState.CANCELED:
            _require_loop(job, published)
            _refuse_canceled(job, published)
        elif published.is_abandoned:
            made.cancel_in_triggerer(base_of(job, published))
        _request(made, published, desired_state)


def _resume_running(job: Job, made: JobTransaction, published: PublishedState) -> None:
    """Resume a job that has not ended. A job that is stopping must stop first."""
    _require_loop(job, published)
    _refuse_canceled(job, published)
    if published.summary.state == "StopWithSavepoint":
        detail = f"Job {job.name!r} is being suspended. Resume the job after it has stopped."
        raise conflict("suspending", detail, RETRY_AFTER_S)
    _request(made, published, DesiredState.RUNNING)


def _resume_suspended(job: Job, made: JobTransaction, published: PublishedState) -> None:
    task = published.summary.task
    instance = None if task is None or (task.dag_id, task.task_id) not in job.tasks else made.task_instance(task)
    if task is None or instance is None:
        raise _run_gone(job, task)
    is_over = instance.state in State.finished
    if not is_over and published.desired_state is DesiredState.RUNNING:
        return  # an earlier request has already resumed the job
    if not is_over or made.is_run_ending(task):
        detail = f"The DAG run of job {job.name!r} is about to end. Resume the job after the end of the run."
        raise conflict("suspending", detail, RETRY_AFTER_S)
    made.clear(instance)
    made.request(DESIRED_STATE, DesiredState.RUNNING.value, EVENTS[DesiredState.RUNNING], task)


def _request(made: JobTransaction, published: PublishedState, desired_state: DesiredState) -> None:
    if published.desired_state is not desired_state:
        made.request(DESIRED_STATE, desired_state.value, EVENTS[desired_state], published.summary.task)


def _refuse_canceled(job: Job, published: PublishedState) -> None:
    if published.desired_state is DesiredState.CANCELED:
        raise conflict("canceling", f"Job {job.name!r} is being canceled. You cannot undo a cancellation.")


def _require_loop(job: Job, published: PublishedState) -> None:
    """Refuse a request that only a control loop can fulfil."""
    if published.is_abandoned:
        detail = f"The task of job {job.name!r} has ended ({published.task_state}), so no control loop controls its driver. Cancel the job, or run its DAG again."
        raise conflict("no-loop", detail)


def base_of(job: Job, published: PublishedState) -> str:
    """Return the folder in which a job was deployed. Raises `RequestRefusedError`: it is unknown (409)."""
    base = published.documents.get(BASE)
    if isinstance(base, str):
        return base
    if not published.is_abandoned:
        raise conflict("no-directory", f"The directory of job {job.name!r} is unknown. Run its DAG first.")
    detail = f"No control loop controls job {job.name!r}, and its directory is unknown. Run its DAG again, or kill the driver in the web UI of its cluster."
    raise conflict("no-loop", detail)


def _ended(job: Job, outcome: str, advice: str) -> RequestRefusedError:
    kind = "suspended" if outcome == Outcome.SUSPENDED else "finished"
    return conflict(kind, f"Job {job.name!r} has ended ({outcome}). {advice}")


def _run_gone(job: Job, task: TaskKey | None) -> RequestRefusedError:
    dags = sorted({dag_id for dag_id, _ in job.tasks}) or sorted(job.dag_ids)
    name = "The DAG run" if task is None else f"Run {task.run_id!r} of DAG {task.dag_id!r}"
    detail = f"{name} of job {job.name!r} does not exist anymore. Trigger {' or '.join(dags)}. The job continues from its checkpoint."
    return conflict("run-gone", detail)
