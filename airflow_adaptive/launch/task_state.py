"""Determines whether a task instance will run again."""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_adaptive.stores.task_xcoms import XCOM_ATTEMPT, TaskKey

END_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of a task instance that has ended (airflow-core, `TaskInstanceState`)."""


def is_attempt_over(task: TaskKey, attempt: str) -> bool:
    """Return whether the task of an attempt has ended or was deleted, and no other attempt owns the task. Blocks.

    Args:
        task: the task instance.
        attempt: token of the attempt.
    """
    return is_task_over(task) and owns(task, attempt)


def owns(task: TaskKey, attempt: str) -> bool:
    """Return whether no other attempt owns the task. Airflow deletes the XComs of a cleared task before its next attempt sets its own. Blocks."""
    return task.pull(XCOM_ATTEMPT) in (None, attempt)


def is_task_over(task: TaskKey) -> bool:
    """Return whether a task instance has ended or was deleted. Blocks."""
    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    states_in_run: Mapping[str, str | None] = states.get(task.run_id, {})
    mapped = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
    if mapped not in states_in_run:
        # `airflow db clean` also deletes deferred task instances. Airflow creates them again while the DAG run is active.
        return not RuntimeTaskInstance.get_dr_count(
            dag_id=task.dag_id, run_ids=[task.run_id], states=["queued", "running"]
        )
    return states_in_run[mapped] in END_STATES
