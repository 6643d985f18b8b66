"""The published state of a job, decoded. A document that is missing, invalid or of another format counts as absent.

This is the only module of the REST API and the command line that reads the documents; all other modules read attributes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import State
from airflow_adaptive._core.deployment import Declaration, Preparation
from airflow_adaptive._core.python_version import StrEnum
from airflow_adaptive._core.requirements import control_requests
from airflow_adaptive._core.requirements.advice import PublishedPolicy
from airflow_adaptive._core.requirements.control_requests import (
    DESIRED_STATE_KEYS,
    REQUIREMENTS,
    ControlRequests,
    DesiredState,
    Requester,
)
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits
from airflow_adaptive._core.requirements.request_bodies import decode_bounds
from airflow_adaptive._core.requirements.resolution import (
    RequirementsOrigin,
    RequirementsSource,
    latest_requirements,
    resolve,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive._core.scheduler.requirements import Requirements, are_accepted
from airflow_adaptive._core.scheduler.snapshot import decode, from_json
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState
from airflow_adaptive._core.scheduler.timeline import Decision, Rescale, Transition
from airflow_adaptive._core.view import (
    DEPLOYMENT,
    DRIVER,
    HISTORY,
    LIMITS,
    METRICS,
    POLICY,
    RESCALES,
    SCHEDULER,
    SUMMARY,
    PublishedDriver,
    Summary,
    TaskKey,
    decode_summary,
    is_published,
    summary_of,
)
from airflow_adaptive._engine.publishing.time_series import COLUMNS, FINEST, LagTrend
from airflow_adaptive._web.data.metadata_database import state_store, variables_and_xcoms
from airflow_adaptive._web.data.metadata_database.jobs import Job, release, task_states

log = logging.getLogger(__name__)


class Document(BaseModel):
    """Base of all models. Unknown fields of a later version are ignored."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


class RequestRecord(Document):
    """Requester, time and expiry of a control request."""

    by: str = Field(description="User or task that made the request.")
    at: datetime = Field(description="Time of the request.")
    via: str = Field(description="Interface of the request, for example REST.")
    until: datetime | None = Field(default=None, description="Time at which requested bounds expire; null for never.")


class Metrics(Document):
    """A time series, oldest point first. Each point has one value per column."""

    step: int
    columns: list[str]
    points: list[list[Any]]


class CurrentMetrics(Document):
    """The newest point of the metrics of a job."""

    at: int = Field(description="Seconds since the epoch.")
    slots: int
    lower: int
    upper: int
    input: float | None = Field(description="Rows read per second.")
    processed: float | None = Field(description="Rows processed per second while a batch runs.")
    batch_ms: int | None
    backlog: int | None = Field(description="Rows that are waiting at the sources.")
    unread_files: int | None = Field(default=None, description="Files that are waiting at the sources.")
    lag_s: float | None = Field(
        default=None, description="Age of the oldest unread row at the sources in seconds; null if it is unknown."
    )
    lag_trend: LagTrend | None = Field(
        default=None,
        description="How the least lag of several batches has changed within minutes: short, steady, grows or shrinks; null if that is unknown.",
    )


class Health(StrEnum):
    """Whether a job keeps up with its input, the worst first. Unknown values are never reported as good."""

    CLUSTER_UNREACHABLE = "cluster_unreachable"
    SOURCE_UNREADABLE = "source_unreadable"
    FAILED = "failed"
    FAILS = "fails"
    NO_LOOP = "no_loop"
    STALE = "stale"
    FALLS_BEHIND = "falls_behind"
    CATCHES_UP = "catches_up"
    RECOVERS = "recovers"
    RESTARTS = "restarts"
    WAITS = "waits"
    STARTS = "starts"
    UNKNOWN = "unknown"
    RUNS = "runs"
    STOPS = "stops"
    ENDED = "ended"
    KEEPS_UP = "keeps_up"


OF_TREND: Final[Mapping[LagTrend | None, Health]] = {
    LagTrend.GROWS: Health.FALLS_BEHIND,
    LagTrend.SHRINKS: Health.CATCHES_UP,
    LagTrend.SHORT: Health.KEEPS_UP,
    LagTrend.STEADY: Health.RUNS,
    None: Health.RUNS,
}
"""Trend of the lag -> health of a job whose queries run."""

NOT_RUNNING: Final = {
    "unknown": Health.UNKNOWN,
    "Created": Health.STARTS,
    "Deploying": Health.STARTS,
    "WaitingForResources": Health.WAITS,
    "Restarting": Health.RESTARTS,
    "Failing": Health.FAILS,
    "StopWithSavepoint": Health.STOPS,
    "Canceling": Health.STOPS,
    "Finished": Health.ENDED,
}
"""State of the scheduler -> health of a job whose queries do not run."""

Value = TypeVar("Value")

JOBS_PER_READ: Final = 250

END_KEYS: Final = (SUMMARY, *DESIRED_STATE_KEYS)
"""Keys of the documents that tell whether a job has ended."""

STALE_AFTER: Final = timedelta(minutes=2)
"""Age of a published state that is stale. A loop publishes metrics every ten seconds; of hundreds of jobs, each one in its turn."""


@dataclass(frozen=True)
class PublishedState:
    """The documents of a job in Airflow's state store.

    Attributes:
        documents: documents by key.
        revisions: time of the last write of each document, by key.
        task_state: state of the task instance that ran the job last, in Airflow; None if it has no state or is not needed.
    """

    documents: Mapping[str, Any]
    revisions: Mapping[str, datetime]
    task_state: str | None = None

    @cached_property
    def summary(self) -> Summary:
        """The summary of the job. A job that has published nothing has the state `unknown`."""
        return summary_of(self.documents)

    @cached_property
    def published_summary(self) -> Summary:
        """The summary that the loop has published. The job may have ended since then."""
        return decode_summary(self.documents.get(SUMMARY))

    @property
    def is_abandoned(self) -> bool:
        """Whether the task of the job has ended or was removed, in any state, and nothing has published the end of the job.

        No control loop controls its driver: a user can mark a task as success, too.
        """
        return self.summary.outcome is None and self.task_state in State.finished

    def is_stale(self, now: datetime) -> bool:
        """Return whether the published state of a job that has not ended is so old that it is probably wrong."""
        return self.summary.outcome is None and is_old(self.published_at, now)

    def health(self, now: datetime) -> Health:
        """Return whether the job keeps up with its input."""
        summary, metrics = self.summary, self.current_metrics
        trend = None if metrics is None else metrics.lag_trend
        if summary.outcome is not None:
            return Health.FAILED if summary.outcome is Outcome.FAILED else Health.ENDED
        if self.is_abandoned:
            return Health.NO_LOOP
        if summary.state != "unknown" and self.is_stale(now):
            return Health.STALE
        if summary.cluster_problem is not None:
            return Health.CLUSTER_UNREACHABLE
        if (kind := NOT_RUNNING.get(summary.state)) is not None:
            kind = Health.STARTS if kind is Health.WAITS and self._missing_slots == 0 else kind
            return Health.RESTARTS if kind is Health.STARTS and summary.cause is not None else kind
        if summary.source_problem is not None:
            return Health.SOURCE_UNREADABLE
        if summary.cause is not None:
            return Health.RESTARTS
        if trend is LagTrend.GROWS or (summary.lag_alert is not None and trend is not LagTrend.SHRINKS):
            return Health.FALLS_BEHIND
        if summary.state == "RestartingLocally":
            return Health.RECOVERS
        return OF_TREND[trend]

    @property
    def wait(self) -> str | None:
        """What a job waits for until it starts, in one sentence; None for a job that does not wait for slots, or whose slots are unknown."""
        summary, missing = self.summary, self._missing_slots
        slots, cores = summary.slots, 0 if summary.slots is None else summary.slots.driver_cores
        if summary.state != "WaitingForResources" or slots is None:
            return None
        if not missing:
            return f"{_plural(slots.available, 'slot')} available, waits until the number is stable"
        driver = f" and {_plural(cores, 'core')} for the driver" if cores else ""
        total = "" if slots.total is None else f" of {slots.total}"
        needed = f"needs at least {_plural(slots.available + missing, 'slot')}{driver}"
        return f"{needed}; {slots.available}{total} available{' beside it' if cores else ''}"

    @property
    def _missing_slots(self) -> int:
        """Slots that the job lacks for its lower bounds; 1 while its slots are unknown."""
        summary, metrics = self.summary, self.current_metrics
        least = sum(it.lower for it in summary.requirements.values()) if metrics is None else metrics.lower
        return 1 if summary.slots is None else max(least - summary.slots.available, 0)

    @property
    def unfinished_task(self) -> TaskKey | None:
        """The task instance that runs the job or may run it again, None for a job that has published its last end or that no task is known for."""
        is_unfinished = self.published_summary.outcome is None or self._may_fail_again
        return self.published_summary.task if is_unfinished else None

    @property
    def final_outcome(self) -> Outcome | None:
        """How the job ended. None for a job that failed if Airflow has not ended its task: the task runs the job again, or has just begun to do so."""
        is_final = not self._may_fail_again or self.task_state is None or self.task_state in State.finished
        return self.summary.outcome if is_final else None

    @property
    def _may_fail_again(self) -> bool:
        """Whether the job has failed, and its task waits for its next try or runs the job."""
        is_begun = control_requests.is_job_running(self.documents)
        is_retried = control_requests.retried_task(self.documents) is not None
        return self.summary.outcome == Outcome.FAILED and (is_begun or is_retried)

    @cached_property
    def state(self) -> SchedulerState | None:
        """The state of the scheduler, None if unknown."""
        return self._decode(SCHEDULER, lambda document: _consistent(from_json(document)))

    @property
    def problem(self) -> str | None:
        """The reason why the published documents cannot be read, None if they can be read, or if there are none."""
        found = [it for it in self.documents.values() if isinstance(it, Mapping)]
        if unreadable := next((it for it in found if variables_and_xcoms.UNREADABLE in it), None):
            return str(unreadable[variables_and_xcoms.UNREADABLE])
        if not any(state_store.REFERENCE in it for it in found):
            return None
        return (
            "The option [workers] state_store_backend moves the state of this job to a storage that the API server does not read. Remove "
            "the option for the triggerers and workers that run adaptive jobs, and restart them."
        )

    @property
    def desired_state(self) -> DesiredState | None:
        """The requested state; `RUNNING` while the task runs the job without another request, None otherwise."""
        return control_requests.decode_desired_state(self.documents)

    @property
    def requested_requirements(self) -> Any:
        """The request body of FLIP-291 that a user stored last, None without a request."""
        return control_requests.requested_value(control_requests.with_restored(self.documents).get(REQUIREMENTS))

    def resolved_requirements(self, state: SchedulerState, now: datetime, override: Any = None) -> Requirements:
        """Return the requirements that apply as soon as the control loop has read the control requests.

        Args:
            state: state of the scheduler.
            now: current time.
            override: request body of FLIP-291 that replaces the stored override, None to keep the stored override.
        """
        source = self.summary.requirements_source
        requests = control_requests.with_known(self.control_requests, _known(source, state))
        if override is not None:
            requests = replace(requests, requirements=decode_bounds(override), requester=Requester())
        advice = _advice(self.policy, state.job.max_parallelism)
        return resolve(state, requests, lambda _: advice, self._limits, source, now).requirements

    @property
    def _limits(self) -> ReportedLimits:
        """The published limits that the drivers have reported; none if they are unknown."""
        return self._decode(SCHEDULER, lambda document: decode(ReportedLimits, document[LIMITS])) or NO_LIMITS

    @property
    def control_requests(self) -> ControlRequests:
        """The stored control requests. Invalid requests count as not requested."""
        return control_requests.decode(self.documents)

    @property
    def policy(self) -> PublishedPolicy | None:
        """The rescale policy of the job with its last advice."""
        return self._decode(POLICY, lambda document: decode(PublishedPolicy, document))

    @property
    def requesters(self) -> dict[str, RequestRecord]:
        """Key of a control request -> requester of the newest request. The requests of users and tasks for a desired state have one key."""
        documents = control_requests.newest_requests(self.documents)
        known = {key: document for key, document in documents.items() if document.get("by")}
        records = {key: _decoded(lambda it=it: RequestRecord.model_validate(it), key) for key, it in known.items()}  # type: ignore[misc]
        return {key: record for key, record in records.items() if record is not None}

    @property
    def transitions(self) -> list[Transition]:
        """State transitions, oldest first."""
        return self._history("transitions", Transition)

    @property
    def decisions(self) -> list[Decision]:
        """Decisions, oldest first."""
        return self._history("decisions", Decision)

    @property
    def failures(self) -> list[FailureRecord]:
        """Recent failures, oldest first; empty if the state of the scheduler is unknown."""
        return [] if self.state is None else [*self.state.failures]

    @property
    def rescales(self) -> list[Rescale]:
        """Rescales, oldest first. A rescale in progress is the last one."""
        return _decoded_items(self.documents.get(RESCALES), lambda item: decode(Rescale, item), RESCALES)

    @property
    def driver_status(self) -> PublishedDriver | None:
        """The last published driver status, None without a driver."""
        return self._decode(DRIVER, lambda document: decode(PublishedDriver, document))

    def declaration(self, deployment: str) -> Declaration:
        """Return what a deployment declares; what is not published is unknown."""
        found = self._decode(DEPLOYMENT, lambda it: decode(Declaration, it["declarations"].get(deployment, {})))
        return Declaration() if found is None else found

    def preparation(self, deployment: str) -> Preparation | None:
        """Return what the driver that was prepared for a deployment has reported, None without one."""
        found = self._decode(DEPLOYMENT, lambda document: decode(Preparation | None, document.get("preparation")))
        return found if found is not None and found.deployment == deployment else None

    def metrics(self, step: int) -> Metrics:
        """Return the metrics of one resolution, in seconds. The list of points is empty without metrics."""
        empty = Metrics(step=step, columns=list(COLUMNS), points=[])
        found = self._decode(f"{METRICS}{step}", Metrics.model_validate) or empty
        found.points = [point for point in found.points if len(point) == len(found.columns)]
        return found

    @property
    def current_metrics(self) -> CurrentMetrics | None:
        """The last point of the finest resolution. The other points are not decoded, because a list has the metrics of many jobs."""
        return self._decode(f"{METRICS}{FINEST}", _last_point)

    @property
    def published_at(self) -> datetime | None:
        """Time of the last publication, None without one."""
        return published_at(self.revisions)

    def _decode(self, key: str, decode_document: Callable[[Mapping[str, Any]], Value]) -> Value | None:
        document = self.documents.get(key)
        if not isinstance(document, Mapping) or not document:
            return None
        return _decoded(lambda: decode_document(document), key)

    def _history(self, name: str, model: type[Any]) -> list[Any]:
        document = self.documents.get(HISTORY)
        items = document.get(name) if isinstance(document, Mapping) else None
        return _decoded_items(items, lambda item: decode(model, item), HISTORY)


def read_published(job: Job, session: Session, keys: Iterable[str] | None = None) -> PublishedState:
    """Read the published state of a job. `keys` selects the documents to read, None reads all documents."""
    needed = None if keys is None else {*keys, *END_KEYS}
    found = state_store.documents([job.store], needed, session)
    written = state_store.revisions(job.store, session)
    published = with_task_states([PublishedState(documents=found[job.store], revisions=written)], session)
    release(session)
    return published[0]


def published_at(revisions: Mapping[str, datetime]) -> datetime | None:
    """Return the time of the last publication, None without one. `revisions` are the times of the last writes by key."""
    published = [at for key, at in revisions.items() if is_published(key)]
    return max(published, default=None)


def is_old(at: datetime | None, now: datetime) -> bool:
    """Return whether a publication at this time is so old that its content is probably wrong."""
    return at is not None and now - at > STALE_AFTER


def with_task_states(states: Sequence[PublishedState], session: Session) -> list[PublishedState]:
    """Return published states with the states of the tasks of the jobs that have not published an end."""
    tasks = [it.unfinished_task for it in states]
    found = task_states({task for task in tasks if task is not None}, session)
    return [
        it if task is None else replace(it, task_state=found.get(task)) for it, task in zip(states, tasks, strict=True)
    ]


def read_all_published(jobs: Sequence[Job], session: Session, keys: Iterable[str]) -> Iterator[PublishedState]:
    """Read the published states of several jobs, in the order of the jobs, and release the connection of the session.

    The function reads some jobs at a time, because the documents of a thousand jobs would occupy much memory. Of the metrics, it reads
    only the last point of the finest resolution.
    """
    names = [*{*keys, *END_KEYS}]
    for begin in range(0, len(jobs), JOBS_PER_READ):
        stores = [job.store for job in jobs[begin : begin + JOBS_PER_READ]]
        found = state_store.read(stores, names, session, [f"{METRICS}{FINEST}"])
        read = [found.pop(store) for store in stores]
        states = [PublishedState(documents=stored.documents, revisions=stored.revisions) for stored in read]
        with_states = with_task_states(states, session)
        release(session)
        yield from with_states


def _decoded(decode_document: Callable[[], Value], key: str) -> Value | None:
    try:
        return decode_document()
    except Exception as error:  # noqa: BLE001  the store may contain anything
        log.warning("The published document %r is ignored because it is invalid: %s", key, type(error).__name__)
        return None


def _decoded_items(items: Any, decode_item: Callable[[Any], Value], key: str) -> list[Value]:
    """Return the items of a document that can be decoded. One line of the log reports all others."""
    found: list[Value] = []
    errors: list[Exception] = []
    for item in items if isinstance(items, list) else [items] if items else []:
        try:
            found.append(decode_item(item))
        except Exception as error:  # noqa: BLE001  the store may contain anything
            errors.append(error)
    if errors:
        kind = type(errors[0]).__name__
        log.warning(
            "%d items of the published document %r are ignored because they are invalid: %s", len(errors), key, kind
        )
    return found


def _last_point(document: Mapping[str, Any]) -> CurrentMetrics | None:
    newest = document.get("newest")
    trend = {"lag_trend": document.get("lag_trend")}
    return (
        CurrentMetrics.model_validate(dict(zip(document["columns"], newest, strict=True)) | trend) if newest else None
    )


def _consistent(state: SchedulerState) -> SchedulerState:
    """Return the state after a check that all of its parts refer to the same vertices. The store may contain any state.

    Raises:
        ValueError: the parts refer to different vertices, or the plan is invalid.
    """
    state.job.validate()
    vertices = state.job.max_parallelism.keys()
    plans = () if state.plan is None else (state.plan.parallelism,)
    later = () if state.pending_requirements is None else (state.pending_requirements.requirements,)
    if any(part.keys() != vertices for part in (state.requirements, *plans, *later)):
        raise ValueError("the state does not match the vertices of the job")
    if any(subtasks < 1 for plan in plans for subtasks in plan.values()):
        raise ValueError("the plan has vertices without subtasks")
    return state


def _known(source: RequirementsSource | None, state: SchedulerState) -> ControlRequests:
    """Return the request that the loop has read last, as far as its source is published: it may be lost with the store."""
    match source:
        case RequirementsSource(origin=RequirementsOrigin.USER):
            requester = Requester(requested_by=source.name, via=source.via, expires_at=source.until)
            return ControlRequests(requirements=latest_requirements(state), requester=requester)
        case RequirementsSource(origin=RequirementsOrigin.CALENDAR):
            requester = Requester(requested_by=source.via, expires_at=source.until)
            return ControlRequests(calendar=latest_requirements(state), calendar_requester=requester)
        case _:
            return ControlRequests()


def _advice(policy: PublishedPolicy | None, max_parallelism: Mapping[str, int]) -> PublishedPolicy | None:
    """Return the published advice. The state store may contain any bounds, so invalid bounds count as no advice."""
    if policy is None:
        return None
    is_valid = policy.advice is not None and are_accepted(policy.advice.bounds, max_parallelism)
    return policy if is_valid else replace(policy, advice=None)


def _plural(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"
