"""Jobs whose task was deleted from its DAG file, and whose end nothing has published.

Theory: soon after the deletion, Airflow deactivates the Asset of the job and empties its state store. It keeps the task instance and its XComs, which
name the job, its directory and its state. If no triggerer ran at that moment, no control loop has stopped the driver. The XComs then take the place of
the documents in the state store, until one of them is the end of the job.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Text, Update, and_, cast, exists, or_, select, update
from sqlalchemy.orm import Session, aliased

from airflow_adaptive._airflow.internals import AssetModel, State, TaskInstance, XComModel
from airflow_adaptive._airflow.store.job_asset import FLEETS, JOBS, job_asset, job_xcom
from airflow_adaptive._airflow.store.task_xcoms import (
    BASE,
    LINKS,
    XCOM_ATTEMPT,
    XCOM_DECISIONS,
    XCOM_PARALLELISM,
    XCOM_STATE,
    XCOM_TRANSITIONS,
)
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.view import FORMAT, HISTORY, SUMMARY, SchedulerStateName, TaskKey

KEYS: Final = (*LINKS, XCOM_ATTEMPT, XCOM_DECISIONS, XCOM_PARALLELISM, XCOM_STATE, XCOM_TRANSITIONS, DESIRED_STATE)
"""Keys of the XComs that contain documents of a job."""

OF_JOBS: Final = (job_xcom(JOBS), job_xcom(FLEETS))
"""Prefixes of the keys of the XComs that contain the name and the directory of a job."""

TASK_FIELDS: Final = [it.name for it in fields(TaskKey)]

ENDS: Final = [json.dumps(outcome.value) for outcome in Outcome]
"""The XCom of the state of a job that has ended, as JSON text."""


def unfinished_jobs(asset: str | None, session: Session) -> dict[str, TaskKey]:
    """Name of a job -> the task instance that ran it last, for the jobs whose task was deleted before the end of the job.

    They are the jobs of one Asset or of all.
    """
    is_of_jobs = or_(AssetModel.name.startswith(JOBS), AssetModel.name.startswith(FLEETS))
    named = is_of_jobs if asset is None else AssetModel.name == asset
    inactive = {*session.scalars(select(AssetModel.name).where(named, ~AssetModel.active.has()))}
    if not inactive:
        return {}
    state, columns = aliased(XComModel), (*_key(XComModel), XComModel.value, XComModel.timestamp)
    is_over = exists().where(_same(TaskInstance, XComModel), TaskInstance.state.in_(State.finished))
    has_end = exists().where(_same(state, XComModel), state.key == XCOM_STATE, cast(state.value, Text).in_(ENDS))
    runs = select(*columns).where(XComModel.key.in_(map(job_xcom, inactive))).order_by(XComModel.timestamp)
    rows = [row for row in session.execute(runs.where(is_over, ~has_end)) if _asset(row.value) in inactive]
    if not rows:
        return {}
    # Another task instance may have continued the job, and ended it.
    later = session.execute(runs.where(XComModel.timestamp >= rows[0].timestamp))
    newest = {row.value["name"]: row.timestamp for row in later if _asset(row.value) is not None}
    found = {row.value["name"]: row for row in rows}
    tasks = {_task(row): name for name, row in found.items() if row.timestamp == newest.get(name)}
    return {name: task for task, name in tasks.items()}


def read(tasks: Collection[TaskKey], session: Session) -> dict[TaskKey, tuple[dict[str, Any], dict[str, datetime]]]:
    """Task instance -> the documents of its job that its XComs contain, and the time of the last write of each document."""
    columns = (*_key(XComModel), XComModel.key, XComModel.value, XComModel.timestamp)
    of_tasks = or_(*(_same(XComModel, task) for task in tasks))
    found: dict[TaskKey, dict[str, Any]] = {task: {} for task in tasks}
    is_document = or_(XComModel.key.in_(KEYS), *(XComModel.key.startswith(prefix) for prefix in OF_JOBS))
    for row in session.execute(select(*columns).where(of_tasks, is_document)):
        found[_task(row)][row.key] = row
    return {task: _documents(task, rows) for task, rows in found.items()}


def write(task: TaskKey, key: str, document: Mapping[str, Any], session: Session) -> None:
    """Store a control request, so that the job is displayed as one that is being canceled."""
    XComModel.set(key, document, **asdict(task), serialize=False, session=session)


def unchanged(task: TaskKey) -> Update:
    """Return an update of the row of the task instance that changes no value, and locks the row."""
    same = {"state": TaskInstance.state, "updated_at": TaskInstance.updated_at}
    return update(TaskInstance).where(_same(TaskInstance, task)).values(same)


def _documents(task: TaskKey, rows: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, datetime]]:
    """Return the documents that the XComs of a task instance contain, and the times of their last writes."""
    values = {key: row.value for key, row in rows.items()}
    jobs = [row for key, row in rows.items() if key.startswith(OF_JOBS)]
    job = max(jobs, key=lambda row: row.timestamp).value if jobs else None
    state, parallelism = values.get(XCOM_STATE), values.get(XCOM_PARALLELISM)
    has_end = state in [*Outcome]
    if state not in [*SchedulerStateName]:  # A custom backend of XComs may keep a value elsewhere.
        state = SchedulerStateName("Finished") if has_end else SchedulerStateName.UNKNOWN
    documents = {
        SUMMARY: {
            "format": FORMAT,
            "state": state,
            "outcome": values.get(XCOM_STATE) if has_end else None,
            "parallelism": parallelism if isinstance(parallelism, Mapping) else None,
            "attempt": values.get(XCOM_ATTEMPT),
            "task": asdict(task),
            "urls": {name: values.get(key) for key, name in LINKS.items()},
        },
        HISTORY: {"transitions": values.get(XCOM_TRANSITIONS), "decisions": values.get(XCOM_DECISIONS)},
        BASE: job["job_directory"] if isinstance(job, Mapping) else None,
    }
    published = max((row.timestamp for key, row in rows.items() if key != DESIRED_STATE), default=None)
    times = {} if published is None else dict.fromkeys(documents, published)
    if DESIRED_STATE in rows:
        documents[DESIRED_STATE], times[DESIRED_STATE] = values[DESIRED_STATE], rows[DESIRED_STATE].timestamp
    return documents, times


def _asset(job: Any) -> str | None:
    """Return the name of the Asset of the job that an XCom names, None for an XCom of another origin."""
    try:
        return job_asset(job["name"]).name if isinstance(job["job_directory"], str) else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _task(row: Any) -> TaskKey:
    return TaskKey(**dict(zip(TASK_FIELDS, _key(row), strict=True)))


def _key(model: Any) -> list[Any]:
    return [getattr(model, name) for name in TASK_FIELDS]


def _same(model: Any, other: Any) -> ColumnElement[bool]:
    """Return whether two rows, or a row and a key, belong to the same task instance."""
    return and_(*(column == value for column, value in zip(_key(model), _key(other), strict=True)))
