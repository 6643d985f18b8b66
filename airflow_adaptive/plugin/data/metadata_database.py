"""Jobs in Airflow's metadata database: assets, the DAGs that name them, inbox and mirror, the audit log, clearing.

This is the only module that touches the ORM. Whatever changes a job, from REST or from the command line, goes through `change`:
one writer at a time for each job, the wish and its line in the event log committed together, and then the mark that has the job's
loop look at once. It reads the state store where Airflow's own REST API does, so with the default backend only.
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
"""Keys of which an asset has one as soon as its job has run."""


class GoneError(LookupError):
    """What was to be changed is not there any more."""


class NotPersistedError(RuntimeError):
    """The database did not take a change; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as Airflow knows it.

    Attributes:
        name: id of the job, and name of the Asset that stands for it.
        asset_id: of the Asset.
        uri: of the Asset.
        dag_ids: DAGs that name it, by inlets, outlets or schedules.
        tasks: DAG and task of those that run it: it is their inlet and outlet.
    """

    name: str
    asset_id: int
    uri: str
    dag_ids: frozenset[str]
    tasks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """A task instance that runs, or ran, a job."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int


@contextmanager
def reading() -> Iterator[Session]:
    """A session of its own, for those that are not in a request."""
    with create_session(scoped=False) as session:
        yield session


# ---- which jobs there are -------------------------------------------------------------------------------------------


def find_jobs(session: Session) -> list[Job]:
    """All jobs, by name."""
    return _jobs(_job_assets().order_by(AssetModel.name), session)


def find_job(name: str, session: Session) -> Job | None:
    """The job of this name, None if there is none."""
    return next(iter(_jobs(_job_assets().where(AssetModel.name == name), session)), None)


def teams_of(dag_ids: Sequence[str], session: Session) -> Mapping[str, str | None]:
    """Team of each DAG that has one."""
    teams: Mapping[str, str | None] = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids), session=session)
    return teams


def _job_assets() -> Select[int, str, str]:
    """Assets that some task has both as inlet and as outlet, and that have what only jobs have in their store."""
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
    """Asset -> DAG and task of those that refer to it."""
    found: dict[int, set[tuple[str, str]]] = {}
    query = select(model.asset_id, model.dag_id, model.task_id).where(model.asset_id.in_(asset_ids))
    for asset_id, dag_id, task_id in session.execute(query):
        found.setdefault(asset_id, set()).add((dag_id, task_id))
    return found


def _scheduled(assets: Mapping[int, tuple[str, str]], session: Session) -> dict[int, set[str]]:
    """Asset -> DAGs that are scheduled on it, by itself, by its name or by its URI."""
    found: dict[int, set[str]] = {asset_id: set() for asset_id in assets}
    by_id = select(DagScheduleAssetReference.asset_id, DagScheduleAssetReference.dag_id)
    for asset_id, dag_id in session.execute(by_id.where(DagScheduleAssetReference.asset_id.in_(assets))):
        found[asset_id].add(dag_id)
    for position, column in enumerate((DagScheduleAssetNameReference.name, DagScheduleAssetUriReference.uri)):
        ids = {known[position]: asset_id for asset_id, known in assets.items()}
        for value, dag_id in session.execute(select(column, column.class_.dag_id).where(column.in_(ids))):
            found[ids[value]].add(dag_id)
    return found


# ---- what their stores have -----------------------------------------------------------------------------------------


def documents(asset_ids: Iterable[int], keys: Iterable[str] | None, session: Session) -> dict[int, dict[str, Any]]:
    """Asset -> key -> document; what is no JSON is left out, and numbers that JSON has not are null.

    Args:
        asset_ids: whose.
        keys: which; None for all.
        session: of the database.
    """
    found: dict[int, dict[str, Any]] = {asset_id: {} for asset_id in asset_ids}
    model = AssetStateStoreModel
    query = select(model.asset_id, model.key, model.value).where(model.asset_id.in_(found))
    for asset_id, key, value in session.execute(query if keys is None else query.where(model.key.in_([*keys]))):
        try:
            found[asset_id][key] = json.loads(value, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            log.warning("Key %r of asset %s is no JSON: it is taken for absent", key, asset_id)
    return found


def revisions(asset_ids: Iterable[int], session: Session) -> dict[int, dict[str, datetime]]:
    """Asset -> key -> when it was written last."""
    found: dict[int, dict[str, datetime]] = {asset_id: {} for asset_id in asset_ids}
    model = AssetStateStoreModel
    for row in session.execute(select(model.asset_id, model.key, model.updated_at).where(model.asset_id.in_(found))):
        found[row.asset_id][row.key] = row.updated_at
    return found


# ---- changing a job -------------------------------------------------------------------------------------------------


class Change:
    """A change of one job that is being made: nobody else changes the job until it is committed."""

    def __init__(self, job: Job, requester: Requester, session: Session) -> None:
        """Take note.

        Args:
            job: that is changed.
            requester: who changes it.
            session: in which the job is locked.
        """
        self._job = job
        self._requester = requester
        self._session = session
        self.changed = False
        """Whether anything was set."""

    def documents(self, keys: Iterable[str]) -> dict[str, Any]:
        """Documents of the job as they are now, not as they were when the change began."""
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
        """State of the task instance, "none" before it has one.

        Raises:
            GoneError: there is none.
        """
        state = self._instance(task).state
        return "none" if state is None else str(state)

    def is_run_ending(self, task: RunKey) -> bool:
        """Whether Airflow's scheduler is about to end the DAG run: it would not see a task that is cleared meanwhile."""
        of_run = and_(TaskInstance.dag_id == task.dag_id, TaskInstance.run_id == task.run_id)
        unfinished = or_(TaskInstance.state.is_(None), TaskInstance.state.not_in(State.finished))
        running = and_(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id, DagRun.state == DagRunState.RUNNING)
        looked_at = and_(DagModel.dag_id == task.dag_id, DagModel.is_paused.is_(False))
        ending = and_(exists().where(running), exists().where(looked_at), ~exists().where(of_run, unfinished))
        return bool(self._session.scalar(select(ending)))

    def clear(self, task: RunKey) -> None:
        """Have Airflow run the task instance again. Raises `GoneError` if there is none."""
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
            raise GoneError(f"{task} is not there any more")
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
        line = Log(
            event=event,
            owner=self._requester.requested_by,
            owner_display_name=self._requester.requested_by,
            extra=json.dumps({"job": self._job.name, "via": self._requester.via, "asked": value}),
            dag_id=dag_id if task is None else task.dag_id,
            task_id=task_id if task is None else task.task_id,
            run_id=None if task is None else task.run_id,
        )
        self._session.add(line)


@contextmanager
def change(job: Job, requester: Requester) -> Iterator[Change]:
    """Change a job: all of it is committed when the block ends, nothing if it raises; others who change it wait.

    Raises:
        GoneError: the job's Asset is not there any more.
        NotPersistedError: the database did not take it.
    """
    try:
        with create_session(scoped=False) as session:
            _lock(job, session)
            made = Change(job, requester, session)
            yield made
    except SQLAlchemyError as error:
        log.exception("A change of job %r could not be written", job.name)
        raise NotPersistedError(f"a change of job {job.name!r} could not be written") from error
    if made.changed:
        _notify(job.name)


def is_over(task_state: str | None) -> bool:
    """Whether a task instance in this state has ended."""
    return task_state in {str(state) for state in State.finished}


def _lock(job: Job, session: Session) -> None:
    """Hold the job's row until the end of the transaction.

    By writing what is there already, as the first thing: so SQLite, which knows no locks of rows, keeps other writers out as
    well, and MySQL shows what is read afterwards as it is then.
    """
    row = update(AssetActive).where(AssetActive.name == job.name, AssetActive.uri == job.uri)
    same = row.values(name=AssetActive.name).execution_options(synchronize_session=False)
    if not session.execute(same).rowcount:  # type: ignore[attr-defined]
        raise GoneError(f"job {job.name!r} is not there any more")


def _notify(job: str) -> None:
    """Write a new change marker for a job (`stores.change_marker`). A failure only delays the loop."""
    try:
        markers = with_new_marker(Variable.get(VARIABLE, default_var="{}"), job)
        Variable.set(VARIABLE, markers, description=DESCRIPTION)
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be written. The loop of job %r sees its request late: %s", VARIABLE, job, error)
