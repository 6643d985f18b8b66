"""The operator of a simulated job: the real operator, without the staging of files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_adaptive._airflow.declaration.placement import RunningJob
from airflow_adaptive._airflow.store.job_asset import claim_name, record
from airflow_adaptive._airflow.store.task_xcoms import BASE, push
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask:
    """A task that runs a job.

    Attributes:
        spec: the job, without an attempt.
        base: URI of the folder of all job directories.
        conn_id: Airflow connection of the cluster.
        retries: number of retries.
        retry_delay_s: delay before a retry, in seconds.
    """

    spec: JobSpec
    base: str
    conn_id: str = "spark"
    retries: int = 0
    retry_delay_s: float = 10.0

    @property
    def job(self) -> str:
        """Id of the job."""
        return self.spec.graph.job

    @property
    def key(self) -> TaskKey:
        """Key of the only task instance."""
        return TaskKey(dag_id="fleet", task_id=self.job, run_id=f"run of {self.job}")


class JobOperator(AdaptiveSparkOperator):
    """The operator of a job that is staged already."""

    def __init__(self, *, task: JobTask, **options: Any) -> None:
        """Create the operator of a task. Airflow adds the options."""
        options.pop("task_id", None)
        super().__init__(
            task_id=task.job,
            job=task.job,
            application="job.py",
            job_directory=task.base,
            job_graph=task.spec.graph,
            conn_id=task.conn_id,
        )
        self.staged = task.spec

    def _spec(self, attempt: str, task: TaskKey, running: RunningJob | None = None) -> JobSpec:
        claim_name(self.job, task.task, None)
        record(self.job, BASE, self.job_directory)
        return replace(self.staged, attempt=attempt)


class WorkerTaskInstance:
    """The task instance in the context of the operator."""

    def __init__(self, key: TaskKey, try_number: int, max_tries: int) -> None:
        """Create the task instance of one try."""
        self.dag_id, self.task_id, self.run_id, self.map_index = key.dag_id, key.task_id, key.run_id, key.map_index
        self.try_number = try_number
        self.max_tries = max_tries
        self._key = key

    def xcom_push(self, key: str, value: Any) -> None:
        """Set an XCom of the task instance; blocks."""
        push(self._key, key, value)
