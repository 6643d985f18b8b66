"""To which task a job belongs, and in which folder the job was deployed last, in the asset state store.

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
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from airflow_adaptive._airflow.store.job_asset import JobStateStore, job_asset
from airflow_adaptive._airflow.store.task_xcoms import OWNER
from airflow_adaptive._core.ports import JobKey, OwnedJobError, UnavailableError

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
