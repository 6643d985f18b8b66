"""Determines whether a task instance will run again."""

from __future__ import annotations

from enum import StrEnum

from airflow_adaptive._airflow.internals import RuntimeTaskInstance
from airflow_adaptive._airflow.store.job_owner import recorded_attempt
from airflow_adaptive._airflow.store.task_xcoms import XCOM_ATTEMPT, pull
from airflow_adaptive._core.view import TaskKey

END_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of a task instance that has ended (airflow-core, `TaskInstanceState`)."""


LEFT_THE_LIST = frozenset({"removed", "upstream_failed"})
"""States of a task instance of a mapped task that ended without an attempt, because its list has changed or is missing."""

NOT_IDENTIFIED = frozenset({None, "none", "scheduled", "queued", "restarting", "running"})
"""States of a task instance of which it is not known which job it runs. A task that begins to run has the XComs of its previous attempt for a moment."""


MAY_END_BEFORE_A_LOOP = NOT_IDENTIFIED | {"up_for_retry"}
"""States in which a task instance has no loop, and may end before it has one."""


class Fate(StrEnum):
    """What happens to the job of an attempt whose loop does not run."""

    CONTINUES = "CONTINUES"
    """A loop of this attempt or of a later one runs the job, or will run it."""
    OVER = "OVER"
    """No task runs the job any more."""
    UNKNOWN = "UNKNOWN"
    """A task instance that has not started yet may run the job."""


def fate_of(job: str, task: TaskKey, attempt: str, *, was_deferred: bool = False) -> Fate:
    """Return what happens to a job. Blocks.

    A task that was cleared may fail before it begins to run the job, for example because its DAG file is broken.

    The job of a mapped task belongs to the task instance that runs its id. The list of the task may change, and the DAG run is cleared: then the task
    instance with the map index of this attempt runs another job, and another one may run this job.

    Args:
        job: name of the job.
        task: task instance of the attempt.
        attempt: token of the attempt.
        was_deferred: whether the attempt ran in a trigger, so that a task that runs now is a later attempt, unless the trigger fired.
    """
    fate = _fate_by_state(task, attempt, was_deferred) if task.map_index < 0 else _fate_by_indexes(task, attempt)
    # An attempt records itself before it sets its XComs, so this read comes last.
    is_continued = fate is not Fate.CONTINUES and recorded_attempt(job) not in (None, attempt)
    return Fate.CONTINUES if is_continued else fate


def _fate_by_state(task: TaskKey, attempt: str, was_deferred: bool) -> Fate:
    """Return what happens to the job of a task that is not mapped."""
    states = _states(task, task.map_index)
    if task.task_id not in states:  # `airflow db clean` deletes task instances, and Airflow creates them again.
        return Fate.UNKNOWN if _is_run_active(task) else Fate.OVER
    state = states[task.task_id]
    if state in END_STATES:
        return Fate.OVER if owns(task, attempt) else Fate.CONTINUES
    if state == "running" and not was_deferred and pull(task, XCOM_ATTEMPT) == attempt:
        return Fate.CONTINUES  # The attempt itself, whose loop is in its worker.
    return Fate.UNKNOWN if state in MAY_END_BEFORE_A_LOOP else Fate.CONTINUES


def _fate_by_indexes(task: TaskKey, attempt: str) -> Fate:
    """Return what happens to the job of a mapped task, from the task instances of the run."""
    states = _states(task, None)
    if not states:
        return Fate.UNKNOWN if _is_run_active(task) else Fate.OVER
    own = states.pop(f"{task.task_id}_{task.map_index}", "removed")
    if own in MAY_END_BEFORE_A_LOOP:
        return Fate.UNKNOWN
    if own not in LEFT_THE_LIST:
        owner = pull(task, XCOM_ATTEMPT)
        if owner in (None, attempt):
            return Fate.OVER if own in END_STATES else Fate.CONTINUES
    return Fate.OVER if NOT_IDENTIFIED.isdisjoint(states.values()) else Fate.UNKNOWN


def owns(task: TaskKey, attempt: str) -> bool:
    """Return whether no other attempt owns the task. Airflow deletes the XComs of a cleared task before its next attempt sets its own. Blocks."""
    return pull(task, XCOM_ATTEMPT) in (None, attempt)


def is_task_over(task: TaskKey) -> bool:
    """Return whether a task instance has ended or was deleted. Blocks."""
    states = _states(task, task.map_index)
    mapped = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
    if mapped not in states:
        # `airflow db clean` also deletes deferred task instances. Airflow creates them again while the DAG run is active.
        return not _is_run_active(task)
    return states[mapped] in END_STATES


def _states(task: TaskKey, map_index: int | None) -> dict[str, str | None]:
    """Return the states of the instances of a task in its run, of one map index or of all; blocks."""
    found = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=map_index
    )
    return dict(found.get(task.run_id, {}))


def _is_run_active(task: TaskKey) -> bool:
    count = RuntimeTaskInstance.get_dr_count(dag_id=task.dag_id, run_ids=[task.run_id], states=["queued", "running"])
    return bool(count)
