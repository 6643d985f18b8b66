"""The XComs and the other records of the task that runs a job: their keys, and the values of the XComs for a view of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive._airflow.internals import XCom
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.history.rescales import summarize
from airflow_adaptive._core.view import (
    JobView,
    TaskKey,
    decision_records,
    failure_record,
    newest_within,
    rescale_records,
    transition_record,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

BASE: Final = "job_directory"
"""Key of the URI of the folder that contains the job directory. Loops and drivers of the job use its directory there."""

OWNER: Final = "owner"
"""Key of the task that runs the job, as `<DAG id>/<task id>`."""

ATTEMPT: Final = "attempt"
"""Key of the token of the attempt that began to run the job last. It contains the task instance."""

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


def task_of(context: Context) -> TaskKey:
    """Return the task instance of a context."""
    ti = context["ti"]
    map_index = -1 if ti.map_index is None else ti.map_index
    return TaskKey(dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=map_index)


def push(task: TaskKey, key: str, value: Any) -> None:
    """Set an XCom of a task instance unless its DAG run was deleted; blocks."""
    with unless_deleted():
        XCom.set(key, value, **asdict(task))


@contextmanager
def unless_deleted() -> Iterator[None]:
    """Set no XCom of a DAG run that was deleted. The loop of its job outlives it until the driver has ended."""
    try:
        yield
    except AirflowRuntimeError as error:
        if (error.error.detail or {}).get("status_code") != HTTPStatus.NOT_FOUND:
            raise


def pull(task: TaskKey, key: str) -> Any:
    """Read an XCom of a task instance; None if the XCom does not exist. Blocks."""
    return XCom.get_one(key=key, **asdict(task))


def xcoms(view: JobView) -> Mapping[str, Any]:
    """Return the XComs for a view of a job: key -> value."""
    history = view.history
    transitions = history.transitions[-MOST_TRANSITIONS:]
    return {
        XCOM_STATE: view.status,
        XCOM_PARALLELISM: None if view.parallelism is None else dict(view.parallelism),
        XCOM_TRANSITIONS: newest_within(transitions, TRANSITION_BYTES, transition_record),
        "failures": newest_within(view.recent_failures, FAILURE_BYTES, failure_record),
        XCOM_DECISIONS: decision_records(history),
        "rescales": {"history": rescale_records(history), "summary": encode(summarize(history.rescales))},
        **{key: getattr(view.urls, name) or "" for key, name in LINKS.items()},
    }
