"""The operator that runs a Spark Structured Streaming job under the adaptive scheduler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Unpack, cast
from uuid import uuid4

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRuntimeError
from jinja2.nativetypes import NativeEnvironment

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.declaration.declared_job import (
    DeclaredJob,
    is_parsing,
    native,
    rendered,
    require_possible,
)
from airflow_adaptive._airflow.declaration.job_assets import FleetPartial, assets_of_task, require_only_task
from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.declaration.operator_arguments import (
    REQUIRED,
    OperatorArguments,
    accepts_options,
    is_batch,
    is_deferral_off,
    parameters_of,
    pop_options,
)
from airflow_adaptive._airflow.declaration.placement import RunningJob
from airflow_adaptive._airflow.declaration.spark_submit import (
    INSTEAD,
    PARENT,
    TRANSPORT,
    Dependencies,
    Items,
    is_on,
    with_lineage,
)
from airflow_adaptive._airflow.internals import AirflowException, AsyncCallback, redact
from airflow_adaptive._airflow.process.abandoned_jobs import canceling_abandoned_jobs
from airflow_adaptive._airflow.process.job_loop import cancel_until_ended, kill_driver, run_job_loop
from airflow_adaptive._airflow.process.loop_events import (
    OnSuspend,
    deployed_spec,
    end_summary,
    superseded_event,
    task_result,
)
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob
from airflow_adaptive._airflow.store.control_requests import begin_job, end_job, read_desired_state
from airflow_adaptive._airflow.store.job_asset import job_asset, job_name, job_xcom, record, recorded
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, BASE, LINKS, XCOM_ATTEMPT, XCOM_STATE, task_of
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.deployment import Declaration, declaration, digest
from airflow_adaptive._core.failure_code import with_code
from airflow_adaptive._core.ports import JobDirectoryError, PortError
from airflow_adaptive._core.requirements.control_requests import (
    DesiredState,
    decode_desired_state,
    is_job_running,
    retried_task,
)
from airflow_adaptive._core.scheduler.config.options import OPTIONS
from airflow_adaptive._core.scheduler.config.parsing import format_duration
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.links.spark import ALL_LINKS
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from jinja2 import Environment

    from airflow_adaptive._airflow.declaration.batch import BatchSubmission
    from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
    from airflow_adaptive.autoscaling.combined import CombinedPolicy
    from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy

KUBERNETES = tuple(field.name for field in fields(KubernetesParameters))
"""Names of the parameters that apply on Kubernetes only."""

DEPENDENCIES = tuple(field.name for field in fields(Dependencies))
"""Names of the parameters for what the script needs beside itself."""

JSON_FIELDS = (
    *("conf", "env_vars", "node_selector", "spot_nodes", "tolerations", "labels", "annotations"),
    *("driver_pod_template", "executor_pod_template"),
)
"""Names of the parameters that Airflow's page of rendered templates shows as JSON."""

UNKNOWN_DRIVER = (
    "a driver of the job may still run, without a control loop; the next run or try that can read the journal adopts it"
)
"""What happened to the driver of a loop that could not read the journal."""

KILL_TIMEOUT = timedelta(seconds=60)
"""Longest time that `on_kill` on a worker waits for the end of the job."""


class AdaptiveSparkOperator(BaseOperator):
    """Run a Spark Structured Streaming job with a range of parallelism.

    The job starts with the slots that the cluster has, rescales when slots appear or disappear, and restarts with backoff after
    failures. Only a job that finishes emits Asset events. A deferred task occupies no worker slot. A mapped task,
    `partial(...).expand(job=[...])`, runs a fleet of jobs. While a job runs, its task has these XComs: `state`, `parallelism`,
    `transitions`, `decisions`, `rescales`, `failures`, `attempt`, and the URLs of the extra links (`spark_master_url`,
    `spark_driver_url`, `spark_executors_url`, `spark_driver_stdout_url`, `spark_driver_stderr_url`).

    Args:
        job: id of the job. The Airflow Asset `adaptive://job/<id>` represents the job. The DAG file determines the id; it is not templated.
        application: path or object store URI of the PySpark script, readable by Airflow. The script calls `AdaptiveJob(...).run()`, or starts its
            queries itself. (templated)
        job_directory: URI of the folder of all job directories, accessible to Airflow and to Spark: `s3://conn@bucket/jobs`,
            `file:///shared/jobs`. The folder `<job>` in it, or `<DAG id>~<task id>/<job>` for a job of a mapped task, contains the journal, the
            checkpoints and the staged code. The first task that runs the job owns the folder, and other tasks are refused. (templated)
        moved_from: task that owned the job before, as `<DAG id>/<task id>`, if you have renamed the task or its DAG, or if you move the job to
            this task. Without effect for a job of a mapped task.
        parallelism: lower and upper bound of a job without a graph, in slots; a single number sets both. Required unless the job has a graph
            or is a batch. (templated)
        max_parallelism: number of state partitions of a job without a graph; by default the upper bound. Another number
            repartitions the state of a job with a checkpoint, on Spark 4.2 and later. (templated)
        job_graph: vertices with bounds of their own, instead of `parallelism` and `max_parallelism`.
        job_type: "streaming" or "batch". The adaptive scheduler does not run a job that is declared "batch", here or in its graph.
            The operator submits its script with spark-submit, and logs a warning.
        priority: priority of the job among all adaptive jobs on the cluster. If the free slots are not sufficient for all jobs, a job
            with a higher number receives slots first. A job never gives slots up for a job with a higher priority.
        conn_id: Airflow connection of type `adaptive_spark` or `spark`. Its host selects the cluster manager: `spark://` or `k8s://`. Its extra
            fields `secret-conf` and `secret-env` are the places for secret Spark properties and secret environment variables. (templated)
        kubernetes_conn_id: Airflow connection of type `kubernetes` with the credentials of a Kubernetes cluster; other cluster managers do
            not use it. (templated)
        namespace: Kubernetes namespace instead of the one in the connection `conn_id`. (templated)
        kafka_conn_id: Airflow connection of type `kafka` of the brokers that the job reads. The triggerer then measures the lag also while no
            driver runs. Needs the extra `airflow-adaptive[kafka]`. (templated)
        application_args: arguments of the script, without secrets. (templated)
        conf: Spark properties, without secrets. (templated)
        properties_file: path of a file with Spark properties, readable by Airflow. `conf` takes precedence. (templated)
        env_vars: environment of the driver process, without secrets. (templated)
        jars: jars for driver and executors. This parameter and the next six are lists, or text with commas. A path is a file where Airflow runs,
            which is staged; Spark itself reads a URI such as `s3a://bucket/file.jar` or `local:///opt/file.jar`. (templated)
        packages: Maven packages, as `group:artifact:version`. The driver resolves the packages when it starts. (templated)
        exclude_packages: dependencies of the packages to leave out, as `group:artifact`. (templated)
        repositories: Maven repositories in addition to the central repository. (templated)
        files: files for the working directories of driver and executors (`SparkFiles.get`). (templated)
        archives: archives that Spark unpacks there. `environment.tar.gz#environment` names the folder. (templated)
        py_files: additional Python modules and zip files. (templated)
        driver_class_path: additional class path of the driver, with paths on the machine of the driver. (templated)
        name: name of the Spark application, by default the id of the job. (templated)
        openlineage_inject_parent_job_info: whether Spark's own OpenLineage events name the run of this task as their parent. By default
            `[openlineage] spark_inject_parent_job_info`.
        openlineage_inject_transport_info: whether Spark sends its OpenLineage events where Airflow sends its own. By default `[openlineage]
            spark_inject_transport_info`. Secrets of the transport belong into the extra field `secret-conf` of the connection.
        not_secret: names in `conf`, `env_vars` and `application_args` that look like names of secrets, and whose values are not secret.
        image: container image with Spark, of driver and executors. This parameter and the nine following parameters apply on Kubernetes only.
            Volumes and all other settings are Spark properties in `conf`. (templated)
        service_account_name: service account of the driver. (templated)
        driver_pod_template: pod template of the driver: a mapping, or the path of a YAML file, readable by Airflow. (templated)
        executor_pod_template: pod template of the executors, likewise. (templated)
        node_selector: labels of the nodes on which driver and executors may run. (templated)
        tolerations: tolerations of driver and executors. (templated)
        labels: labels of the pods of driver and executors. (templated)
        annotations: annotations of the pods of driver and executors. (templated)
        priority_class_name: priority class of driver and executors. (templated)
        image_pull_secrets: names of Secrets with the credentials of the image registry. (templated)
        spot_nodes: labels of nodes that can end at short notice: no driver runs on a node that has one of them. (templated)
        driver_cores: cores of the driver. (templated)
        driver_memory: heap of the driver, for example "1g". (templated)
        executor_cores: cores of an executor. Each core is a slot. (templated)
        executor_memory: heap of an executor. (templated)
        rescale_policy: policy that changes the bounds of the job by a calendar, by the load or by both: a `ScheduledPolicy`, a
            `LoadPolicy` or a `CombinedPolicy` (`airflow_adaptive.autoscaling`). The override of a user takes precedence. (templated;
            a template renders the JSON text of `policy_to_text`)
        on_rescale_callback: callback for each rescale, and for each restart after a failure, for example
            `AsyncCallback(SmtpNotifier, kwargs={"to": ..., "subject": "{{ message }}"})`. The callback runs in the process of the
            control loop, so it must be importable there. Its arguments must not contain secrets. Templates can use `message`, `job`,
            `rescale`, `dag_id`, `task_id` and `run_id`.
        on_suspend: state of the task after the job was suspended: "success", "skip" or "fail". In each case you can resume the job.
        deferrable: run the control loop in the triggerer instead of in the worker. By default true, unless the
            administrator has set `[operators] default_deferrable` to false (ADR 24).
        kwargs: options of the scheduler, by their own names (docs/reference/options.md) or by Flink's (`**{"restart-strategy.type": "none"}`),
            and the parameters of every Airflow operator.

    Attributes:
        has_links: whether the XComs of the extra links exist.
    """

    template_fields: Sequence[str] = (
        "application",
        "application_args",
        "job_directory",
        "conn_id",
        "kubernetes_conn_id",
        "namespace",
        "kafka_conn_id",
        "conf",
        "properties_file",
        "env_vars",
        *DEPENDENCIES,
        *("parallelism", "max_parallelism", "rescale_policy"),
        *("driver_cores", "driver_memory", "executor_cores", "executor_memory"),
        *KUBERNETES,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(JSON_FIELDS, "json")
    operator_extra_links = ALL_LINKS

    @accepts_options
    def __init__(  # noqa: PLR0915  An assignment for each parameter.
        self,
        *,
        job: str,
        application: str | PurePath,
        job_directory: str,
        moved_from: str | None = None,
        parallelism: int | tuple[int, int] | str | None = None,
        max_parallelism: int | str | None = None,
        job_graph: JobGraph | None = None,
        job_type: str = "streaming",
        priority: int = 1,
        conn_id: str = "spark_default",
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
        kafka_conn_id: str | None = None,
        application_args: Sequence[str] | None = None,
        conf: Mapping[str, str] | None = None,
        properties_file: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        jars: Items = None,
        packages: Items = None,
        exclude_packages: Items = None,
        repositories: Items = None,
        files: Items = None,
        archives: Items = None,
        py_files: Items = None,
        driver_class_path: str | None = None,
        name: str | None = None,
        openlineage_inject_parent_job_info: bool | None = None,
        openlineage_inject_transport_info: bool | None = None,
        not_secret: Sequence[str] = (),
        image: str | None = None,
        service_account_name: str | None = None,
        driver_pod_template: str | Mapping[str, Any] | None = None,
        executor_pod_template: str | Mapping[str, Any] | None = None,
        node_selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Any] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        priority_class_name: str | None = None,
        image_pull_secrets: Sequence[Any] | None = None,
        spot_nodes: Mapping[str, str] | None = None,
        driver_cores: int | str = 1,
        driver_memory: str = "1g",
        executor_cores: int | str = 1,
        executor_memory: str = "1g",
        rescale_policy: ScheduledPolicy | LoadPolicy | CombinedPolicy | str | None = None,
        on_rescale_callback: AsyncCallback | None = None,
        on_suspend: str = "success",
        deferrable: bool | None = None,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        arguments = cast(dict[str, Any], kwargs)
        options = pop_options(arguments)
        is_parsed = is_parsing(self)
        given: dict[str, object] = {"job": job, "application": application, "job_directory": job_directory}
        if is_parsed and job_graph is None and not is_batch(job_type):
            given["parallelism"] = parallelism
        missing = {name: REQUIRED[name] for name, value in given.items() if value is None}
        validation.known_parameters(AdaptiveSparkOperator, arguments, OPTIONS, INSTEAD, missing)
        validation.storable_name(job)
        inlets, outlets = assets_of_task(job, arguments.pop("inlets", None), arguments.pop("outlets", None))
        super().__init__(inlets=inlets, outlets=outlets, **arguments)
        self.job = job
        self.application = application
        self.job_directory = job_directory
        self.moved_from = moved_from
        self.parallelism = 1 if parallelism is None else parallelism
        self.max_parallelism = max_parallelism
        self.job_graph = job_graph
        self.job_type = job_type
        self.priority = priority
        self.conn_id = conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.kafka_conn_id = kafka_conn_id
        self.application_args = application_args
        self.conf = conf
        self.properties_file = properties_file
        self.env_vars = env_vars
        self.jars = jars
        self.packages = packages
        self.exclude_packages = exclude_packages
        self.repositories = repositories
        self.files = files
        self.archives = archives
        self.py_files = py_files
        self.driver_class_path = driver_class_path
        self.name = name
        self.openlineage_inject_parent_job_info = openlineage_inject_parent_job_info
        self.openlineage_inject_transport_info = openlineage_inject_transport_info
        self.not_secret = not_secret
        self.image = image
        self.service_account_name = service_account_name
        self.driver_pod_template = driver_pod_template
        self.executor_pod_template = executor_pod_template
        self.node_selector = node_selector
        self.tolerations = tolerations
        self.labels = labels
        self.annotations = annotations
        self.priority_class_name = priority_class_name
        self.image_pull_secrets = image_pull_secrets
        self.spot_nodes = spot_nodes
        self.driver_cores = driver_cores
        self.driver_memory = driver_memory
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.rescale_policy = rescale_policy
        self.on_rescale_callback = on_rescale_callback
        self.on_suspend = on_suspend
        self.deferrable = not is_deferral_off() if deferrable is None else deferrable
        self._is_default_deferrable = deferrable is None
        self.options = options
        self._running: DeployedJob | None = None
        self._batch: BatchSubmission | None = None
        self._event: Mapping[str, Any] | None = None
        self._name = job
        self.has_links = False
        if is_parsed:
            require_possible(self)
        validation.not_in_mapped_group(self)
        require_only_task(self, job, AdaptiveSparkOperator)

    @classmethod
    def partial(cls, *, task_id: str, **kwargs: Any) -> FleetPartial:
        """Return the arguments that all jobs of a mapped task share. `expand(job=[...])` or `expand_kwargs` gives each job its id."""
        flink = {name: kwargs.pop(name) for name in [*kwargs] if "." in name}
        unknown = kwargs.keys() - signature(cls).parameters.keys()
        validation.known_parameters(AdaptiveSparkOperator, unknown, OPTIONS, INSTEAD)
        fleet = FleetPartial.of(super().partial(task_id=task_id, **kwargs))
        fleet.kwargs.update(flink)  # Airflow would reject these names, because they are no names of parameters.
        return fleet

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render a template as Airflow does; see `native` for a DAG with `render_template_as_native_obj`."""
        environment = jinja_env or self.get_template_env()
        if isinstance(content, str) and isinstance(environment, NativeEnvironment):
            return native(environment.from_string(content).generate(context))
        return super().render_template(content, context, environment, seen_oids)

    def execute(self, context: Context) -> dict[str, Any]:
        """Stage the job, and run its control loop in the triggerer or in the worker.

        The loop adopts the driver of a job that runs already. A declared batch runs in the worker, through spark-submit.

        Returns:
            The outcome, and the numbers of restarts and rescales.

        Raises:
            AirflowFailException: the declaration is invalid (the message lists all violations), or the job failed with an error that a
                retry cannot correct, was canceled, or was taken over by another run.
            AirflowException: the job or its control loop failed; a retry may succeed.
            AirflowSkipException: the job was suspended, and `on_suspend` is "skip".
            AirflowTaskTimeout: `execution_timeout` passed, and the job was canceled.
        """
        self._identify(context)
        for link in LINKS:
            context["ti"].xcom_push(link, "")  # The URLs are not known yet.
        self.has_links = True
        return self._run_batch(context) if self._declared.is_batch else self._run_job(context)

    def _run_job(self, context: Context) -> dict[str, Any]:
        task = self._identify(context)
        cancel_at = None if self.execution_timeout is None else datetime.now(UTC) + self.execution_timeout
        spec = self._spec(f"{task}/{uuid4().hex}", task)
        spec = self._request_running(replace(spec, conf=self._with_lineage(spec.conf, context)))
        self._report_takeover(task)
        record(self._name, ATTEMPT, spec.attempt)
        context["ti"].xcom_push(XCOM_ATTEMPT, spec.attempt)
        declared = {"name": self._name, "job_directory": self.job_directory}
        context["ti"].xcom_push(job_xcom(job_asset(self._name).name), declared)
        job = DeployedJob(spec, self._declared.connections, self.job_directory, task)
        if self.deferrable:
            self._defer(job, cancel_at)
        if self._is_default_deferrable:
            self.log.warning(
                "Job %r occupies a worker slot, because the administrator set [operators] default_deferrable to false. Set "
                "deferrable=True to run the control loop in the triggerer.",
                self._name,
            )
        return self._end(context, self._run_in_worker(job, cancel_at))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue after the trigger; see Airflow. `execute` has created the XComs of the links."""
        self.has_links = True
        return super().resume_execution(next_method, next_kwargs, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Handle the event of the trigger: the job has ended, or the lifetime of the trigger has passed.

        In the second case the task is deferred again, with the job as the current DAG file declares it.
        """
        task = self._identify(context)
        if event["status"] == "recycle":
            cancel_at = None if event["cancel_at"] is None else datetime.fromisoformat(event["cancel_at"])
            self._defer(self._redeployed(event, task, context), cancel_at)
        return self._end(context, event)

    def on_kill(self) -> None:
        """Cancel the job, or kill the batch. The cancellation takes the job over from the loop that the signal interrupts.

        A cancellation that fails is repeated for `KILL_TIMEOUT`, unless Airflow ends the process before.
        """
        if self._batch is not None:
            self._batch.kill()
        if self._running is None:
            return
        # The interrupted loop occupies the event loop of this thread, so the cancellation needs its own thread.
        killer = threading.Thread(target=asyncio.run, args=(cancel_until_ended(self._running),), daemon=True)
        killer.start()
        killer.join(KILL_TIMEOUT.total_seconds())
        if killer.is_alive():
            self.log.error(
                "Job %r was not canceled within %s, and its driver may still run. Kill the driver in the web UI of its master, or run the "
                "job again: the next run takes the driver over.",
                *(self._name, format_duration(KILL_TIMEOUT)),
            )

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return the facets of the job. Only Airflow's OpenLineage provider calls this method."""
        from airflow_adaptive._airflow.declaration.lineage import lineage  # noqa: PLC0415  The provider is optional.

        return lineage(self._declared, self._event)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the facets of the job, with its outcome, and after a failure with its error."""
        return self.get_openlineage_facets_on_start()

    get_openlineage_facets_on_failure = get_openlineage_facets_on_complete

    def _identify(self, context: Context) -> TaskKey:
        """Return the task instance, and determine the name of the job in Airflow's stores."""
        task = task_of(context)
        self._name = job_name(self.job, task)
        return task

    def _request_running(self, spec: JobSpec) -> JobSpec:
        """Start the job: the requests of an earlier run have no effect any more. A request that is accepted from now on has an effect.

        An earlier try of this task may have died before it reported the end of the job. Then this try continues the earlier attempt: a
        request to suspend or cancel stays in effect, and a job that has finished does not run again. If the earlier try reported a failure, a request
        since then applies to the job that this try starts.
        """
        read_at, documents, job = SystemClock().now(), read_desired_state(self._name), self._declared
        if is_job_running(documents):
            with validation.airflow_errors(self._name):
                is_to_run = decode_desired_state(documents) is DesiredState.RUNNING
                earlier, state = asyncio.run(job.newest_attempt())
            is_continued = not is_to_run or (isinstance(state, Finished) and state.outcome is Outcome.FINISHED)
            if earlier and is_continued and TaskKey.of_attempt(earlier) == TaskKey.of_attempt(spec.attempt):
                return replace(spec, attempt=earlier)
        is_retry = retried_task(documents) == str(TaskKey.of_attempt(spec.attempt))
        begin_job(self._name, documents, read_at, is_retry=is_retry)
        return spec

    def _report_takeover(self, task: TaskKey) -> None:
        """Log a warning if another task runs the job, because only the log of that task would contain the reason of its failure."""
        try:
            attempt, state = asyncio.run(self._declared.newest_attempt())
        except JobDirectoryError as error:  # The job can start without the warning.
            self.log.info("Whether another task runs job %r is unknown: %s", self._name, error)
            return
        earlier = TaskKey.of_attempt(attempt or "")
        is_running = attempt is not None and not isinstance(state, Finished)
        if is_running and (earlier is None or earlier.run != task.run):  # A job may move to another map index.
            self.log.warning(
                "Job %r was started by %r (DAG/task/run/attempt), and this task takes the job over. If the other task still runs, it fails: run the "
                "job in one task only, and limit its DAG to one run at a time (max_active_runs=1)",
                *(self._name, attempt),
            )

    def _redeployed(self, event: Mapping[str, Any], task: TaskKey, context: Context) -> DeployedJob:
        """Return the running job as declared now.

        If the declaration is invalid, or would move the job, the job stays as deployed before, because a running job must keep its loop.
        """
        connections: ConnectionIds = decode(ConnectionIds, event["connections"])
        try:
            deployed = deployed_spec(event["spec"])
        except SnapshotError as error:
            raise AirflowException(f"job {self._name!r}: {with_code(error)}") from error  # A retry adopts the job.
        try:
            running = RunningJob(connections=connections, directory=deployed.directory)
            spec = self._spec(event["attempt"], task, running)
            spec = replace(spec, conf=self._with_lineage(spec.conf, context))
        except Exception as error:  # noqa: BLE001  The libraries of storages raise exceptions of any class.
            self.log.warning("The job continues as it was deployed before: %s", error)
            return DeployedJob(deployed, connections, event["base"], task)
        return DeployedJob(spec, self._declared.connections, self.job_directory, task)

    def _run_batch(self, context: Context) -> dict[str, Any]:
        """Submit the script with spark-submit: like Flink's, the adaptive scheduler runs streaming jobs only."""
        from airflow_adaptive._airflow.declaration.batch import BatchSubmission, cores_of, submit_hook  # noqa: PLC0415  Only batches need the imports.

        with validation.airflow_errors(self._name):
            declared = self._declared
            declared.check(streaming=False)
            submit_hook()
        self.log.warning(
            "Job %r is declared BATCH. The adaptive scheduler runs streaming jobs only, so the job is submitted with spark-submit,"
            " as by SparkSubmitOperator, on at most %s core(s). Options of the scheduler without effect: %s",
            *(self._name, cores_of(declared), ", ".join(self.options) or "none"),
        )
        self._batch = BatchSubmission(declared, self._with_lineage(declared.properties(), context))
        self._batch.run()
        self._event = {"outcome": Outcome.FINISHED.value, "restarts": 0, "rescales": 0}
        return dict(self._event)

    def check(self) -> None:
        """Validate the rendered declaration without a request to the cluster (`airflow_adaptive.testing.validate`).

        Raises:
            DeclarationError: the declaration is invalid. The message lists all violations.
        """
        self._declared.check(streaming=not self._declared.is_batch)

    @property
    def _declared(self) -> DeclaredJob:
        """The declared job, with rendered templates."""
        parameters = parameters_of(self, AdaptiveSparkOperator) | {"options": self.options}
        return DeclaredJob(self._name, rendered(parameters))

    def _spec(self, attempt: str, task: TaskKey, running: RunningJob | None = None) -> JobSpec:
        """Claim and stage the job as declared now (see `DeclaredJob`)."""
        with validation.airflow_errors(self._name):
            declared = self._declared
            declared.check()
            if running is None:  # A running job has its owner, and its directory may be away.
                asyncio.run(declared.claim(task.task))
            spec = asyncio.run(declared.stage(attempt, running))
            asyncio.run(declared.require_unmoved(recorded(self._name, BASE)))
        record(self._name, BASE, self.job_directory)
        return replace(spec, declaration=self._declaration(spec))

    def _declaration(self, spec: JobSpec) -> Declaration:
        """Return what this task declares, without secrets: the parameters that Airflow stores with the DAG, and those that it does not store."""
        names, dag, source = (*self.template_fields, "job_graph", "options", "priority"), self.get_dag(), ""
        with suppress(OSError, ValueError):  # A DAG file in an archive is no file: whether it changes is unknown.
            source = "" if dag is None else Path(dag.fileloc).read_text(encoding="utf-8")
        values = cast(Mapping[str, Any], redact(rendered({name: getattr(self, name) for name in names})))
        return declaration(values, code=PurePosixPath(spec.script).parent.name, dag_file=digest(source))

    def _with_lineage(self, properties: Mapping[str, str], context: Context) -> Mapping[str, str]:
        """Return Spark properties with those of OpenLineage, if the task or the administrator requests them."""
        with validation.airflow_errors(self._name):
            return with_lineage(
                properties,
                context,
                parent=is_on(self.openlineage_inject_parent_job_info, PARENT),
                transport=is_on(self.openlineage_inject_transport_info, TRANSPORT),
            )

    def _defer(self, job: DeployedJob, cancel_at: datetime | None) -> NoReturn:
        trigger = AdaptiveJobTrigger(
            spec=encode(job.spec),
            connections=asdict(job.connections),
            base=job.base,
            task_key=asdict(job.task),
            cancel_at=None if cancel_at is None else cancel_at.isoformat(),
            on_rescale=self._on_rescale,
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    @property
    def _on_rescale(self) -> dict[str, Any] | None:
        """The callback as plain data, because the triggerer receives no objects of the DAG file."""
        callback = self.on_rescale_callback
        return None if callback is None else {"path": str(callback.path), "kwargs": callback.kwargs}

    def _run_in_worker(self, job: DeployedJob, cancel_at: datetime | None) -> dict[str, Any]:
        self._running = job
        try:
            event = asyncio.run(self._run_loop(job, RunLimits(cancel_at=cancel_at)))
        except SupersededError as error:
            event = superseded_event(error)
        # Not in a `finally` block: Airflow calls `on_kill` after the exception of an `execution_timeout`.
        self._running = None
        return event

    async def _run_loop(self, job: DeployedJob, limits: RunLimits) -> dict[str, Any]:
        async with canceling_abandoned_jobs(job.name, job.base):
            return await run_job_loop(job, limits, self._on_rescale)

    def _end(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return or raise the result of the task. After the last try, kill a driver that no loop controls any more."""
        self._event = event
        driver = self._abandoned_driver(context, event)
        if event["status"] == "finished":
            is_resumed = self._report_end(context, event)
            if event["outcome"] == Outcome.SUSPENDED and is_resumed:
                self.log.info("Job %r was resumed before Airflow knew its suspension, and starts again.", self._name)
                return self._run_job(context)
        if event.get("outcome") != Outcome.FINISHED:
            self.outlets = []  # Airflow emits an event for each outlet of a task that succeeds, and the job has not finished its data.
        return task_result(self._name, event, self.execution_timeout, driver, OnSuspend(str(self.on_suspend).lower()))

    def _report_end(self, context: Context, event: Mapping[str, Any]) -> bool:
        """Report the end of the job, also if the loop could not publish it; return whether a user has resumed the job.

        An error must not fail the task: the next try would run a job that has ended.
        """
        is_resumed = False
        try:
            retried = str(self._identify(context)) if self._is_retried(context, event) else None
            is_resumed = end_job(self._name, end_summary(event, datetime.now(UTC)), retried)
            context["ti"].xcom_push(XCOM_STATE, event["outcome"])
        except AirflowRuntimeError as error:
            self.log.warning("The end of job %r was not reported to Airflow's store: %s", self._name, error)
        return is_resumed

    @staticmethod
    def _is_retried(context: Context, event: Mapping[str, Any]) -> bool:
        """Whether Airflow runs the task again after this event, unless a user ends the task."""
        is_final = event.get("outcome", Outcome.FAILED) != Outcome.FAILED or not event.get("recoverable", True)
        return not is_final and context["ti"].try_number <= context["ti"].max_tries

    def _abandoned_driver(self, context: Context, event: Mapping[str, Any]) -> str:
        """Return what happened to a driver whose loop has failed. After the last try, kill the driver."""
        driver = event.get("driver")
        if driver is None:
            return "" if event.get("is_driver_known", True) else UNKNOWN_DRIVER
        if self._is_retried(context, event):
            return f"driver {driver} continues, and the next try adopts it"
        try:
            asyncio.run(kill_driver(self._declared.connections, driver))
        except (PortError, ValueError) as error:
            return (
                f"driver {driver} may still run: kill it in the web UI of its cluster, or run the job again ({error})"
            )
        return f"driver {driver} was killed, because the task has no retries left"
