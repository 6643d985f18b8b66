"""The published state of a job: a few small documents, in the state store of the job's Airflow Asset.

The documents serve programs and users that cannot read the job directory. They are a copy: the journal is the truth. A reader
treats a document that is missing, or that has another format, as absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from airflow_adaptive.job.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.runtime.observation.lag_alert import LagAlert
from airflow_adaptive.runtime.publishing.history_records import all_rescale_records, decision_records, transition_record
from airflow_adaptive.runtime.publishing.job_view import JobView
from airflow_adaptive.runtime.requirements.advice import Advice, PolicyAdvice
from airflow_adaptive.runtime.requirements.sources import RequirementsOrigin, RequirementsSource
from airflow_adaptive.scheduler.requirements import Requirements
from airflow_adaptive.scheduler.snapshot import to_json

FORMAT: Final = 1
"""Format of the documents; a reader ignores documents of another format."""

SUMMARY: Final = "summary"
SCHEDULER: Final = "scheduler"
HISTORY: Final = "history"
RESCALES: Final = "rescales"
DRIVER: Final = "driver"
POLICY: Final = "policy"
METRICS: Final = "metrics/"
"""Keys of the documents. `METRICS` is a prefix: a page of metrics follows for each step in seconds (`runtime.publishing.time_series`)."""

DOCUMENTS: Final = (SUMMARY, SCHEDULER, HISTORY, RESCALES, DRIVER, POLICY)
"""Keys of all documents but the pages of metrics."""

MAX_VALUE_BYTES: Final = 60 << 10
"""Airflow accepts 64 KiB by default (`[state_store] max_value_storage_bytes`)."""


def is_published(key: str) -> bool:
    """Return whether a loop publishes the document of a key. The other documents in the same store are requests and records."""
    return key in DOCUMENTS or key.startswith(METRICS)


def documents(view: JobView, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documents of a job by key, without the job metrics (`runtime.publishing.time_series`), which also update `DRIVER`.

    Args:
        view: view of the job.
        task: the task instance that runs the job: `dag_id`, `task_id`, `run_id`, `map_index`.
    """
    history = view.history
    encoded: dict[str, Any] = {
        SUMMARY: _summary(view, task),
        SCHEDULER: to_json(view.scheduler),
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
