"""Assets of jobs, the DAGs that name them, and the tasks that run the jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from sqlalchemy import and_, exists, or_, select
from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import (
    AssetModel,
    DagScheduleAssetNameReference,
    DagScheduleAssetReference,
    DagScheduleAssetUriReference,
    JobModel,
    TaskInletAssetReference,
    TaskInstance,
    TaskOutletAssetReference,
    create_session,
)
from airflow_adaptive._airflow.store.job_asset import FLEETS, JOBS, JobAsset, job_asset
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
from airflow_adaptive._core.ports import SEPARATOR, JobKey
from airflow_adaptive._core.requirements.control_requests import DESIRED_STATE, HANDLED
from airflow_adaptive._core.view import SUMMARY, TaskKey
from airflow_adaptive._web.data.metadata_database import deleted_tasks, state_store
from airflow_adaptive._web.data.metadata_database.state_store import Store, StoreKey

MADE_BY_A_JOB: Final = (SUMMARY, DESIRED_STATE, HANDLED, ATTEMPT)
"""Keys of the documents that identify a job. There is at least one of them after the first run of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job in Airflow's metadata database.

    Attributes:
        name: name of the job (`_airflow.store.job_asset`).
        asset: name of the Asset of the job, which is also its URI.
        store: place of the documents of the job; a task instance if the task was deleted before the end of the job (`deleted_tasks`).
        dag_ids: DAGs that name the Asset as inlet, outlet or schedule.
        tasks: DAG id and task id of the tasks that run the job. The Asset is inlet and outlet of these tasks. If tasks of several
            DAGs qualify, the tasks of the DAG that the published summary names run the job.
    """

    name: str
    asset: str
    store: Store
    dag_ids: frozenset[str]
    tasks: tuple[tuple[str, str], ...]

    @property
    def runner_dag_ids(self) -> frozenset[str]:
        """DAGs whose tasks run the job. A DAG that only consumes the Asset is not one of them."""
        return frozenset(dag_id for dag_id, _ in self.tasks)


@contextmanager
def reading() -> Iterator[Session]:
    """Open a session outside of a request."""
    with create_session(scoped=False) as session:
        yield session


def hosts_of_triggerers() -> list[str]:
    """Return the hosts of the triggerers that are alive, one for each."""
    with reading() as session:
        query = select(JobModel).where(JobModel.job_type == "TriggererJob", JobModel.state == "running")
        return sorted(found.hostname or "?" for found in session.scalars(query) if found.is_alive())


def release(session: Session) -> None:
    """Return the connection of the session to the pool. The session takes a connection again when it needs one.

    A request must not keep a connection while it waits for a thread of the server: the other requests may occupy all threads and wait
    for a connection. Airflow's check of a login also waits for a connection, in the event loop.
    """
    session.commit()


def find_jobs(session: Session) -> list[Job]:
    """Return all jobs, sorted by name."""
    found = {
        job.name: job
        for job in chain(_jobs_of_deleted_tasks(None, session), _jobs(_job_documents(None, session), session))
    }
    return sorted(found.values(), key=lambda job: job.name)


def find_job(name: str, session: Session) -> Job | None:
    """Return the job with this name, None if it does not exist."""
    place = job_asset(name)
    found = _jobs(_job_documents(place, session), session) or _jobs_of_deleted_tasks(place.name, session)
    return next((job for job in found if job.name == name), None)


def task_states(tasks: Collection[TaskKey], session: Session) -> dict[TaskKey, str | None]:
    """Task instance -> state, for the task instances that exist."""
    if not tasks:
        return {}
    columns = (TaskInstance.dag_id, TaskInstance.task_id, TaskInstance.run_id, TaskInstance.map_index)
    dag_ids, run_ids = {task.dag_id for task in tasks}, {task.run_id for task in tasks}
    query = select(*columns, TaskInstance.state).where(
        TaskInstance.dag_id.in_(dag_ids), TaskInstance.run_id.in_(run_ids)
    )
    found = {tuple(row[:4]): row[4] for row in session.execute(query)}
    keys = {task: (task.dag_id, task.task_id, task.run_id, task.map_index) for task in tasks}
    return {task: found[key] for task, key in keys.items() if key in found}


def _job_documents(place: JobAsset | None, session: Session) -> Iterable[tuple[int, str, str]]:
    """Return the Asset, its name and the key of each document that identifies a job of the Assets that are inlet and outlet of the same task.

    `place` selects one job, None selects all jobs.
    """
    runs_it = and_(
        TaskOutletAssetReference.asset_id == AssetModel.id,
        TaskInletAssetReference.asset_id == AssetModel.id,
        TaskInletAssetReference.dag_id == TaskOutletAssetReference.dag_id,
        TaskInletAssetReference.task_id == TaskOutletAssetReference.task_id,
    )
    is_of_jobs = or_(AssetModel.name.startswith(JOBS), AssetModel.name.startswith(FLEETS))
    assets = select(AssetModel.id, AssetModel.name).where(is_of_jobs, AssetModel.active.has(), exists().where(runs_it))
    selected = assets if place is None else assets.where(AssetModel.name == place.name)
    prefix = None if place is None else place.prefix
    return state_store.keys(selected, prefix, MADE_BY_A_JOB, session)


def _jobs_of_deleted_tasks(asset: str | None, session: Session) -> list[Job]:
    """Return the jobs that a deleted task may have left with their drivers, of one Asset or of all."""
    return [
        Job(
            name=name,
            asset=job_asset(name).name,
            store=task,
            dag_ids=frozenset({task.dag_id}),
            tasks=((task.dag_id, task.task_id),),
        )
        for name, task in deleted_tasks.unfinished_jobs(asset, session).items()
    ]


def _jobs(documents: Iterable[tuple[int, str, str]], session: Session) -> list[Job]:
    """Return the jobs of the documents, which are the jobs that have run."""
    names: dict[int, str] = {}
    stores: set[StoreKey] = set()
    for asset_id, name, key in documents:
        names[asset_id] = name
        stores.add(StoreKey(asset_id, "".join(key.rpartition(SEPARATOR)[:2])))
    ids = [*names]
    inlets, outlets = (_tasks(model, ids, session) for model in (TaskInletAssetReference, TaskOutletAssetReference))
    runners = _runners({id_: inlets.get(id_, set()) & outlets.get(id_, set()) for id_ in ids}, session)
    scheduled = _scheduled(names, session)
    dag_ids = {
        id_: frozenset(dag for dag, _ in chain(inlets.get(id_, ()), outlets.get(id_, ()))).union(scheduled.get(id_, ()))
        for id_ in ids
    }
    return [
        Job(
            name=_name(names[store.asset_id], store.prefix),
            asset=names[store.asset_id],
            store=store,
            dag_ids=dag_ids[store.asset_id],
            tasks=tuple(sorted(runners[store.asset_id])),
        )
        for store in stores
    ]


def _name(asset: str, prefix: str) -> str:
    """Return the name of the job with this prefix in the state store of an Asset (the inverse of `_airflow.store.job_asset.job_asset`)."""
    if asset.startswith(JOBS):
        return asset.removeprefix(JOBS)
    return JobKey(prefix.removesuffix(SEPARATOR), *asset.removeprefix(FLEETS).split("/")).name


def _runners(tasks: Mapping[int, set[tuple[str, str]]], session: Session) -> dict[int, set[tuple[str, str]]]:
    """Asset -> tasks that run the job, of the tasks that have the Asset as inlet and outlet. Other tasks may only enrich the data."""
    shared = [StoreKey(asset_id) for asset_id, found in tasks.items() if len({dag_id for dag_id, _ in found}) > 1]
    documents = state_store.documents(shared, [SUMMARY], session)
    runners = dict(tasks)
    for store in shared:
        asset_id, named = store.asset_id, _dag_of(documents[store].get(SUMMARY))
        runners[asset_id] = {task for task in tasks[asset_id] if task[0] == named} or tasks[asset_id]
    return runners


def _dag_of(summary: Any) -> Any:
    """Return the id of the DAG that runs the job according to its published summary, None if unknown."""
    task = summary.get("task") if isinstance(summary, Mapping) else None
    return task.get("dag_id") if isinstance(task, Mapping) else None


def _tasks(model: Any, asset_ids: Sequence[int], session: Session) -> dict[int, set[tuple[str, str]]]:
    """Asset -> DAG id and task id of the tasks that refer to the Asset."""
    found: dict[int, set[tuple[str, str]]] = {}
    query = select(model.asset_id, model.dag_id, model.task_id).where(model.asset_id.in_(asset_ids))
    for asset_id, dag_id, task_id in session.execute(query):
        found.setdefault(asset_id, set()).add((dag_id, task_id))
    return found


def _scheduled(assets: Mapping[int, str], session: Session) -> dict[int, set[str]]:
    """Asset -> DAGs that are scheduled on the Asset, on its name or on its URI."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    by_id = select(DagScheduleAssetReference.asset_id, DagScheduleAssetReference.dag_id)
    for asset_id, dag_id in session.execute(by_id.where(DagScheduleAssetReference.asset_id.in_(assets))):
        found[asset_id].add(dag_id)
    ids = {name: asset_id for asset_id, name in assets.items()}
    for column in (DagScheduleAssetNameReference.name, DagScheduleAssetUriReference.uri):
        for value, dag_id in session.execute(select(column, column.class_.dag_id).where(column.in_(ids))):
            found[ids[value]].add(dag_id)
    return found
