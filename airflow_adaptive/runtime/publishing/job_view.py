"""The view of a job: what the loop publishes, as typed values.

Stores and documents encode a view at the edge (`runtime.publishing.documents`, `stores.task_xcoms`); all other code reads attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.runtime.journal.history import History, JobHistory
from airflow_adaptive.runtime.observation.lag_alert import LagAlert
from airflow_adaptive.runtime.publishing.urls import Urls
from airflow_adaptive.runtime.requirements.advice import PolicyAdvice
from airflow_adaptive.runtime.requirements.sources import RequirementsSource
from airflow_adaptive.scheduler.history.failures import root_cause
from airflow_adaptive.scheduler.job_graph import JobType
from airflow_adaptive.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive.scheduler.state import Finished, Outcome, SchedulerState
from airflow_adaptive.scheduler.transition_table import STATES

STATE_NAMES: Final = tuple(state.__name__ for state in STATES)
"""Values of `JobView.state`, in the order in which a job passes the states."""

MAX_FAILURES: Final = 5
"""Newest failures in a view; the journal contains more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """Slots of a job.

    Attributes:
        held: slots of registered executors.
        available: slots that the job holds or can have.
    """

    held: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job at one moment, and its past.

    Attributes:
        job: id of the job.
        job_type: streaming or batch.
        attempt: attempt of the task that runs the job.
        state: name of the scheduler's state, one of `STATE_NAMES`.
        since: when the scheduler entered the state, None for a state that does not record the time.
        outcome: how the job ended, None before its end.
        cause: why the job failed, None if it did not.
        parallelism: parallelism of the newest plan by vertex, None without a plan.
        requirements: bounds by vertex.
        requirements_source: source of the active requirements, None while the source is unknown.
        policy: result of the last consultation of the rescale policy, None without a policy.
        slots: slots of the job.
        epoch: epoch of the newest driver.
        submission_id: identifies the driver, None if there is no driver or if its id is unknown.
        restarts: number of restarts.
        rescales: number of rescales.
        urls: addresses of Spark's web pages.
        history: transitions, decisions and rescales.
        failures: the newest failures, oldest first.
        scheduler: state of the scheduler.
        driver: status of the driver of the current epoch, None without one.
        lag_alert: the alert about the lag, None without one.
        lag_unknown_since: since when the lag is unknown; see `SourceLag.unknown_since`.
        source_problem: why the driver cannot read a source at the moment, None without a problem.
    """

    job: str
    job_type: JobType
    attempt: str
    state: str
    since: datetime | None
    outcome: Outcome | None
    cause: str | None
    parallelism: Parallelism | None
    requirements: Requirements
    requirements_source: RequirementsSource | None = None
    policy: PolicyAdvice | None = None
    slots: SlotCounts
    epoch: int
    submission_id: str | None
    restarts: int
    rescales: int
    urls: Urls
    history: JobHistory
    failures: tuple[FailureRecord, ...]
    scheduler: SchedulerState
    driver: DriverStatus | None = None
    lag_alert: LagAlert | None = None
    lag_unknown_since: datetime | None = None
    source_problem: str | None = None


def job_view(
    state: SchedulerState,
    history: History,
    urls: Urls,
    attempt: str,
    driver: DriverStatus | None = None,
    requirements_source: RequirementsSource | None = None,
    policy: PolicyAdvice | None = None,
    lag_alert: LagAlert | None = None,
    lag_unknown_since: datetime | None = None,
    source_problem: str | None = None,
) -> JobView:
    """Return the view of a job in this state; the arguments are described at `JobView`."""
    return JobView(
        job=state.job.job,
        job_type=state.job.job_type,
        attempt=attempt,
        state=state.name,
        since=getattr(state.current, "since", None),
        outcome=state.current.outcome if isinstance(state.current, Finished) else None,
        cause=root_cause(state),
        parallelism=None if state.plan is None else state.plan.parallelism,
        requirements=state.requirements,
        requirements_source=requirements_source,
        policy=policy,
        slots=SlotCounts(held=state.held_slots, available=state.available_slots),
        epoch=state.epoch,
        submission_id=None if state.driver is None else state.driver.submission_id,
        restarts=state.num_restarts,
        rescales=state.num_rescales,
        urls=urls,
        history=history.at(state),
        failures=tuple(state.failures[-MAX_FAILURES:]),
        scheduler=state,
        driver=driver,
        lag_alert=lag_alert,
        lag_unknown_since=lag_unknown_since,
        source_problem=source_problem,
    )
