"""The Airflow Asset of a job, and the documents of the job: in the state store of this Asset, or before Airflow 3.3 in Variables and XComs.

Theory: an Asset of its own represents the job of a task. A mapped task runs a fleet of jobs, whose ids are known only at run time, but Airflow
registers the Assets of a task when it parses the DAG. One fleet Asset therefore represents all jobs of a mapped task, and the keys in its state
store begin with the id of the job. Names of these Assets are URIs with the scheme `adaptive`, so no Asset of a team has the same name.

Other tasks, the REST API and the command line call a job by its name (`_core.ports`).

Theory: the name of the job of a task is its id, and tasks of several DAGs can have the same id. The first task that runs the job claims the name, and
any other task is refused. The state store has no conditional write, so a claim passes several gates, each task in an order of its own: it reads a
gate, gives up if another task has passed the gate, and writes its task there (the conflict detector of Aspnes and Ellen). Any two tasks pass some two
gates in opposite orders. The first of them that writes to one of these two keeps that gate: the other task comes there only after its other gate, and
gives up. So only claims of one task pass all gates, and only they write the owner. The others wait for that owner, and fail with an error that a retry
corrects if all claims gave up. The gates are deleted after the owner is written, so a claim reads the owner again after it has passed them. Claims of one task, such as two runs of a DAG that start at the same moment, never stop each other. The name of the job
of a mapped task contains the task, so its owner needs no record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Protocol

from airflow_adaptive._airflow import internals as airflow_internals
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, BASE, OWNER
from airflow_adaptive._airflow.store.variables_and_xcoms import VariablesAndXComs, has_room
from airflow_adaptive._core.ports import SEPARATOR, JobKey, OwnedJobError, UnavailableError
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


GATES: Final = tuple(f"owner_gate_{number}" for number in range(8))
"""Keys of the task that passed a gate last, and of the ISO time. There are 40,320 orders of them."""

MAX_CLAIM: Final = timedelta(minutes=1)
"""Longest time of a claim. A claim that takes longer fails."""

GATE_LIFETIME: Final = 2 * MAX_CLAIM
"""Time after which the claim of a task that died does not count any more."""

POLLS_OF_OWNER: Final = 20

POLL_INTERVAL_S: Final = 0.5
"""Interval between the reads with which a task waits for the owner that another claim writes, in seconds."""


def recorded(job: str, key: str) -> str | None:
    """Return what a task recorded about a job, None before its first run; blocks.

    Args:
        job: name of the job.
        key: `BASE` for the URI of the folder in which the job was deployed last, `ATTEMPT` for the attempt that began to run it last.
    """
    value = job_asset(job).store.get(key)
    return value if isinstance(value, str) else None


def record(job: str, key: str, value: str) -> None:
    """Record what `recorded` returns; blocks."""
    job_asset(job).store.set(key, value)


def require_owner(job: str, task: str, moved_from: str | None) -> str | None:
    """Refuse a job whose name belongs to another task; blocks.

    Returns:
        The recorded owner; None without one.

    Raises:
        OwnedJobError: the name belongs to another task.
    """
    if JobKey.parse(job).is_of_fleet:
        return task
    owner = job_asset(job).store.get(OWNER)
    if owner in (None, task, moved_from):
        return None if owner is None else str(owner)
    raise OwnedJobError(job, str(owner), task, f"key {OWNER!r} of Asset {job_asset(job).name}")


def claim_name(job: str, task: str, moved_from: str | None, pause: Callable[[float], object] = time.sleep) -> None:
    """Let a job belong to a task, unless it belongs to another task; blocks.

    Raises:
        OwnedJobError: the name belongs to another task.
        UnavailableError: another claim of the name began at the same moment, and has not ended; a retry decides.
    """
    owner, store = require_owner(job, task, moved_from), job_asset(job).store
    is_new = owner is None
    if owner is None:
        is_first = _is_first(store, task)
        owner = require_owner(job, task, moved_from) if is_first else _written_owner(job, task, moved_from, pause)
    if owner != task:
        store.set(OWNER, task)
    if is_new:
        for gate in GATES:
            store.delete(gate)


def _written_owner(job: str, task: str, moved_from: str | None, pause: Callable[[float], object]) -> str:
    """Return the owner that another claim writes. Arguments and errors as for `claim_name`."""
    for _ in range(POLLS_OF_OWNER):
        if (owner := require_owner(job, task, moved_from)) is not None:
            return owner
        pause(POLL_INTERVAL_S)
    raise UnavailableError(f"another run or task claims job {job!r} at the same moment: clear the task")


def _is_first(store: JobStateStore, task: str) -> bool:
    """Return whether no other task claims a name without an owner at the same moment."""
    began_at = datetime.now(UTC)
    for gate in sorted(GATES, key=lambda gate: sha256(f"{gate} {task}".encode()).digest()):
        if _is_closed(store.get(gate), task, began_at):
            return False
        store.set(gate, {"task": task, "at": datetime.now(UTC).isoformat()})
    return datetime.now(UTC) - began_at < MAX_CLAIM


def _is_closed(gate: Any, task: str, now: datetime) -> bool:
    """Return whether another task passed the gate a short time ago. The state store can contain anything."""
    try:
        return bool(gate["task"] != task) and now - datetime.fromisoformat(gate["at"]) < GATE_LIFETIME
    except (LookupError, TypeError, ValueError):
        return False
