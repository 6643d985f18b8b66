"""Jobs in Airflow's metadata database: Assets, DAGs that name them, stored documents, the event log, and clearing of tasks.

This is the only module that uses the ORM. All changes of a job, from the REST API and from the command line, use `change`: one writer
at a time for each job, and one transaction for the control request and its entry in the event log. After the transaction, a change
marker notifies the control loop of the job. As Airflow's REST API, this module supports only the default backend of the state store.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from airflow._shared.state import AssetScope, AssetStateStoreWriterKind
from airflow.models.asset import (
    AssetActive,
    AssetModel,
    DagScheduleAssetNameReference,
    DagScheduleAssetReference,
    DagScheduleAssetUriReference,
    TaskInletAssetReference,
    TaskOutletAssetReference,
)
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.models.variable import Variable
from airflow.state.metastore import MetastoreBackend
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State
from sqlalchemy import Select, and_, exists, or_, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from airflow_adaptive.ports import Requester
from airflow_adaptive.runtime.publishing.documents import SUMMARY
from airflow_adaptive.runtime.requirements.control_requests import DESIRED_STATE, REQUESTERS, ControlRequest
from airflow_adaptive.stores.change_marker import DESCRIPTION, VARIABLE, with_new_marker

log = logging.getLogger(__name__)

MADE_BY_A_JOB: Final = (SUMMARY, DESIRED_STATE)
"""Keys of the documents that identify the Asset of a job. An Asset has at least one of them after the first run of its job."""


class GoneError(LookupError):
    """The object to change does not exist anymore."""


class NotPersistedError(RuntimeError):
    """The database did not persist a change. The transaction was rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in Airflow's metadata database.

    Attributes:
        name: id of the job, which is the name of its Asset.
        asset_id: id of the Asset.
        uri: URI of the Asset.
        dag_ids: DAGs that name the Asset as inlet, outlet or schedule.
        tasks: DAG id and task id of the tasks that run the job. The Asset is inlet and outlet of these tasks.
    """

    name: str
    asset_id: int
    uri: str
    dag_ids: frozenset[str]
    tasks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """Key of a task instance that runs or ran a job."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int


@contextmanager
def reading() -> Iterator[Session]:
    """Open a session outside of a request."""
    with create_session(scoped=False) as session:
        yield session


# ---- jobs -----------------------------------------------------------------------------------------------------------


def find_jobs(session: Session) -> list[Job]:
    """All jobs, sorted by name."""
    return _jobs(_job_assets().order_by(AssetModel.name), session)


def find_job(name: str, session: Session) -> Job | None:
    """The job with this name, None if it does not exist."""
    return next(iter(_jobs(_job_assets().where(AssetModel.name == name), session)), None)


def teams_of(dag_ids: Sequence[str], session: Session) -> Mapping[str, str | None]:
    """DAG id -> team, for DAGs with a team."""
    teams: Mapping[str, str | None] = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids), session=session)
    return teams


def _job_assets() -> Select[int, str, str]:
    """Select the Assets that are inlet and outlet of the same task, and that have a document of a job in their state store."""
    runs_it = and_(
        TaskOutletAssetReference.asset_id == AssetModel.id,
        TaskInletAssetReference.asset_id == AssetModel.id,
        TaskInletAssetReference.dag_id == TaskOutletAssetReference.dag_id,
        TaskInletAssetReference.task_id == TaskOutletAssetReference.task_id,
    )
    has_run = and_(AssetStateStoreModel.asset_id == AssetModel.id, AssetStateStoreModel.key.in_(MADE_BY_A_JOB))
    return select(AssetModel.id, AssetModel.name, AssetModel.uri).where(
        AssetModel.active.has(), exists().where(runs_it), exists().where(has_run)
    )


def _jobs(assets: Select[int, str, str], session: Session) -> list[Job]:
    rows = session.execute(assets).all()
    ids = [row.id for row in rows]
    inlets, outlets = (_tasks(model, ids, session) for model in (TaskInletAssetReference, TaskOutletAssetReference))
    scheduled = _scheduled({row.id: (row.name, row.uri) for row in rows}, session)
    return [
        Job(
            name=row.name,
            asset_id=row.id,
            uri=row.uri,
            dag_ids=frozenset(
                {dag_id for dag_id, _ in inlets.get(row.id, set()) | outlets.get(row.id, set())}
                | scheduled.get(row.id, set())
            ),
            tasks=tuple(sorted(inlets.get(row.id, set()) & outlets.get(row.id, set()))),
        )
        for row in rows
    ]


def _tasks(model: Any, asset_ids: Sequence[int], session: Session) -> dict[int, set[tuple[str, str]]]:
    """Asset -> DAG id and task id of the tasks that refer to the Asset."""
    found: dict[int, set[tuple[str, str]]] = {}
    query = select(model.asset_id, model.dag_id, model.task_id).where(model.asset_id.in_(asset_ids))
    for asset_id, dag_id, task_id in session.execute(query):
        found.setdefault(asset_id, set()).add((dag_id, task_id))
    return found


def _scheduled(assets: Mapping[int, tuple[str, str]], session: Session) -> dict[int, set[str]]:
    """Asset -> DAGs that are scheduled on the Asset, on its name or on its URI."""
    found: dict[int, set[str]] = {asset_id: set() for asset_id in assets}
    by_id = select(DagScheduleAssetReference.asset_id, DagScheduleAssetReference.dag_id)
    for asset_id, dag_id in session.execute(by_id.where(DagScheduleAssetReference.asset_id.in_(assets))):
        found[asset_id].add(dag_id)
    for position, column in enumerate((DagScheduleAssetNameReference.name, DagScheduleAssetUriReference.uri)):
        ids = {known[position]: asset_id for asset_id, known in assets.items()}
        for value, dag_id in session.execute(select(column, column.class_.dag_id).where(column.in_(ids))):
            found[ids[value]].add(dag_id)
    return found


# ---- documents ------------------------------------------------------------------------------------------------------


def documents(asset_ids: Iterable[int], keys: Iterable[str] | None, session: Session) -> dict[int, dict[str, Any]]:
    """Asset -> key -> document. Invalid JSON is omitted, and numbers that JSON does not support are None.

    Args:
        asset_ids: ids of the Assets.
        keys: keys of the documents, None for all documents.
        session: session of the database.
    """
    found: dict[int, dict[str, Any]] = {asset_id: {} for asset_id in asset_ids}
    model = AssetStateStoreModel
    query = select(model.asset_id, model.key, model.value).where(model.asset_id.in_(found))
    for asset_id, key, value in session.execute(query if keys is None else query.where(model.key.in_([*keys]))):
        try:
            found[asset_id][key] = json.loads(value, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            log.warning("The document %r of Asset %s is ignored because it is not valid JSON", key, asset_id)
    return found


def revisions(asset_ids: Iterable[int], session: Session) -> dict[int, dict[str, datetime]]:
    """Asset -> key -> time of the last write."""
    found: dict[int, dict[str, datetime]] = {asset_id: {} for asset_id in asset_ids}
    model = AssetStateStoreModel
    for row in session.execute(select(model.asset_id, model.key, model.updated_at).where(model.asset_id.in_(found))):
        found[row.asset_id][row.key] = row.updated_at
    return found


# ---- changes --------------------------------------------------------------------------------------------------------


class Change:
    """A change of one job in a transaction that locks the job."""

    def __init__(self, job: Job, requester: Requester, session: Session) -> None:
        """Create a change.

        Args:
            job: job to change.
            requester: user who changes the job.
            session: session that holds the lock of the job.
        """
        self._job = job
        self._requester = requester
        self._session = session
        self.changed = False
        """Whether the change has stored a control request."""

    def documents(self, keys: Iterable[str]) -> dict[str, Any]:
        """Read documents of the job with their current content."""
        return documents([self._job.asset_id], keys, self._session)[self._job.asset_id]

    def request(
        self, key: str, value: Any, event: str, task: RunKey | None, expires_at: datetime | None = None
    ) -> None:
        """Store a control request with its requester, and add an entry to Airflow's audit log.

        Args:
            key: `DESIRED_STATE` or `REQUIREMENTS`.
            value: encoded request.
            event: event name of the entry in the audit log.
            task: task instance that ran the job last, None if it is unknown.
            expires_at: expiry of the request, None without an expiry.
        """
        request = ControlRequest(key=key, value=value, requester=replace(self._requester, expires_at=expires_at))
        requesters = self.documents([REQUESTERS]).get(REQUESTERS)
        for name, document in request.documents(requesters, datetime.now(UTC)).items():
            self._set(name, document)
        self._audit(event, value, task)
        self.changed = True

    def task_state(self, task: RunKey) -> str | None:
        """State of the task instance, "none" for a task instance without a state.

        Raises:
            GoneError: the task instance does not exist.
        """
        state = self._instance(task).state
        return "none" if state is None else str(state)

    def is_run_ending(self, task: RunKey) -> bool:
        """Whether Airflow's scheduler is about to end the DAG run. The scheduler would not notice a task that is cleared meanwhile."""
        of_run = and_(TaskInstance.dag_id == task.dag_id, TaskInstance.run_id == task.run_id)
        unfinished = or_(TaskInstance.state.is_(None), TaskInstance.state.not_in(State.finished))
        running = and_(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id, DagRun.state == DagRunState.RUNNING)
        is_scheduled = and_(DagModel.dag_id == task.dag_id, DagModel.is_paused.is_(False))
        ending = and_(exists().where(running), exists().where(is_scheduled), ~exists().where(of_run, unfinished))
        return bool(self._session.scalar(select(ending)))

    def clear(self, task: RunKey) -> None:
        """Clear the task instance, so that Airflow runs the task again.

        Raises:
            GoneError: the task instance does not exist.
        """
        clear_task_instances([self._instance(task)], self._session)

    def _instance(self, task: RunKey) -> TaskInstance:
        found: TaskInstance | None = self._session.scalar(
            select(TaskInstance).where(
                TaskInstance.dag_id == task.dag_id,
                TaskInstance.task_id == task.task_id,
                TaskInstance.run_id == task.run_id,
                TaskInstance.map_index == task.map_index,
            )
        )
        if found is None:
            raise GoneError(f"{task} does not exist anymore")
        return found

    def _set(self, key: str, value: Any) -> None:
        MetastoreBackend().set_asset_state_store(
            AssetScope(asset_id=self._job.asset_id),
            key,
            json.dumps(value),
            kind=AssetStateStoreWriterKind.API,
            session=self._session,
        )

    def _audit(self, event: str, value: Any, task: RunKey | None) -> None:
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
def change(job: Job, requester: Requester) -> Iterator[Change]:
    """Change a job in one transaction, which locks the job. The transaction is rolled back if the block raises an exception.

    Raises:
        GoneError: the Asset of the job does not exist anymore.
        NotPersistedError: the database did not persist the change.
    """
    try:
        with create_session(scoped=False) as session:
            _lock(job, session)
            made = Change(job, requester, session)
            yield made
    except SQLAlchemyError as error:
        log.exception("A change of job %r could not be persisted", job.name)
        raise NotPersistedError(f"a change of job {job.name!r} could not be persisted") from error
    if made.changed:
        _notify(job.name)


def is_over(task_state: str | None) -> bool:
    """Whether a task instance in this state has ended."""
    return task_state in {str(state) for state in State.finished}


def _lock(job: Job, session: Session) -> None:
    """Lock the row of the job until the end of the transaction.

    The transaction begins with an update that changes no value. The update also blocks other writers on SQLite, which has no row
    locks, and makes MySQL return the current data to later reads of the transaction.
    """
    row = update(AssetActive).where(AssetActive.name == job.name, AssetActive.uri == job.uri)
    same = row.values(name=AssetActive.name).execution_options(synchronize_session=False)
    if not session.execute(same).rowcount:  # type: ignore[attr-defined]
        raise GoneError(f"job {job.name!r} does not exist anymore")


def _notify(job: str) -> None:
    """Write a new change marker for a job (`stores.change_marker`). A failure only delays the loop."""
    try:
        markers = with_new_marker(Variable.get(VARIABLE, default_var="{}"), job)
        Variable.set(VARIABLE, markers, description=DESCRIPTION)
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be written. The loop of job %r sees its request late: %s", VARIABLE, job, error)
