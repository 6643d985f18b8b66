"""An API server without a port: Airflow's own app over its own tables, and those who log in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from inspect import signature
from typing import Any, cast

from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT
from airflow_adaptive._airflow.store.variables_and_xcoms import xcom_key
from airflow_adaptive._core.ports import SEPARATOR
from airflow_adaptive._core.requirements.control_requests import HANDLED, encode_handled, requested_value
from airflow_adaptive._core.view import TaskKey, is_published
from airflow_adaptive._web.data.metadata_database.state_store import StoreKey

API = "/adaptive/api/v1"

RUN = "manual__2013-01-01"

PUBLISHING_RUN = "manual__2012-12-31+"
"""Prefix of the DAG runs of the loops that publish XComs instead of documents in the state store of an Asset. Each Asset has a run of its own."""

BODY = {"job": {"parallelism": {"lowerBound": 1, "upperBound": 4}}}


class AirflowApp:
    """The app and its database."""

    def __init__(self, app: Any) -> None:
        from airflow.api_fastapi.app import get_auth_manager  # noqa: PLC0415
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser  # noqa: PLC0415

        self.app = app
        self._manager = get_auth_manager()
        roles = {"admin": "admin", "editor": "user", "viewer": "viewer"}
        self._tokens = {
            name: self._manager.generate_jwt(SimpleAuthManagerUser(username=name, role=role))
            for name, role in roles.items()
        }

    @classmethod
    def begin(cls) -> AirflowApp:
        """Make tables and app."""
        from airflow import settings  # noqa: PLC0415
        from airflow.api_fastapi.app import create_app, purge_cached_app  # noqa: PLC0415
        from airflow.utils import db  # noqa: PLC0415
        from fastapi import testclient  # noqa: F401, PLC0415  warns of its own future when it is imported
        from sqlalchemy import event  # noqa: PLC0415

        settings.configure_vars()
        settings.dispose_orm()
        settings.configure_orm()
        assert settings.engine is not None
        if settings.engine.dialect.name == "sqlite":
            event.listen(settings.engine, "connect", _hurry)
        db.initdb()
        purge_cached_app()
        return cls(create_app(apps="core"))

    def end(self) -> None:
        """Leave the database to others."""
        from airflow import settings  # noqa: PLC0415

        settings.dispose_orm()
        settings.configure_vars()
        settings.configure_orm()

    def client(self, user: str | None = "editor") -> Any:
        """A client of that user, None for one who is not logged in."""
        from fastapi.testclient import TestClient  # noqa: PLC0415

        headers = {} if user is None else {"Authorization": f"Bearer {self._tokens[user]}"}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False)

    def token(self, user: str) -> str:
        return self._tokens[user]

    # ---- what is in the database ------------------------------------------------------------------------------------

    def session(self) -> Any:
        from airflow.utils.session import create_session  # noqa: PLC0415

        return create_session(scoped=False)

    def declare(self, job: str, dag_id: str = "flights", task_id: str = "stream") -> int:
        """A DAG whose task runs the job; returns the id of the Asset."""
        return self.declare_asset(f"{JOBS}{job}", dag_id, task_id)

    def declare_asset(self, name: str, dag_id: str = "flights", task_id: str = "stream") -> int:
        """A DAG whose task has the Asset as inlet and outlet; returns the id of the Asset."""
        from airflow.models.asset import (  # noqa: PLC0415
            AssetActive,
            AssetModel,
            TaskInletAssetReference,
            TaskOutletAssetReference,
        )
        from sqlalchemy import select  # noqa: PLC0415

        self.dag(dag_id)
        with self.session() as session:
            uri = name if name.isascii() else f"{JOBS}{sha256(name.encode()).hexdigest()}"
            asset = session.scalar(select(AssetModel).where(AssetModel.name == name)) or AssetModel(name=name, uri=uri)
            session.add(asset)
            session.flush()
            session.add(AssetActive.for_asset(asset))
            for reference in (TaskInletAssetReference, TaskOutletAssetReference):
                session.add(reference(asset_id=asset.id, dag_id=dag_id, task_id=task_id))
            return int(asset.id)

    def dag(self, dag_id: str) -> None:
        from airflow.models.dag import DagModel  # noqa: PLC0415
        from airflow.models.dagbundle import DagBundleModel  # noqa: PLC0415

        with self.session() as session:
            if session.get(DagBundleModel, "bundle") is None:
                session.add(DagBundleModel(name="bundle"))
                session.flush()
            if session.get(DagModel, dag_id) is None:
                session.add(DagModel(dag_id=dag_id, bundle_name="bundle", fileloc="flights.py"))

    def schedule_on(self, asset_id: int, dag_id: str) -> None:
        from airflow.models.asset import DagScheduleAssetReference  # noqa: PLC0415

        self.dag(dag_id)
        with self.session() as session:
            session.add(DagScheduleAssetReference(asset_id=asset_id, dag_id=dag_id))

    def show(self, asset_id: int, published: Mapping[str, Any]) -> None:
        """Store documents of jobs of an Asset, as loops and tasks do. The keys contain the prefixes of the jobs."""
        from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

        documents = [
            (f"{job}{separator}", key, value)
            for full_key, value in published.items()
            for job, separator, key in (full_key.rpartition(SEPARATOR),)
        ]
        with self.session() as session:
            for prefix, key, value in documents:
                if state_store.has_state_store() or not is_published(key):
                    state_store.write(StoreKey(asset_id, prefix), key, value, session)
        if not state_store.has_state_store():
            self._publish_xcoms(asset_id, [document for document in documents if is_published(document[1])])

    def age(self, age: timedelta) -> None:
        """Let all loops have published their documents some time ago."""
        from sqlalchemy import update  # noqa: PLC0415

        from airflow_adaptive._airflow import internals as airflow_internals  # noqa: PLC0415
        from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

        at = datetime.now(UTC) - age
        with self.session() as session:
            if state_store.has_state_store():
                session.execute(update(airflow_internals.AssetStateStoreModel).values(updated_at=at))
            else:
                model = airflow_internals.XComModel
                published = model.key.startswith(xcom_key(""), autoescape=True)
                session.execute(update(model).where(published).values(timestamp=at))

    def _publish_xcoms(self, asset_id: int, documents: list[tuple[str, str, Any]]) -> None:
        """Set the XComs of a loop. The attempt is one of a DAG run of its own, so that tests can create the run that the documents name."""
        from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

        if not documents:
            return
        run_id = f"{PUBLISHING_RUN}{asset_id}"
        if not self.has_run(run_id):
            self.run(run_id=run_id)
        task = TaskKey(dag_id="flights", task_id="stream", run_id=run_id)
        self.push({xcom_key(f"{prefix}{key}"): value for prefix, key, value in documents}, asdict(task))
        with self.session() as session:
            for prefix in {prefix for prefix, _, _ in documents}:
                for key, value in ((ATTEMPT, f"{task}/1"), (HANDLED, encode_handled({}, None))):
                    if (
                        key
                        not in state_store.documents([StoreKey(asset_id, prefix)], [key], session)[
                            StoreKey(asset_id, prefix)
                        ]
                    ):
                        state_store.write(StoreKey(asset_id, prefix), key, value, session)

    def has_run(self, run_id: str) -> bool:
        from airflow.models.dagrun import DagRun  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        with self.session() as session:
            return session.scalar(select(DagRun.id).where(DagRun.run_id == run_id)) is not None

    def stored(self, asset_id: int, key: str) -> Any:
        from airflow_adaptive._web.data.metadata_database import state_store  # noqa: PLC0415

        prefix, separator, name = key.rpartition(SEPARATOR)
        store = StoreKey(asset_id, f"{prefix}{separator}")
        with self.session() as session:
            return state_store.documents([store], [name], session)[store].get(name)

    def requested(self, asset_id: int, key: str) -> Any:
        """The value of a control request, None without one."""
        return requested_value(self.stored(asset_id, key))

    def audit(self) -> list[dict[str, Any]]:
        """Lines that are ours in Airflow's event log."""
        from airflow.models.log import Log  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        with self.session() as session:
            lines = session.scalars(select(Log).where(Log.event.like("adaptive_%")).order_by(Log.id)).all()
            return [
                {"event": line.event, "owner": line.owner, "dag_id": line.dag_id, **json.loads(line.extra)}
                for line in lines
            ]

    def marks(self) -> dict[str, str]:
        from airflow.models.variable import Variable  # noqa: PLC0415

        return dict(json.loads(Variable.get("airflow_adaptive_change_markers", default_var="{}")))

    def run(
        self,
        dag_id: str = "flights",
        task_id: str = "stream",
        state: str | None = "success",
        *,
        ends: bool = False,
        next_task: str | None = None,
        run_id: str = RUN,
    ) -> None:
        """A run of the DAG whose task instance is in this state; it runs on if it `ends` only when Airflow looks next.

        The next task has no state yet.
        """
        from airflow.models.dag_version import DagVersion  # noqa: PLC0415
        from airflow.models.dagrun import DagRun  # noqa: PLC0415
        from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415
        from airflow.sdk import BaseOperator  # noqa: PLC0415
        from airflow.sdk.definitions.dag import DAG  # noqa: PLC0415
        from airflow.serialization import serialized_objects  # noqa: PLC0415
        from airflow.utils.state import DagRunState  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        dag = DAG(dag_id, schedule=None)
        states = {task_id: state} | ({} if next_task is None else {next_task: None})
        for name in states:
            BaseOperator(task_id=name, dag=dag)
        in_3_1 = not hasattr(serialized_objects, "DagSerialization")
        serialization = getattr(serialized_objects, "SerializedDAG" if in_3_1 else "DagSerialization")
        known = serialization.deserialize_dag(serialization.serialize_dag(dag))
        with self.session() as session:
            version = session.scalar(select(DagVersion).where(DagVersion.dag_id == dag_id))
            version = version or DagVersion(dag_id=dag_id, version_number=1, bundle_name="bundle")
            session.add(version)
            session.flush()
            run = DagRun(
                dag_id=dag_id,
                run_id=run_id,
                run_type="manual",
                state=DagRunState.SUCCESS if state == "success" and not ends else DagRunState.RUNNING,
            )
            run.created_dag_version_id = version.id
            session.add(run)
            session.flush()
            for name, of_task in states.items():
                task = known.get_task(name)
                session.add(TaskInstance(task=task, dag_version_id=version.id, run_id=run_id, state=of_task))

    def store_dag(self, dag: Any) -> None:
        """Airflow's DAG processor stores the DAG and its file."""
        from airflow.models.serialized_dag import SerializedDagModel  # noqa: PLC0415
        from airflow.serialization import serialized_objects  # noqa: PLC0415

        in_3_1 = not hasattr(serialized_objects, "DagSerialization")
        serialization = getattr(serialized_objects, "SerializedDAG" if in_3_1 else "DagSerialization")
        self.dag(dag.dag_id)
        stored = serialized_objects.LazyDeserializedDAG(data=serialization.to_dict(dag))
        with self.session() as session:
            SerializedDagModel.write_dag(stored, "bundle", session=session)

    def push(self, xcoms: Mapping[str, Any], task: Mapping[str, Any]) -> None:
        """Set XComs of a task instance, as the API server does for tasks and triggers."""
        from airflow.models.dagrun import DagRun  # noqa: PLC0415
        from airflow.models.xcom import XComModel  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        row = {"map_index": -1, **task}
        with self.session() as session:
            run = select(DagRun.id).where(DagRun.dag_id == row["dag_id"], DagRun.run_id == row["run_id"])
            run_id = session.scalars(run).one()
            for key, value in xcoms.items():
                if "serialize" in signature(XComModel.set).parameters:
                    XComModel.set(key, value, **row, serialize=False, session=session)
                else:  # Airflow 3.1 serializes the values.
                    now = datetime.now(UTC)
                    session.merge(XComModel(**row, dag_run_id=run_id, key=key, value=value, timestamp=now))

    def delete_tasks(self, task_id: str = "stream") -> None:
        """A DAG file loses its task, and Airflow's scheduler notices that the Asset of the task is not used any more."""
        from airflow.jobs.scheduler_job_runner import SchedulerJobRunner  # noqa: PLC0415
        from airflow.models.asset import TaskInletAssetReference, TaskOutletAssetReference  # noqa: PLC0415
        from sqlalchemy import delete  # noqa: PLC0415

        with self.session() as session:
            for reference in (TaskInletAssetReference, TaskOutletAssetReference):
                session.execute(delete(reference).where(reference.task_id == task_id))
            SchedulerJobRunner._update_asset_orphanage(cast(SchedulerJobRunner, SchedulerJobRunner), session=session)

    def pause(self, paused: bool, dag_id: str = "flights") -> None:
        """Pause the DAG, or let it go on."""
        from airflow.models.dag import DagModel  # noqa: PLC0415

        with self.session() as session:
            dag = session.get(DagModel, dag_id)
            assert dag is not None
            dag.is_paused = paused

    def task_state(self) -> Any:
        from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        with self.session() as session:
            return session.scalar(select(TaskInstance.state))

    def run_state(self) -> Any:
        from airflow.models.dagrun import DagRun  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        with self.session() as session:
            return session.scalar(select(DagRun.state))

    def clean(self) -> None:
        """Empty the tables that tests write."""
        from airflow.models.base import Base  # noqa: PLC0415

        names = (
            "xcom", "task_instance", "task_instance_history", "dag_run", "serialized_dag", "dag_code", "dag_version", "log", "variable", "asset_state_store",
            "dag_schedule_asset_reference", "task_inlet_asset_reference", "task_outlet_asset_reference",
            "asset_active", "asset", "dag", "dag_bundle", "callback", "trigger",
        )  # fmt: skip
        with self.session() as session:
            for name in names:
                if (table := Base.metadata.tables.get(name)) is not None:  # Airflow has no state store before 3.3.
                    session.execute(table.delete())


def _hurry(connection: Any, _: object) -> None:
    """This database need not outlive a power failure."""
    connection.execute("PRAGMA synchronous=OFF")
