"""The view of a job: what a loop publishes, as typed values and as JSON documents.

The documents serve programs and users that cannot read the job directory. They are a copy: the journal is the truth. A reader treats a document that is
missing, or that has another format, as absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Reversible, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from airflow_adaptive._core.codec import encode, encode_plain
from airflow_adaptive._core.deployment import Declaration, Preparation
from airflow_adaptive._core.protocol.documents import DriverStatus, ExecutorReport, QueryReport
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive._core.requirements.advice import PublishedPolicy
from airflow_adaptive._core.requirements.control_requests import reported_end
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits
from airflow_adaptive._core.requirements.resolution import RequirementsOrigin, RequirementsSource
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.job_graph import JobType
from airflow_adaptive._core.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive._core.scheduler.snapshot import decode, to_json
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState
from airflow_adaptive._core.scheduler.timeline import Decision, Rescale, Transition
from airflow_adaptive._core.scheduler.transition_table import STATES

STATE_NAMES: Final = tuple(state.__name__ for state in STATES)
"""Names of the states, in the order in which a job passes them."""


class SchedulerStateName(StrEnum):
    """States of the adaptive scheduler (FLIP-160), and `unknown` for a job that has not published its state."""

    _ignore_ = "members name"
    members = vars()
    for name in STATE_NAMES:
        members[name] = name
    UNKNOWN = "unknown"


MAX_FAILURES: Final = 5
"""Newest failures in a view; the journal contains more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Urls:
    """Addresses of Spark's web pages, None while unknown.

    Attributes:
        master: web UI of the master.
        driver: web UI of the driver, None after the end of the driver.
        executors: the driver's page of executors, with their logs.
        stdout: page of the standard output of the newest driver; remains after the end of the driver.
        stderr: page of the standard error of the newest driver; remains after the end of the driver.
    """

    master: str | None = None
    driver: str | None = None
    executors: str | None = None
    stdout: str | None = None
    stderr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """The past of a job at one moment, oldest first.

    Attributes:
        transitions: newest state transitions.
        decisions: newest decisions.
        rescales: rescales, with the rescale in progress.
        ended_rescales: number of the newest rescale that has ended. It is known before the past was read.
    """

    transitions: Sequence[Transition] = ()
    decisions: Sequence[Decision] = ()
    rescales: Sequence[Rescale] = ()
    ended_rescales: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAlert:
    """An alert: the lag behind the sources exceeds `lag_alert_threshold`, or the brokers will delete unread rows soon.

    Attributes:
        since: time at which the lag exceeded the threshold.
        lag_s: lag at that time: age of the oldest unread row, in seconds.
        expires_at: earliest time at which the brokers delete an unread row; None if the lag exceeds `lag_alert_threshold`.
    """

    since: datetime
    lag_s: float
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """Slots of a job.

    Attributes:
        held: slots of registered executors.
        available: slots that the job holds or can have.
        total: slots of all workers of the cluster; None while the job has a driver, or while they are unknown.
        driver_cores: cores that the next driver needs beside the slots; 0 while the job has a driver.
    """

    held: int
    available: int
    total: int | None = None
    driver_cores: float = 0


_ATTEMPT: Final = re.compile(r"([^/]+)/([^/\[]+)(?:\[(\d+)\])?/(.+)/[^/]+", re.DOTALL)
"""Token of an attempt: the task instance (`str(TaskKey)`), and a random part. Only the id of a run may contain slashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """The last task instance that ran a job. The XComs of the job belong to it."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def of_attempt(cls, attempt: str) -> TaskKey | None:
        """Return the task instance of an attempt, None for a text that is not the token of an attempt."""
        found = _ATTEMPT.fullmatch(attempt)
        if found is None:
            return None
        dag_id, task_id, index, run_id = found.groups()
        return cls(dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=-1 if index is None else int(index))

    @property
    def task(self) -> str:
        """The task without its run and its map index, which owns the job."""
        return f"{self.dag_id}/{self.task_id}"

    @property
    def run(self) -> str:
        """The task with its run."""
        return f"{self.task}/{self.run_id}"

    def __str__(self) -> str:
        index = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}/{self.task_id}{index}/{self.run_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a job. A job that has published nothing has the defaults.

    Attributes:
        job_type: streaming or batch.
        state: state of the scheduler.
        since: time at which the job entered the state, None for a state that does not record the time.
        outcome: how the job ended, None before its end.
        cause: root cause of the failure that ended the job, or that it handles until a driver completes a trigger; None without a failure.
        parallelism: parallelism of the newest plan by vertex, None without a plan.
        requirements: active bounds by vertex.
        requirements_source: source of the active bounds, None if it is unknown.
        slots: slots of the job.
        restarts: number of restarts.
        restart_attempts: number of the restarts because of failures, since the restart strategy has counted from zero; 0 without a cause.
        rescales: number of rescales.
        failures: number of recent failures.
        lag_alert: alert about the lag, None without an alert.
        lag_unknown_since: time since which the lag is unknown; None while it is known, and for a job without a source whose lag can be known.
        source_problem: why the driver cannot read a source at the moment, None without a problem.
        cluster_problem: why the cluster does not answer at the moment, None while it answers.
        last_transition: newest state transition, None before the first.
        urls: addresses of Spark's web pages.
        attempt: attempt of the task that runs the job.
        task: the task instance that runs the job.
    """

    job_type: JobType = JobType.STREAMING
    state: SchedulerStateName = SchedulerStateName.UNKNOWN
    since: datetime | None = None
    outcome: Outcome | None = None
    cause: str | None = None
    parallelism: Parallelism | None = None
    requirements: Requirements = field(default_factory=dict)
    requirements_source: RequirementsSource | None = None
    slots: SlotCounts | None = None
    restarts: int = 0
    restart_attempts: int = 0
    rescales: int = 0
    failures: int = 0
    lag_alert: LagAlert | None = None
    lag_unknown_since: datetime | None = None
    source_problem: str | None = None
    cluster_problem: str | None = None
    last_transition: Transition | None = None
    urls: Urls = Urls()
    attempt: str | None = None
    task: TaskKey | None = None

    @property
    def status(self) -> str:
        """The state of a job, or the outcome of a job that has ended."""
        return self.state.value if self.outcome is None else self.outcome.value


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDriver:
    """The newest driver status, as far as it is published. The topics of its sources may be many, and only the loop needs them.

    Attributes:
        at: time of the status by the clock of the driver, ISO 8601.
        parallelism: effective parallelism by vertex.
        executors: registered executors.
        queries: queries with their sources.
    """

    at: str
    parallelism: Mapping[str, int]
    executors: tuple[ExecutorReport, ...]
    queries: tuple[QueryReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView(Summary):
    """A job at one moment, and its past.

    Attributes:
        job: id of the job.
        policy: result of the last consultation of the rescale policy, None without a policy.
        limits: limits that the drivers have reported, which bound the requirements of every source.
        epoch: epoch of the newest driver.
        submission_id: identifies the driver, None if there is no driver or if its id is unknown.
        history: transitions, decisions and rescales.
        recent_failures: the newest failures, oldest first.
        scheduler: state of the scheduler.
        driver: status of the driver of the current epoch, None without one.
        declarations: fingerprint of a deployment -> what it declares, of the newest deployment and that of the running driver.
        preparation: what the newest standby that was prepared, or could not be prepared, has reported; None without one.
    """

    job: str
    slots: SlotCounts
    attempt: str
    policy: PublishedPolicy | None = None
    limits: ReportedLimits = NO_LIMITS
    epoch: int
    submission_id: str | None
    history: JobHistory
    recent_failures: tuple[FailureRecord, ...]
    scheduler: SchedulerState
    driver: DriverStatus | None = None
    declarations: Mapping[str, Declaration] = field(default_factory=dict)
    preparation: Preparation | None = None


def is_web_address(url: object) -> TypeGuard[str]:
    """Return whether a page may link to an address. A driver can report any text."""
    try:
        return isinstance(url, str) and urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


FORMAT: Final = 1
"""Format of the documents; a reader ignores documents of another format."""

SUMMARY: Final = "summary"
SCHEDULER: Final = "scheduler"
HISTORY: Final = "history"
RESCALES: Final = "rescales"
DRIVER: Final = "driver"
POLICY: Final = "policy"
DEPLOYMENT: Final = "deployment"
METRICS: Final = "metrics/"
"""Keys of the documents. `METRICS` is a prefix: a page of metrics follows for each step in seconds (`_engine.publishing.time_series`)."""

LIMITS: Final = "limits"
"""Field of `SCHEDULER` beside the state: the limits that the drivers have reported."""

DOCUMENTS: Final = (SUMMARY, SCHEDULER, HISTORY, RESCALES, DRIVER, POLICY, DEPLOYMENT)
"""Keys of all documents but the pages of metrics."""

MAX_VALUE_BYTES: Final = 60 << 10
"""Airflow accepts 64 KiB by default (`[state_store] max_value_storage_bytes`)."""


def is_published(key: str) -> bool:
    """Return whether a loop publishes the document of a key. The other documents in the same store are requests and records."""
    return key in DOCUMENTS or key.startswith(METRICS)


def documents(view: JobView, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documents of a job by key, without the job metrics (`_engine.publishing.time_series`), which also update `DRIVER`.

    Args:
        view: view of the job.
        task: the task instance that runs the job: `dag_id`, `task_id`, `run_id`, `map_index`.
    """
    history = view.history
    encoded: dict[str, Any] = {
        SUMMARY: _summary(view, task),
        SCHEDULER: {**to_json(view.scheduler), LIMITS: encode(view.limits)},
        HISTORY: {
            "transitions": [transition_record(transition) for transition in history.transitions],
            "decisions": decision_records(history),
        },
        RESCALES: newest_within(history.rescales, ALL_RESCALE_BYTES, encode),
        DRIVER: driver_document(view.driver),
        POLICY: policy_document(view.policy, view.requirements_source),
        DEPLOYMENT: {"declarations": encode_plain(view.declarations), "preparation": encode_plain(view.preparation)},
    }
    return {key: value if fits(value) else {} for key, value in encoded.items()}  # stores accept no null


def fits(value: Any) -> bool:
    """Return whether a store accepts the value."""
    return len(json.dumps(value)) <= MAX_VALUE_BYTES


def driver_document(status: DriverStatus | None) -> Mapping[str, Any]:
    """Return the document of a driver status; empty without one."""
    if status is None:
        return {}
    queries = [replace(query, sources=tuple(map(_without_topics, query.sources))) for query in status.queries]
    return {
        **encode_plain(
            PublishedDriver(
                at=status.at, parallelism=status.parallelism, executors=status.executors, queries=tuple(queries)
            )
        ),
        "state": status.state.value,
        "version": status.version,
    }


def _without_topics(source: SourceReport) -> SourceReport:
    return replace(source, topics={}, kafka=None)


def _summary(view: JobView, task: Mapping[str, Any]) -> dict[str, Any]:
    fields_of_view = {it.name: encode_plain(getattr(view, it.name)) for it in fields(Summary)}
    last = view.last_transition
    derived = {"last_transition": None if last is None else transition_record(last), "task": dict(task)}
    return {"format": FORMAT, "job": view.job, **fields_of_view, **derived}


def summary_of(documents: Mapping[str, Any]) -> Summary:
    """Return the summary of a job from its documents by key; the defaults for a job that has published nothing.

    The loop could not publish the end of a job if Airflow's store did not answer in time. Then the end is the one that the task has reported.
    """
    found = decode_summary(documents.get(SUMMARY))
    return found if found.outcome is not None else replace(found, **_summary_fields(reported_end(documents) or {}))


def decode_summary(document: Any) -> Summary:
    """Return the summary that a loop has published. The job may have ended since then."""
    is_known = isinstance(document, Mapping) and document.get("format") == FORMAT
    summary = Summary(**_summary_fields(document if is_known else {}))
    urls = {it.name: getattr(summary.urls, it.name) for it in fields(Urls)}
    return replace(summary, urls=Urls(**{name: url for name, url in urls.items() if is_web_address(url)}))


def _summary_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the valid fields of a summary. A field that a later version has changed has its default."""
    given = {it.name: document[it.name] for it in fields(Summary) if it.name in document}
    found: dict[str, Any] = {}
    for part in (given, *({name: value} for name, value in given.items())):
        with suppress(SnapshotError):
            summary = decode(Summary, part)
            found |= {name: getattr(summary, name) for name in part}
        if part is given and found:
            break
    return found


def policy_document(policy: PublishedPolicy | None, source: RequirementsSource | None) -> Mapping[str, Any]:
    """Return the document of the rescale policy and its advice; empty without a policy.

    Args:
        policy: result of the last consultation.
        source: source of the active requirements, None while it is unknown.
    """
    if policy is None:
        return {}
    is_active = policy.advice is not None and source is not None and source.origin is RequirementsOrigin.POLICY
    document: Mapping[str, Any] = encode_plain(replace(policy, active=is_active))
    return document


MAX_RESCALES: Final = 20
"""Newest rescales without per-vertex details."""

DECISION_BYTES: Final = 6 << 10
RESCALE_BYTES: Final = 16 << 10
"""Size of the published records, as JSON: all XComs of a job must fit into 64 KiB, the limit of some backends."""

ALL_RESCALE_BYTES: Final = 48 << 10
"""Size of the rescales with per-vertex details, which have a document of their own."""

ITEM_BYTES: Final = 4 << 10
"""Larger records are published without per-vertex details; the history document keeps them."""

MAX_TEXT_CHARACTERS: Final = 300
"""Longer reasons are cut."""


def transition_record(transition: Transition) -> dict[str, Any]:
    """Return a state transition, encoded."""
    return _brief(encode(transition), before=None, after=None)


def decision_records(history: JobHistory) -> list[dict[str, Any]]:
    """Return the newest decisions, encoded."""
    return newest_within(history.decisions, DECISION_BYTES, lambda decision: _brief(encode(decision)))


def rescale_record(rescale: Rescale) -> dict[str, Any]:
    """Return a rescale, encoded; a large one without its per-vertex details."""
    return _brief(encode(rescale), vertices=None, groups=None)


def rescale_records(history: JobHistory) -> list[dict[str, Any]]:
    """Return the newest rescales, encoded; large ones without their per-vertex details."""
    return newest_within(history.rescales[-MAX_RESCALES:], RESCALE_BYTES, rescale_record)


def failure_record(record: FailureRecord) -> dict[str, Any]:
    """Return a failure, encoded; each failure is one line."""
    concurrent = [failure.summary for failure in record.concurrent]
    return {**encode(record), "failure": record.failure.summary, "concurrent": concurrent}


def newest_within(items: Reversible[Any], max_bytes: int, encoded: Callable[[Any], Any]) -> list[Any]:
    """Return the newest items whose encoded forms fit into a size.

    The function runs with every publication, and most of a long past does not fit: it encodes at most one item too many.

    Args:
        items: the newest last.
        max_bytes: size of the result, as JSON.
        encoded: gives the JSON-able form of an item.

    Returns:
        the newest last.
    """
    newest: list[Any] = []
    for item in map(encoded, reversed(items)):
        max_bytes -= len(json.dumps(item)) + 2
        if max_bytes < 0:
            break
        newest.append(item)
    return newest[::-1]


def _brief(record: Mapping[str, Any], **replacements: Any) -> dict[str, Any]:
    """Return the record with short texts, and with the replacements if the record is too large."""
    short = {key: it[:MAX_TEXT_CHARACTERS] if isinstance(it, str) else it for key, it in record.items()}
    return short if len(json.dumps(short)) <= ITEM_BYTES else short | replacements
