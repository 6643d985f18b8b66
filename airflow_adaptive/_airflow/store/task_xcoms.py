"""The XComs of the task that runs a job: their keys, and their values for a view of the job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_adaptive._airflow.internals import XCom
from airflow_adaptive._core.scheduler.history.rescale_summary import summarize
from airflow_adaptive._core.scheduler.snapshot import encode
from airflow_adaptive._core.view import (
    JobView,
    decision_records,
    failure_record,
    newest_within,
    rescale_records,
    transition_record,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

XCOM_MASTER_URL = "spark_master_url"
XCOM_DRIVER_URL = "spark_driver_url"
XCOM_EXECUTORS_URL = "spark_executors_url"
XCOM_STDOUT_URL = "spark_driver_stdout_url"
XCOM_STDERR_URL = "spark_driver_stderr_url"
XCOM_STATE = "state"
XCOM_PARALLELISM = "parallelism"
XCOM_TRANSITIONS = "transitions"
XCOM_DECISIONS = "decisions"
XCOM_ATTEMPT = "attempt"

_ATTEMPT = re.compile(r"([^/]+)/([^/\[]+)(?:\[(\d+)\])?/(.+)/[^/]+", re.DOTALL)
"""Token of an attempt: the task instance (`str(TaskKey)`), and a random part. Only the id of a run may contain slashes."""

LINKS = {
    XCOM_MASTER_URL: "master",
    XCOM_DRIVER_URL: "driver",
    XCOM_EXECUTORS_URL: "executors",
    XCOM_STDOUT_URL: "stdout",
    XCOM_STDERR_URL: "stderr",
}
"""XCom keys of the extra links, with the names of the URLs in a view."""

MOST_TRANSITIONS = 50
"""Largest number of transitions in the XCom. The journal keeps all transitions."""

TRANSITION_BYTES = 16 << 10
FAILURE_BYTES = 12 << 10
"""With the limits of a view, all XComs of a job fit into 64 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """The task instance that owns the XComs of a job. Triggers receive the key as a dict."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def of(cls, context: Context) -> TaskKey:
        """Return the key of the task instance of a context."""
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        return cls(dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=map_index)

    @classmethod
    def of_attempt(cls, attempt: str) -> TaskKey | None:
        """Return the key of the task instance of an attempt, None for a text that is not the token of an attempt."""
        found = _ATTEMPT.fullmatch(attempt)
        if found is None:
            return None
        dag_id, task_id, index, run_id = found.groups()
        return cls(dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=-1 if index is None else int(index))

    @property
    def task(self) -> str:
        """The task without its run and its map index, which owns the job."""
        return f"{self.dag_id}/{self.task_id}"

    @property
    def run(self) -> str:
        """The task with its run."""
        return f"{self.task}/{self.run_id}"

    def __str__(self) -> str:
        index = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}/{self.task_id}{index}/{self.run_id}"

    def push(self, key: str, value: Any) -> None:
        """Set an XCom of the task; blocks."""
        XCom.set(key, value, **asdict(self))

    def pull(self, key: str) -> Any:
        """Read an XCom of the task; None if the XCom does not exist. Blocks."""
        return XCom.get_one(key=key, **asdict(self))


def xcoms(view: JobView) -> Mapping[str, Any]:
    """Return the XComs for a view of a job: key -> value."""
    history = view.history
    transitions = history.transitions[-MOST_TRANSITIONS:]
    return {
        XCOM_STATE: view.state if view.outcome is None else view.outcome.value,
        XCOM_PARALLELISM: None if view.parallelism is None else dict(view.parallelism),
        XCOM_TRANSITIONS: newest_within(transitions, TRANSITION_BYTES, transition_record),
        "failures": newest_within(view.recent_failures, FAILURE_BYTES, failure_record),
        XCOM_DECISIONS: decision_records(history),
        "rescales": {"history": rescale_records(history), "summary": encode(summarize(history.rescales))},
        **{key: getattr(view.urls, name) or "" for key, name in LINKS.items()},
    }
