"""The Airflow Asset of a job, and the state of the job in the state store of this Asset.

Theory: an Asset of its own represents the job of a task. A mapped task runs a fleet of jobs, whose ids are known only at run time, but Airflow
registers the Assets of a task when it parses the DAG. One fleet Asset therefore represents all jobs of a mapped task, and the keys in its state
store begin with the id of the job. Names of these Assets are URIs with the scheme `adaptive`, so no Asset of a team has the same name.

Other tasks, the REST API and the command line call a job by its name (`ports.job_key`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import SEPARATOR, JobKey
from airflow_adaptive.stores.task_xcoms import TaskKey

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
        """The state store of the job; nothing is read yet."""
        return JobStateStore(self)


class JobStateStore:
    """The keys of one job in the state store of an Asset. All calls block."""

    def __init__(self, asset: JobAsset) -> None:
        """Read nothing yet."""
        self._prefix = asset.prefix
        self._accessor = AssetStateStoreAccessor(name=asset.name)

    def __repr__(self) -> str:
        return f"{self._accessor} prefix={self._prefix!r}"

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default if the key does not exist."""
        return self._accessor.get(f"{self._prefix}{key}", default)

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key."""
        self._accessor.set(f"{self._prefix}{key}", value)


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
