"""The operator that runs a Spark Structured Streaming job under the adaptive scheduler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast
from uuid import uuid4

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_adaptive.declaration import validation
from airflow_adaptive.declaration.declared_job import DeclaredJob
from airflow_adaptive.launch.task_result import result
from airflow_adaptive.links.spark import ALL_LINKS
from airflow_adaptive.ports import DesiredState, ForeignDirectoryError, JobDirectoryError, PortError
from airflow_adaptive.runtime.journal.journal import SupersededError
from airflow_adaptive.runtime.loop import RunLimits
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler.config.options import OPTIONS
from airflow_adaptive.scheduler.errors import AdaptiveSchedulerError
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.snapshot import decode, encode
from airflow_adaptive.scheduler.state import Outcome
from airflow_adaptive.stores.asset_store import LINKS, XCOM_ATTEMPT, TaskKey
from airflow_adaptive.stores.control_requests import (
    request_desired_state,
    requested_desired_state,
    withdraw_desired_state,
)
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger, cancel_job, kill_driver, run_loop, superseded

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
    from airflow_adaptive.autoscaling.combined import CombinedPolicy
    from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
    from airflow_adaptive.declaration.batch import BatchSubmission

KILL_TIMEOUT = timedelta(seconds=60)
"""Longest that `on_kill` on a worker waits for the job's end."""


class AdaptiveSparkOperator(BaseOperator):
    """Run a streaming job with a range of parallelism instead of a number.

    The job starts with the slots that the cluster has, rescales itself when slots come or go, restarts itself with backoff
    after failures, and explains itself in the XComs `state`, `parallelism`, `transitions` and `failures`. While it runs, no
    worker slot is held.

    Args:
        job: id of the job; also the name of the Airflow Asset that stands for it. Fixed when the DAG is parsed.
        application: path of the PySpark script on the Airflow side; it calls `AdaptiveJob(...).run()`, or starts its
            queries itself. (templated)
        job_directory: URI of the folder of all job directories, readable by Airflow and by Spark: `s3://conn@bucket/jobs`,
            `file:///shared/jobs`. Log, checkpoints and staged code of the job are in its folder `job`. (templated)
        parallelism: lower and upper bound of a job without a graph; a single number for both.
        max_parallelism: number of state partitions of a job without a graph; the upper bound by default. It is fixed by
            the first run's checkpoint.
        job_graph: vertices with bounds of their own, instead of `parallelism` and `max_parallelism`.
        job_type: "streaming"; a job that is declared "batch", here or by its graph, is no adaptive one: its script, an
            ordinary PySpark script, is submitted with spark-submit, with a warning.
        conn_id: Airflow connection of type `spark`. Secret Spark properties belong into its extra field `conf`. (templated)
        application_args: arguments of the script. (templated)
        py_files: paths of extra modules and zips on the Airflow side. (templated)
        conf: Spark properties without secrets. (templated)
        env: environment of the driver process, without secrets. (templated)
        driver_cores: cores of the driver.
        driver_memory: heap of the driver, "1g" say.
        executor_cores: cores of an executor; each is a slot.
        executor_memory: heap of an executor.
        rescale_policy: changes the job's bounds by itself, by a calendar, by its load, or by both: a `ScheduledPolicy`, a
            `LoadPolicy` or a `CombinedPolicy` (`airflow_adaptive.autoscaling`). What a person sets wins over it.
        on_rescale_callback: told of each rescale, and of each restart after a failure, while the job runs:
            `AsyncCallback(SmtpNotifier, kwargs={"to": ..., "subject": "{{ message }}"})`, say. It runs where the loop runs, so
            it is importable there, and without secrets. Templates know `message`, `job`, `rescale`, `dag_id`, `task_id`, `run_id`.
        deferrable: run the loop in the triggerer; else in this worker.
        kwargs: the scheduler's options by our names (see `OPTIONS`) or Flink's (`**{"restart-strategy.type": "none"}`), and
            those of every Airflow operator.
    """

    template_fields: Sequence[str] = (
        "application",
        "application_args",
        "job_directory",
        "conn_id",
        "py_files",
        "conf",
        "env",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "env": "json"}
    operator_extra_links = ALL_LINKS

    def __init__(
        self,
        *,
        job: str,
        application: str,
        job_directory: str,
        parallelism: int | tuple[int, int] = 1,
        max_parallelism: int | None = None,
        job_graph: JobGraph | None = None,
        job_type: str = "streaming",
        conn_id: str = "spark_default",
        application_args: Sequence[str] = (),
        py_files: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        driver_cores: int = 1,
        driver_memory: str = "1g",
        executor_cores: int = 1,
        executor_memory: str = "1g",
        rescale_policy: ScheduledPolicy | LoadPolicy | CombinedPolicy | None = None,
        on_rescale_callback: AsyncCallback | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        """Only assign; everything is checked in `execute`, when it is rendered."""
        defaults = kwargs.get("default_args") or {}
        options = {name: value for name, value in defaults.items() if _is_option(name)}
        options |= {name: kwargs.pop(name) for name in [*kwargs] if _is_option(name)}
        asset = Asset(name=job)
        validation.known_parameters(AdaptiveSparkOperator, kwargs, OPTIONS)
        inlets, outlets = _several(kwargs.pop("inlets", None)), _several(kwargs.pop("outlets", None))
        super().__init__(inlets=[*inlets, asset], outlets=[*outlets, asset], **kwargs)
        self.job = job
        self.application = application
        self.job_directory = job_directory
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.job_graph = job_graph
        self.job_type = job_type
        self.conn_id = conn_id
        self.application_args = application_args
        self.py_files = py_files
        self.conf = conf
        self.env = env
        self.driver_cores = driver_cores
        self.driver_memory = driver_memory
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.rescale_policy = rescale_policy
        self.on_rescale_callback = on_rescale_callback
        self.deferrable = deferrable
        self.options = options
        self._running: tuple[JobSpec, TaskKey] | None = None
        self._batch: BatchSubmission | None = None
        self._event: Mapping[str, Any] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Stage the job and hand it to the trigger (or run it here); a job that runs already is adopted.

        A declared batch is submitted with spark-submit and runs beside this task.

        Returns:
            The outcome and the numbers of restarts and rescales.

        Raises:
            AirflowFailException: the job as declared can't run; says everything that is wrong. Or: it failed for good,
                was canceled, or was taken over by another run.
            AirflowException: it failed, or could not be looked after: a retry may help.
            AirflowTaskTimeout: `execution_timeout` has passed, and the job was canceled.
        """
        if self._declared.is_batch:
            return self._run_batch()
        task = _task_key(context)
        cancel_at = None if self.execution_timeout is None else datetime.now(UTC) + self.execution_timeout
        spec = self._ask_to_run(self._spec(attempt=f"{task.dag_id}/{task.task_id}/{task.run_id}/{uuid4().hex}"))
        context["ti"].xcom_push(XCOM_ATTEMPT, spec.attempt)
        for link in LINKS:
            context["ti"].xcom_push(link, "")  # nothing to lead to yet
        if self.deferrable:
            self._defer(spec, task, cancel_at)
        return self._end(context, self._run_here(spec, task, cancel_at))

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """The trigger fired: the job is over, or the trigger's lifetime is and the job is deferred anew, with today's code."""
        if event["status"] == "recycle":
            cancel_at = None if event["cancel_at"] is None else datetime.fromisoformat(event["cancel_at"])
            self._defer(self._newest_spec(event), _task_key(context), cancel_at)
        return self._end(context, event)

    def on_kill(self) -> None:
        """Really stop the job: take it over from the loop that this signal interrupts, and cancel it; kill a batch."""
        if self._batch is not None:
            self._batch.kill()
        if self._running is None:
            return
        spec, task = self._running
        cancel = cancel_job(spec, self.conn_id, self.job_directory, task)
        # The interrupted loop holds this thread's event loop, so the cancellation needs a thread of its own.
        killer = threading.Thread(target=asyncio.run, args=(cancel,), daemon=True)
        killer.start()
        killer.join(KILL_TIMEOUT.total_seconds())

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """The job for Airflow's OpenLineage provider; only that calls it."""
        from airflow_adaptive.declaration.lineage import lineage  # noqa: PLC0415  the provider is optional

        return lineage(self._declared, self._event)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The same with the job's end."""
        return self.get_openlineage_facets_on_start()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The same with the job's end, and why it came."""
        return self.get_openlineage_facets_on_start()

    def _ask_to_run(self, spec: JobSpec) -> JobSpec:
        """Ask the job to run; not if an earlier try of this task died before it told how the job followed a wish to stop.

        Whoever wished that was promised it: this try goes on with both, wish and attempt.
        """
        if requested_desired_state(self.job) not in (None, DesiredState.RUNNING):
            with self._refusals():
                last = asyncio.run(self._declared.last_attempt())
            if last is not None and _task_of(last) == _task_of(spec.attempt):
                return replace(spec, attempt=last)
        request_desired_state(self.job, DesiredState.RUNNING)
        return spec

    def _newest_spec(self, event: Mapping[str, Any]) -> JobSpec:
        """The job as it is deployed now; as it was, if that can't run: it must not cost a running job its loop."""
        try:
            return self._spec(event["attempt"], begun=True)
        except AirflowException as error:
            self.log.warning("The job runs on as it was deployed before: %s", error)
            return cast(JobSpec, decode(JobSpec, event["spec"]))

    def _run_batch(self) -> dict[str, Any]:
        """Leave the job to spark-submit: the adaptive scheduler runs streaming jobs only (Flink's `AdaptiveScheduler`)."""
        from airflow_adaptive.declaration.batch import BatchSubmission  # noqa: PLC0415  imports much that no other job needs

        with self._refusals():
            batch = self._declared.batch()
        self.log.warning(
            "job %r is declared BATCH: the adaptive scheduler runs streaming jobs only; it is submitted with spark-submit,"
            " as by SparkSubmitOperator, on at most %s core(s). Options of the scheduler have no effect: %s",
            *(self.job, batch.cores, ", ".join(self.options) or "none is set"),
        )
        self._batch = BatchSubmission(batch)
        self._batch.run()
        self._event = {"outcome": Outcome.FINISHED.value, "restarts": 0, "rescales": 0}
        return dict(self._event)

    @property
    def _declared(self) -> DeclaredJob:
        """The job as declared, its templates rendered."""
        return DeclaredJob(**{field.name: getattr(self, field.name) for field in fields(DeclaredJob)})

    def _spec(self, attempt: str, *, begun: bool = False) -> JobSpec:
        """The job as declared now; `begun` if it has a log, which must then be there."""
        with self._refusals():
            return asyncio.run(self._declared.stage(attempt, begun=begun))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What is wrong with the job as declared is Airflow's to tell; only what the world does may be retried."""
        try:
            yield
        except ForeignDirectoryError as error:
            raise AirflowFailException(f"job {self.job!r}: {error}") from error
        except JobDirectoryError as error:
            raise AirflowException(f"job {self.job!r}: {error}") from error
        except (PortError, AdaptiveSchedulerError, ValueError) as error:
            raise AirflowFailException(f"job {self.job!r}: {error}") from error

    def _defer(self, spec: JobSpec, task: TaskKey, cancel_at: datetime | None) -> NoReturn:
        trigger = AdaptiveJobTrigger(
            spec=encode(spec),
            conn_id=self.conn_id,
            base=self.job_directory,
            task_key=asdict(task),
            cancel_at=None if cancel_at is None else cancel_at.isoformat(),
            on_rescale=self._on_rescale,
        )
        self.defer(trigger=trigger, method_name="resume")

    @property
    def _on_rescale(self) -> dict[str, Any] | None:
        """The callback as plain data, which is all that reaches the triggerer."""
        callback = self.on_rescale_callback
        return None if callback is None else {"path": str(callback.path), "kwargs": callback.kwargs}

    def _run_here(self, spec: JobSpec, task: TaskKey, cancel_at: datetime | None) -> dict[str, Any]:
        self._running = (spec, task)
        try:
            leave = RunLimits(cancel_at=cancel_at)
            event = asyncio.run(run_loop(spec, self.conn_id, self.job_directory, task, leave, self._on_rescale))
        except SupersededError as error:
            event = superseded(error)
        # Not in a `finally`: Airflow calls `on_kill` after the exception of an `execution_timeout`.
        self._running = None
        return event

    def _end(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """The task's result, or its failure: one for good leaves no driver without anybody who looks after it."""
        self._event = event
        ti, driver = context["ti"], event.get("driver")
        if driver is not None and ti.try_number > ti.max_tries:  # else the next try goes on with it
            self._kill(driver)
        if event["status"] == "finished":
            withdraw_desired_state(self.job)  # its end is told: whoever clears the task wants the job to run
        return result(self.job, event, self.execution_timeout)

    def _kill(self, driver: str) -> None:
        """Have a driver killed that can't be told to stop; whoever clears the task goes on from its checkpoint."""
        try:
            asyncio.run(kill_driver(self.conn_id, driver))
        except (PortError, ValueError) as error:
            self.log.error(  # noqa: TRY400  where it was raised tells nobody anything
                "%s of job %r may run on: have it killed on its master. %s", driver, self.job, error
            )
        else:
            self.log.warning("%s of job %r was killed: no try is left that would look after it", driver, self.job)


def _task_key(context: Context) -> TaskKey:
    ti = context["ti"]
    map_index = -1 if ti.map_index is None else ti.map_index
    return TaskKey(dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=map_index)


def _task_of(attempt: str) -> str:
    """The task instance that made an attempt."""
    return attempt.rpartition("/")[0]


def _is_option(name: str) -> bool:
    """Ours are in the table; a parameter with a dot can only be Flink's."""
    return name in OPTIONS or "." in name


def _several(assets: Any) -> list[Any]:
    """Inlets or outlets as a list; Airflow takes a single one, too."""
    if assets is None:
        return []
    return list(assets) if isinstance(assets, list | tuple) else [assets]
