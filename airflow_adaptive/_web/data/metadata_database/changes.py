"""Changes of a job: control requests, entries in Airflow's audit log, and clearing of tasks.

All changes, from the REST API and from the command line, use `change`: one writer at a time for each job, and one transaction for
the control request and its entry in the audit log. After the transaction, a change marker notifies the control loop of the job.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from sqlalchemy import and_, exists, or_, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from airflow_adaptive._airflow import internals as airflow_internals
from airflow_adaptive._airflow.internals import (
    AssetActive,
    AsyncCallback,
    DagModel,
    DagRun,
    DagRunState,
    Log,
    State,
    TaskInstance,
    VariableModel,
    clear_task_instances,
    conf,
    create_session,
)
from airflow_adaptive._airflow.store.control_requests import DESCRIPTION, VARIABLE, with_new_marker
from airflow_adaptive._core.requirements.control_requests import ControlRequest, Requester
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._web.data.errors import RequestRefusedError, conflict, not_found
from airflow_adaptive._web.data.metadata_database import deleted_tasks, state_store
from airflow_adaptive._web.data.metadata_database.jobs import Job

log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 5
"""Delay before a retry of a request that the job accepts soon, in seconds."""

CANCEL: Final = "airflow_adaptive._airflow.process.abandoned_jobs.cancel_abandoned_job"
"""The function that cancels a job without a control loop."""

NOT_PERSISTED: Final = "The request could not be persisted and has not been applied. Please retry."


class JobTransaction:
    """A change of one job in a transaction that locks the job."""

    def __init__(self, job: Job, requester: Requester, session: Session) -> None:
        self._job = job
        self._requester = requester
        self._session = session
        self.changed = False
        """Whether the change has stored a control request."""

    def documents(self, keys: Iterable[str]) -> dict[str, Any]:
        """Read documents of the job with their current content."""
        return state_store.documents([self._job.store], keys, self._session)[self._job.store]

    def request(
        self, key: str, value: Any, event: str, task: TaskKey | None, expires_at: datetime | None = None
    ) -> None:
        """Store a control request with its requester, and add an entry to Airflow's audit log."""
        request = ControlRequest(key=key, value=value, requester=replace(self._requester, expires_at=expires_at))
        self._set(key, request.document(datetime.now(UTC)))
        self.audit(event, value, task)
        self.changed = True

    def cancel_in_triggerer(self, base: str) -> None:
        """Let a triggerer cancel the job, because no control loop reads its requests."""
        if not airflow_internals.has("TriggererCallback"):
            detail = (
                f"No control loop controls job {self._job.name!r}, and only Airflow 3.2 or later can cancel such a job. Run its DAG again and cancel it, "
                "or kill the driver in the web UI of its cluster."
            )
            raise conflict("no-loop", detail)
        store = self._job.store
        task = {"task": asdict(store)} if isinstance(store, TaskKey) else {}
        callback = airflow_internals.TriggererCallback(
            AsyncCallback(CANCEL, {"job": self._job.name, "base": base, **task})
        )
        airflow_internals.queue_callback(callback, self._session)

    def task_instance(self, task: TaskKey) -> TaskInstance | None:
        """Return the task instance, None if it does not exist anymore, and lock its DAG run.

        Airflow's scheduler decides about a run while it holds this lock. Without the lock, it could end the run between two reads of this transaction,
        and the cleared task instance would stay in a run that has ended.
        """
        run = select(DagRun.id).where(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id)
        self._session.execute(run.with_for_update())
        query = select(TaskInstance).where(
            TaskInstance.dag_id == task.dag_id,
            TaskInstance.task_id == task.task_id,
            TaskInstance.run_id == task.run_id,
            TaskInstance.map_index == task.map_index,
        )
        found: TaskInstance | None = self._session.scalar(query)
        return found

    def is_run_ending(self, task: TaskKey) -> bool:
        """Return whether Airflow's scheduler is about to end the DAG run. The scheduler would not notice a task that is cleared meanwhile."""
        of_run = and_(TaskInstance.dag_id == task.dag_id, TaskInstance.run_id == task.run_id)
        unfinished = or_(TaskInstance.state.is_(None), TaskInstance.state.not_in(State.finished))
        running = and_(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id, DagRun.state == DagRunState.RUNNING)
        is_scheduled = and_(DagModel.dag_id == task.dag_id, DagModel.is_paused.is_(False))
        # Airflow 3.4 hides earlier attempts from queries that name the task instances in FROM.
        has_unfinished = exists().select_from(TaskInstance).where(of_run, unfinished)
        ending = and_(exists().where(running), exists().where(is_scheduled), ~has_unfinished)
        return bool(self._session.scalar(select(ending)))

    def clear(self, instance: TaskInstance) -> None:
        """Clear the task instance, so that Airflow runs the task again, on the version of the DAG that Airflow's own clear would select."""
        is_latest = airflow_internals.resolve_run_on_latest_version(None, instance.dag_id, self._session)
        clear_task_instances([instance], self._session, run_on_latest_version=is_latest)

    def _set(self, key: str, value: Any) -> None:
        store = self._job.store
        if isinstance(store, TaskKey):
            deleted_tasks.write(store, key, value, self._session)
            return
        state_store.write(store, key, value, self._session)

    def audit(self, event: str, value: Any, task: TaskKey | None) -> None:
        """Add an entry to Airflow's audit log."""
        dag_id, task_id = next(iter(self._job.tasks), (min(self._job.dag_ids, default=None), None))
        entry = Log(
            event=event,
            owner=self._requester.requested_by,
            owner_display_name=self._requester.requested_by,
            extra=json.dumps({"job": self._job.name, "via": self._requester.via, "request": value}),
            dag_id=dag_id if task is None else task.dag_id,
            task_id=task_id if task is None else task.task_id,
            run_id=None if task is None else task.run_id,
        )
        self._session.add(entry)


@contextmanager
def change(job: Job, requester: Requester, session: Session) -> Iterator[JobTransaction]:
    """Change a job in one transaction, which locks the job. The transaction is rolled back if the block raises an exception.

    The function commits the session at the beginning, because some isolation levels would otherwise return the data from the begin of
    the request, and at the end, so that the change marker is written without a second connection.

    Raises:
        RequestRefusedError: the Asset of the job does not exist anymore (404), or the database did not persist the change (503).
    """
    made = JobTransaction(job, requester, session)
    try:
        session.commit()
        _lock(job, session)
        yield made
        session.commit()
    except SQLAlchemyError as error:
        session.rollback()
        log.exception("A change of job %r could not be persisted", job.name)
        status = HTTPStatus.SERVICE_UNAVAILABLE
        raise RequestRefusedError(status, "not-persisted", NOT_PERSISTED, retry_after_s=RETRY_AFTER_S) from error
    except BaseException:
        session.rollback()
        raise
    if made.changed:
        _notify(job.name)


def _lock(job: Job, session: Session) -> None:
    """Lock the row of the job's Asset until the end of the transaction, or the row of its deleted task.

    The transaction begins with an update that changes no value. The update also blocks other writers on SQLite, which has no row
    locks, and makes MySQL return the current data to later reads of the transaction.
    """
    row = update(AssetActive).where(AssetActive.name == job.asset).values(name=AssetActive.name)
    same = deleted_tasks.unchanged(job.store) if isinstance(job.store, TaskKey) else row
    if not session.execute(same.execution_options(synchronize_session=False)).rowcount:  # type: ignore[attr-defined]
        raise not_found(f"The adaptive job {job.name!r} does not exist anymore.")


def _notify(job: str) -> None:
    """Write a new change marker for a job (`_airflow.store.control_requests`). A failure only delays the loop.

    The Variable must belong to no team: a Variable of a team is hidden from the loops and the tasks of all other teams.
    """
    try:
        if conf.getboolean("core", "multi_team", fallback=False):
            with create_session() as session:
                session.execute(update(VariableModel).where(VariableModel.key == VARIABLE).values(team_name=None))
        markers = with_new_marker(VariableModel.get(VARIABLE, default_var="{}"), job)
        VariableModel.set(VARIABLE, markers, description=DESCRIPTION)
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be written. The loop of job %r sees its request late: %s", VARIABLE, job, error)
