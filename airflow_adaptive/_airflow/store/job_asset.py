"""The Airflow Asset of a job, and the documents of the job: in the state store of this Asset, or before Airflow 3.3 in Variables and XComs.

Theory: an Asset of its own represents the job of a task. A mapped task runs a fleet of jobs, whose ids are known only at run time, but Airflow
registers the Assets of a task when it parses the DAG. One fleet Asset therefore represents all jobs of a mapped task, and the keys in its state
store begin with the id of the job. Names of these Assets are URIs with the scheme `adaptive`, so no Asset of a team has the same name.

Other tasks, the REST API and the command line call a job by its name (`_core.ports`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from airflow_adaptive._airflow import internals as airflow_internals
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, BASE, OWNER
from airflow_adaptive._airflow.store.variables_and_xcoms import VariablesAndXComs, has_room
from airflow_adaptive._core.ports import SEPARATOR, JobKey
from airflow_adaptive._core.requirements.control_requests import KEYS
from airflow_adaptive._core.view import TaskKey

JOBS: Final = "adaptive://job/"
"""Prefix of the Assets of single jobs."""

FLEETS: Final = "adaptive://fleet/"
"""Prefix of the Assets of fleets."""


MAX_KEY: Final = 512
"""Longest key of an XCom."""


@dataclass(frozen=True, slots=True)
class JobAsset:
    """The place of a job in Airflow's stores.

    Attributes:
        name: name of the Asset, which is also its URI.
        prefix: prefix of the keys of the job in the state store of the Asset.
    """

    name: str
    prefix: str = ""

    @property
    def store(self) -> JobStateStore:
        """The documents of the job; nothing is read yet. Only a program that knows the task of the job can publish documents."""
        return self.store_of(None)

    def store_of(self, task: TaskKey | None) -> JobStateStore:
        """Return the documents of the job that a task instance runs; nothing is read yet."""
        is_in_asset = airflow_internals.has("AssetStateStoreAccessor")
        return _AssetStore(self) if is_in_asset else VariablesAndXComs(self.name, self.prefix, task)

    def move_into_state_store(self, *keys: str) -> None:
        """Move documents that an earlier version of Airflow kept in Variables; blocks. Documents in the state store take precedence.

        Args:
            keys: keys of the documents; without any, those that the task and the loop of the job need.
        """
        earlier, wanted = VariablesAndXComs(self.name, self.prefix), keys or (*KEYS, BASE, OWNER, ATTEMPT)
        if not airflow_internals.has("AssetStateStoreAccessor"):
            return
        if not all(has_room(self.name, f"{self.prefix}{key}") for key in wanted):
            return  # Earlier versions of Airflow cannot run a job whose keys are too long for Variables.
        if not keys and earlier.get(ATTEMPT) is None:
            return
        for key, document in earlier.take(wanted):
            if self.store.get(key) is None:
                self.store.set(key, document)


class JobStateStore(Protocol):
    """The documents of one job in Airflow. All calls block."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the document of a key, or the default if the key does not exist."""

    def set(self, key: str, document: Any) -> None:
        """Set the document of a key."""

    def delete(self, key: str) -> None:
        """Delete the document of a key that no loop publishes, if it exists."""


class _AssetStore:
    """The keys of one job in the state store of an Asset."""

    def __init__(self, asset: JobAsset) -> None:
        self._prefix = asset.prefix
        self._accessor = airflow_internals.AssetStateStoreAccessor(name=asset.name)

    def __repr__(self) -> str:
        return f"{self._accessor} prefix={self._prefix!r}"

    def get(self, key: str, default: Any = None) -> Any:
        return self._accessor.get(f"{self._prefix}{key}", default)

    def set(self, key: str, document: Any) -> None:
        self._accessor.set(f"{self._prefix}{key}", document)

    def delete(self, key: str) -> None:
        self._accessor.delete(f"{self._prefix}{key}")


def job_asset(name: str) -> JobAsset:
    """Return the place of the job with this name."""
    key = JobKey.parse(name)
    if not key.is_of_fleet:
        return JobAsset(event_asset(name))
    return JobAsset(fleet_asset(key.dag_id, key.task_id), f"{key.job}{SEPARATOR}")


def event_asset(name: str) -> str:
    """Return the name of the Asset that gets an event when the job with this name finishes."""
    return f"{JOBS}{name}"


def fleet_asset(dag_id: str, task_id: str) -> str:
    """Return the name of the Asset of a mapped task."""
    return f"{FLEETS}{dag_id}/{task_id}"


def job_xcom(asset: str) -> str:
    """Return the key of the XCom in which a task keeps the name and the directory of its job of an Asset.

    Airflow empties the state store of the Asset if the task is deleted from its DAG file. The key contains the Asset, because keys have an index.
    """
    return asset.replace("://", "_", 1)[:MAX_KEY]


def job_name(job: str, task: TaskKey) -> str:
    """Return the name of the job that a task instance runs."""
    return JobKey.of(job, task.dag_id, task.task_id, task.map_index).name
