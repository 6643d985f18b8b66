"""What may be asked of a job, and what then happens; for REST and for the command line.

What is asked is committed to the job's inbox before anything is answered; its loop copies it into the job's log and follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from airflow_adaptive.plugin.api.problems import ProblemError, conflict, not_found
from airflow_adaptive.plugin.data.metadata_database import (
    Change,
    GoneError,
    Job,
    NotPersistedError,
    RunKey,
    change,
    is_over,
)
from airflow_adaptive.plugin.data.published_state import Mirrored
from airflow_adaptive.ports import DesiredState, Requester
from airflow_adaptive.runtime.publishing.documents import POLICY, SCHEDULER, SUMMARY
from airflow_adaptive.runtime.requirements.control_requests import (
    DESIRED_STATE,
    REQUIREMENTS,
    encode_clear,
    is_override_cleared,
)
from airflow_adaptive.runtime.requirements.control_requests import KEYS as REQUEST_KEYS
from airflow_adaptive.runtime.requirements.request_bodies import (
    NotRescalableError,
    accepted,
    expiry,
    require_rescalable,
    version_of,
)
from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.requirements import Requirements
from airflow_adaptive.scheduler.state import Outcome, SchedulerState

KEYS: Final = (*REQUEST_KEYS, SUMMARY, SCHEDULER, POLICY)
"""Keys of the documents that decide whether a job accepts a control request."""

SHORTLY_S: Final = 5
"""When to ask again what will be possible soon, seconds."""

NOT_PERSISTED: Final = "What was asked could not be persisted and has not been applied. Please retry."


# ---- requirements ---------------------------------------------------------------------------------------------------


def known_state(job: Job, mirrored: Mirrored) -> SchedulerState:
    """The scheduler's state. Raises `ProblemError` (409) if the job has not shown it."""
    if mirrored.state is None:
        detail = f"Job {job.name!r} has not shown its vertices and bounds yet, or in another version's form."
        raise conflict("unknown-state", detail, SHORTLY_S)
    return mirrored.state


def check_rescalable(job: Job, mirrored: Mirrored) -> SchedulerState:
    """The scheduler's state of a job that may have other requirements.

    Raises:
        ProblemError: it may not (409): it is a batch, takes all there is, has ended, or is unknown.
    """
    summary = mirrored.summary
    try:
        require_rescalable(job.name, mirrored.state, summary.job_type, summary.outcome)
    except NotRescalableError as error:
        raise conflict(error.kind, str(error)) from error
    return known_state(job, mirrored)


def check_accepted(body: Any, state: SchedulerState) -> Requirements:
    """The requirements that a body asks for. Raises `ProblemError` (400) with everything that is wrong."""
    try:
        return accepted(body, state)
    except RequirementsError as error:
        raise invalid(error) from error


def invalid(error: RequirementsError) -> ProblemError:
    """What is wrong with a body of requirements, as a problem."""
    return ProblemError(HTTPStatus.BAD_REQUEST, "invalid-requirements", " ".join(error.violations), error.violations)


def resolved_override(body: Any, state: SchedulerState, mirrored: Mirrored) -> Requirements:
    """The requirements that apply once a body is the user's override. Raises `ProblemError` (400) for an invalid body."""
    check_accepted(body, state)
    return mirrored.resolved_requirements(state, datetime.now(UTC), override=body)


def expires(lasts: str | None, until: str | None) -> datetime | None:
    """When bounds are to expire, None for never. Raises `ProblemError` (400) if what is given makes no sense."""
    try:
        return expiry(lasts, until, datetime.now(UTC))
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "invalid-expiry", str(error)) from error


def set_requirements(
    job: Job,
    requester: Requester,
    body: Any,
    expected: Callable[[str], bool] = lambda _: True,
    until: datetime | None = None,
) -> Requirements:
    """Ask for other requirements, above all policies; asking for the same again changes nothing.

    Args:
        job: that they are for.
        requester: who asks.
        body: decoded, of FLIP-291.
        expected: whether the version that is there is the one that who asks knows.
        until: when they expire, None if they hold until they are lifted.

    Returns:
        The requirements, complete and without -1.

    Raises:
        ProblemError: they can't be (400), the job can't have any (409), somebody else was first (412).
    """
    with _changed(job, requester) as (made, mirrored):
        state = check_rescalable(job, mirrored)
        check_accepted(body, state)
        now = datetime.now(UTC)
        if not expected(version_of(mirrored.resolved_requirements(state, now))):
            detail = f"The requirements of job {job.name!r} are not those that you have read: read them again."
            raise ProblemError(HTTPStatus.PRECONDITION_FAILED, "lost-update", detail)
        told = mirrored.asked.get(REQUIREMENTS)
        if body != mirrored.asked_requirements or until != (None if told is None else told.until):
            made.request(REQUIREMENTS, body, "adaptive_requirements", run_of(mirrored), until)
        return mirrored.resolved_requirements(state, now, override=body)


def lift_requirements(job: Job, requester: Requester) -> None:
    """Have the requirements hold no more that were set; of a job that has ended, too, whose next run would go by them.

    What its policy or a calendar says comes back, or else what its DAG declares.
    """
    with _changed(job, requester) as (made, mirrored):
        asked = mirrored.asked_requirements
        if isinstance(asked, Mapping) and asked and not is_override_cleared(mirrored.control_requests):
            made.request(REQUIREMENTS, encode_clear(asked), "adaptive_requirements", run_of(mirrored))


# ---- wishes ---------------------------------------------------------------------------------------------------------


def cancel(job: Job, requester: Requester) -> None:
    """Ask the job to end for good.

    Raises:
        ProblemError: it has ended already, otherwise than by being canceled (409).
    """
    _end(job, requester, DesiredState.CANCELED, Outcome.CANCELED)


def suspend(job: Job, requester: Requester) -> None:
    """Ask the job to stop with a savepoint.

    Raises:
        ProblemError: it has ended for good, or is about to (409).
    """
    _end(job, requester, DesiredState.SUSPENDED, Outcome.SUSPENDED)


def resume(job: Job, requester: Requester) -> None:
    """Have a suspended job run again: its task is cleared, and goes on from the checkpoint.

    Raises:
        ProblemError: it is not suspended, or its run is gone (409).
    """
    with _changed(job, requester) as (made, mirrored):
        outcome = mirrored.summary.outcome
        if outcome is None:
            _resume_running(job, made, mirrored)
        elif outcome != Outcome.SUSPENDED:
            raise _ended(job, outcome, "run its DAG again")
        else:
            _resume_suspended(job, made, mirrored)


def run_of(mirrored: Mirrored) -> RunKey | None:
    """The task instance that runs the job, or ran it last; None if that is unknown."""
    task = mirrored.summary.task
    if task is None:
        return None
    return RunKey(dag_id=task.dag_id, task_id=task.task_id, run_id=task.run_id, map_index=task.map_index)


@contextmanager
def _changed(job: Job, requester: Requester) -> Iterator[tuple[Change, Mirrored]]:
    """The change of a job, and the job as it is now that nobody else changes it."""
    try:
        with change(job, requester) as made:
            yield made, Mirrored(documents=made.documents(KEYS), revisions={})
    except GoneError as error:
        raise not_found(f"There is no adaptive job {job.name!r} any more.") from error
    except NotPersistedError as error:
        headers = {"Retry-After": str(SHORTLY_S)}
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "not-persisted", NOT_PERSISTED, headers=headers) from error


def _end(job: Job, requester: Requester, desired_state: DesiredState, end: Outcome) -> None:
    """Ask the job to end in this way; one that has ended so already is left as it is."""
    with _changed(job, requester) as (made, mirrored):
        outcome = mirrored.summary.outcome
        if outcome == end:
            return
        if outcome is not None:
            raise _ended(job, outcome, "there is nothing to stop")
        if desired_state is not DesiredState.CANCELED:
            _refuse_canceled(job, mirrored)
        _wish(made, mirrored, desired_state)


def _resume_running(job: Job, made: Change, mirrored: Mirrored) -> None:
    """A job that runs goes on; one that stops must have stopped first."""
    _refuse_canceled(job, mirrored)
    if mirrored.summary.state == "StopWithSavepoint":
        raise conflict("suspending", f"Job {job.name!r} is being suspended: resume it when that is done.", SHORTLY_S)
    _wish(made, mirrored, DesiredState.RUNNING)


def _resume_suspended(job: Job, made: Change, mirrored: Mirrored) -> None:
    run = run_of(mirrored)
    if run is None or not job.tasks or (run.dag_id, run.task_id) not in job.tasks:
        raise _run_gone(job, run)
    try:
        over = is_over(made.task_state(run))
        if not over and mirrored.desired_state is DesiredState.RUNNING:
            return  # it was resumed before, and is about to run
        if not over or made.is_run_ending(run):
            raise conflict("suspending", f"The run of job {job.name!r} is about to end: resume it then.", SHORTLY_S)
        made.clear(run)
    except GoneError as error:
        raise _run_gone(job, run) from error
    made.request(DESIRED_STATE, DesiredState.RUNNING.value, "adaptive_resume", run)


def _wish(made: Change, mirrored: Mirrored, desired_state: DesiredState) -> None:
    if mirrored.desired_state is not desired_state:
        names = {
            DesiredState.RUNNING: "adaptive_resume",
            DesiredState.SUSPENDED: "adaptive_suspend",
            DesiredState.CANCELED: "adaptive_cancel",
        }
        made.request(DESIRED_STATE, desired_state.value, names[desired_state], run_of(mirrored))


def _refuse_canceled(job: Job, mirrored: Mirrored) -> None:
    if mirrored.desired_state is DesiredState.CANCELED:
        raise conflict("canceling", f"Job {job.name!r} is being canceled, which can't be taken back.")


def _ended(job: Job, outcome: str, advice: str) -> ProblemError:
    kind = "suspended" if outcome == Outcome.SUSPENDED else "finished"
    return conflict(kind, f"Job {job.name!r} has ended ({outcome}): {advice}.")


def _run_gone(job: Job, run: RunKey | None) -> ProblemError:
    dags = sorted({dag_id for dag_id, _ in job.tasks}) or sorted(job.dag_ids)
    gone = "The run" if run is None else f"Run {run.run_id!r} of DAG {run.dag_id!r}"
    detail = f"{gone} that job {job.name!r} belongs to is gone: trigger {' or '.join(dags)}; the job goes on from its checkpoint."
    return conflict("run-gone", detail)
