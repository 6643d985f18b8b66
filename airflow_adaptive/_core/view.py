"""The view of a job: what a loop publishes, as typed values and as JSON documents.

The documents serve programs and users that cannot read the job directory. They are a copy: the journal is the truth. A reader treats a document that is
missing, or that has another format, as absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Reversible, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from airflow_adaptive._core.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive._core.requirements.advice import Advice, PolicyAdvice
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits
from airflow_adaptive._core.requirements.resolution import RequirementsOrigin, RequirementsSource
from airflow_adaptive._core.scheduler.job_graph import JobType
from airflow_adaptive._core.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive._core.scheduler.snapshot import encode, to_json
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState
from airflow_adaptive._core.scheduler.timeline import Decision, Rescale, Transition
from airflow_adaptive._core.scheduler.transition_table import STATES

STATE_NAMES: Final = tuple(state.__name__ for state in STATES)
"""Values of `JobView.state`, in the order in which a job passes the states."""

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
    """An alert.

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
        limits: limits that the drivers have reported, which bound the requirements of every source.
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
    limits: ReportedLimits = NO_LIMITS
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
METRICS: Final = "metrics/"
"""Keys of the documents. `METRICS` is a prefix: a page of metrics follows for each step in seconds (`_engine.publishing.time_series`)."""

LIMITS: Final = "limits"
"""Field of `SCHEDULER` beside the state: the limits that the drivers have reported."""

DOCUMENTS: Final = (SUMMARY, SCHEDULER, HISTORY, RESCALES, DRIVER, POLICY)
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
        RESCALES: all_rescale_records(history),
        DRIVER: driver_document(view.driver),
        POLICY: policy_document(view.policy, view.requirements_source),
    }
    return {key: value if fits(value) else {} for key, value in encoded.items()}  # stores accept no null


def fits(value: Any) -> bool:
    """Return whether a store accepts the value."""
    return len(json.dumps(value)) <= MAX_VALUE_BYTES


def driver_document(status: DriverStatus | None) -> Mapping[str, Any]:
    """Return the document of a driver status; empty without one."""
    if status is None:
        return {}
    return {
        "at": status.at,
        "state": status.state.value,
        "version": status.version,
        "parallelism": dict(status.parallelism),
        "executors": [asdict(executor) for executor in status.executors],
        "queries": [_query_document(query) for query in status.queries],
    }


def _query_document(query: QueryReport) -> Mapping[str, Any]:
    return {**asdict(query), "sources": [_source_document(source) for source in query.sources]}


def _source_document(source: SourceReport) -> Mapping[str, Any]:
    # A list, because Airflow's state store does not accept a tuple as a JSON value. The topics may be many, and only the loop needs them.
    document = {**asdict(source), "partition_lags": [asdict(lag) for lag in source.partition_lags]}
    del document["topics"], document["kafka"]
    return document


def _summary(view: JobView, task: Mapping[str, Any]) -> dict[str, Any]:
    transitions, source = view.history.transitions[-1:], view.requirements_source
    return {
        "format": FORMAT,
        "job": view.job,
        "job_type": view.job_type.value,
        "state": view.state,
        "since": _text(view.since),
        "outcome": None if view.outcome is None else view.outcome.value,
        "cause": view.cause,
        "parallelism": None if view.parallelism is None else dict(view.parallelism),
        "requirements": _bounds(view.requirements),
        "slots": asdict(view.slots),
        "urls": asdict(view.urls),
        "restarts": view.restarts,
        "rescales": view.rescales,
        "attempt": view.attempt,
        "failures": len(view.failures),
        "requirements_source": None if source is None else _source(source),
        "lag_alert": None if view.lag_alert is None else _alert(view.lag_alert),
        "lag_unknown_since": _text(view.lag_unknown_since),
        "source_problem": view.source_problem,
        "last_transition": transition_record(transitions[0]) if transitions else None,
        "task": dict(task),
    }


def _alert(alert: LagAlert) -> Mapping[str, Any]:
    return {"since": _text(alert.since), "lag_s": alert.lag_s, "expires_at": _text(alert.expires_at)}


def policy_document(policy: PolicyAdvice | None, source: RequirementsSource | None) -> Mapping[str, Any]:
    """Return the document of the rescale policy and its advice; empty without a policy.

    Args:
        policy: result of the last consultation.
        source: source of the active requirements, None while it is unknown.
    """
    if policy is None:
        return {}
    is_active = source is not None and source.origin is RequirementsOrigin.POLICY
    return {
        "kind": policy.policy,
        "dry_run": policy.dry_run,
        "active": is_active and policy.advice is not None,
        "advice": None if policy.advice is None else _advice(policy, policy.advice),
        "problem": policy.problem,
    }


def _advice(policy: PolicyAdvice, advice: Advice) -> Mapping[str, Any]:
    return {
        "at": _text(policy.advised_at),
        "since": _text(policy.advised_since),
        "bounds": _bounds(advice.bounds),
        "source": advice.source,
        "reason": advice.reason,
        "next_at": _text(advice.next_at),
    }


def _source(source: RequirementsSource) -> Mapping[str, Any]:
    return {
        "origin": source.origin.value,
        "name": source.name,
        "via": source.via or None,
        "since": _text(source.since),
        "until": _text(source.until),
        "reason": source.reason,
    }


def _bounds(requirements: Requirements) -> dict[str, Any]:
    return {name: {"lower": it.lower, "upper": it.upper} for name, it in requirements.items()}


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


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


def all_rescale_records(history: JobHistory) -> list[dict[str, Any]]:
    """Return the rescales with their per-vertex details, encoded."""
    return newest_within(history.rescales, ALL_RESCALE_BYTES, encode)


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
