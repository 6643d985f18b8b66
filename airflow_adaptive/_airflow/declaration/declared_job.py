"""A job as its DAG declares it: rendered parameters, validation, staging, and conversion to the specification of the loop.

Theory: `render_template_as_native_obj` gives the object of a template that is a single expression, such as a list. Jinja also evaluates
text as a literal of Python, so "1.10" becomes 1.1, and "" becomes None. A script and Spark get text, so here text remains as it is.
"""

from __future__ import annotations

import json
import os
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Final

from airflow.sdk import BaseOperator, get_parsing_context
from jinja2 import Undefined

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.declaration.operator_arguments import configured_options, is_batch
from airflow_adaptive._airflow.declaration.placement import RunningJob, check_requested, cluster, requested, unmoved
from airflow_adaptive._airflow.declaration.spark_submit import (
    Dependencies,
    application_path,
    check_script,
    read_properties,
)
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import is_mapped_item
from airflow_adaptive._airflow.process.job_ports import job_directory, require_absolute
from airflow_adaptive._airflow.process.loop_events import OnSuspend
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, require_kafka
from airflow_adaptive._airflow.store.job_asset import claim_name, job_asset, require_owner
from airflow_adaptive._core.ports import JobDirectoryError, JobKey
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobType
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Current, Finished
from airflow_adaptive._engine.journal.journal import attempt_of
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec, parse_memory
from airflow_adaptive._engine.staging import check_code, remove_unused_code, stage
from airflow_adaptive.autoscaling.advisor import policy_from_text, policy_to_text
from airflow_adaptive.autoscaling.advisor import require as require_policy
from airflow_adaptive.autoscaling.policy import RescalePolicyError


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """A job as its DAG declares it. The method `check` validates the parameters.

    Attributes:
        job: name of the job.
        parameters: parameter -> its value, with rendered templates. Each parameter is an attribute, too: the signature of the Airflow class is the
            only list of its parameters.
    """

    job: str
    parameters: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.parameters[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def is_batch(self) -> bool:
        """Whether the operator or the graph declares the job BATCH."""
        graph = self.job_graph
        return is_batch(self.job_type) or (graph is not None and graph.job_type is JobType.BATCH)

    @property
    def connections(self) -> ConnectionIds:
        """The connections of the cluster."""
        kafka = self.parameters.get("kafka_conn_id")
        return ConnectionIds(str(self.conn_id), str(self.kubernetes_conn_id), self.namespace or "", kafka or "")

    @property
    def kubernetes(self) -> KubernetesParameters:
        """The parameters that apply on Kubernetes only."""
        return KubernetesParameters(**self._given(KubernetesParameters))

    @property
    def dependencies(self) -> Dependencies:
        """What the script needs beside itself."""
        return Dependencies(**self._given(Dependencies))

    def _given(self, kind: type[Any]) -> dict[str, Any]:
        """Return the parameters that are fields of a dataclass."""
        return {it.name: self.parameters[it.name] for it in fields(kind) if it.name in self.parameters}

    def properties(self) -> dict[str, str]:
        """Return the Spark properties of the user. Raises `ValueError` if `properties_file` cannot be read."""
        return read_properties(self.properties_file) | _text_values(self.conf)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the driver process."""
        return _text_values(self.env_vars)

    async def claim(self, task: str) -> None:
        """Let the name and the directory of the job belong to a task. Only the name of a job of a task can belong to another one.

        Raises:
            OwnedJobError: the job belongs to another task.
            JobDirectoryError: the job directory cannot be used, or belongs to another job.
            UnavailableError: another task claims the job at the same moment.
        """
        directory = job_directory(self.job_directory, self.job)
        await directory.newest()  # The directory of another job gets no owner.
        job_asset(self.job).move_into_state_store()
        require_owner(self.job, task, self.moved_from)
        await directory.claim(task, self.moved_from, asdict(self.connections))
        claim_name(self.job, task, self.moved_from)

    async def stage(self, attempt: str, running: RunningJob | None = None) -> JobSpec:
        """Copy the code of a job that was checked to the job directory.

        Raises:
            DeclarationError: the declaration would move the running job.
            JobDirectoryError: the job directory cannot be used.
            SnapshotError: a newer version of airflow-adaptive wrote the journal.
        """
        driver, executor = self.requested(self.kubernetes)
        directory = job_directory(self.job_directory, self.job)
        if running is not None:
            unmoved(running, self.connections, directory.uri)
        newest = await directory.newest()
        if newest is None and running is not None:
            raise JobDirectoryError(f"{directory.uri}/journal has disappeared: restore the directory of the job")
        # Rejects a newer format before a running job loses its loop.
        state = None if newest is None else from_json(newest.scheduler)
        needed = self.dependencies
        code = await stage(
            directory, application_path(str(self.application)), needed.local_py_files, needed.local_files
        )
        spec = JobSpec(
            graph=self.graph(),
            options=self._options(),
            directory=directory.uri,
            script=code.script,
            py_files=(*code.py_files, *needed.remote_py_files),
            args=tuple(self.application_args or ()),
            conf=self.kubernetes.conf() | needed.properties(self.properties(), code.files),
            env=self.environment,
            driver=driver,
            executor=executor,
            driver_template=self.kubernetes.driver_template(),
            executor_template=self.kubernetes.executor_template(),
            attempt=attempt,
            priority=self.priority,
            rescale_policy=None if (policy := self._policy()) is None else policy_to_text(policy),
        )
        await remove_unused_code(directory, spec, state, datetime.now(UTC).date())
        return spec

    async def require_unmoved(self, base: str | None) -> None:
        """Refuse another job directory while the job runs in the folder in which it was deployed last (None for a job without a deployment).

        Raises:
            DeclarationError: the job runs in another directory. The message explains how to move the job.
            JobDirectoryError: the other directory cannot be read, so the job may still run there.
        """
        if base is None or base == self.job_directory:
            return
        previous, declared = job_directory(base, self.job), job_directory(self.job_directory, self.job)
        newest = None if previous.uri == declared.uri else await previous.newest()
        if newest is not None and not isinstance(from_json(newest.scheduler).current, Finished):
            running = RunningJob(connections=self.connections, directory=previous.uri)
            unmoved(running, self.connections, declared.uri)

    async def newest_attempt(self) -> tuple[str | None, Current | None]:
        """Return the attempt that wrote the newest document of the journal, and the state of the job in it; None without a journal.

        Raises:
            JobDirectoryError: the job directory cannot be used.
            ValueError: the URI of the job directory is not absolute.
        """
        newest = await job_directory(self.job_directory, self.job).newest()
        return (None, None) if newest is None else (attempt_of(newest.owner), from_json(newest.scheduler).current)

    def check(self, *, streaming: bool = True) -> None:
        """Validate the parameters of a streaming job, or of a batch, without a request to the cluster.

        Raises:
            DeclarationError: the declaration is invalid. The message lists all violations.
            ValueError: a streaming job is declared BATCH.
        """
        if streaming and self.is_batch:
            raise ValueError("a streaming job cannot become BATCH while it runs")
        needed, file_properties = self.dependencies, self._readable_file()
        properties = file_properties | _text_values(self.conf)
        managed = self._calls_adaptive_job()
        streaming_checks = (
            self._options,
            lambda: job_directory(str(self.job_directory), self.job).uri,
            lambda: check_code(application_path(str(self.application)), needed.local_py_files, needed.local_files),
        )
        validation.require(
            [
                lambda: validation.one_of(JobType, job_type=self.job_type),
                lambda: validation.one_of(OnSuspend, on_suspend=self.on_suspend),
                lambda: validation.priority(self.priority),
                lambda: validation.texts(
                    conn_id=self.conn_id, kubernetes_conn_id=self.kubernetes_conn_id, job_directory=self.job_directory
                ),
                *([lambda: require_kafka(self.kafka_conn_id)] if self.kafka_conn_id else []),
                lambda: validation.lists(application_args=self.application_args or (), not_secret=self.not_secret),
                lambda: validation.mappings(conf=self.conf, env_vars=self.env_vars),
                lambda: validation.items(**{name: getattr(self, name) for name in COLLECTIONS}),
                lambda: validation.optional_texts(**{name: getattr(self, name) for name in TEXTS}),
                self.properties,
                lambda: check_script(str(self.application)),
                lambda: validation.dependencies(needed, properties),
                lambda: validation.no_secrets(
                    conf=self.conf,
                    properties_file=file_properties,
                    env_vars=self.env_vars,
                    labels=self.labels,
                    annotations=self.annotations,
                    arguments={"application_args": self.application_args, **needed.lists()},
                    not_secret=self.not_secret,
                ),
                lambda: validation.no_overridden_properties(
                    streaming=streaming, managed=managed, conf=self.conf, properties_file=file_properties
                ),
                lambda: validation.graph(self.graph),
                lambda: validation.size(DriverShape, "driver", self.driver_cores, self.driver_memory),
                lambda: validation.size(ExecutorShape, "executor", self.executor_cores, self.executor_memory),
                lambda: self._check_policy(streaming),
                lambda: validation.callback(on_rescale_callback=self.on_rescale_callback, not_secret=self.not_secret),
                lambda: cluster(self.connections, self.kubernetes, properties, streaming=streaming, managed=managed),
                lambda: check_requested(self.requested, self.kubernetes),
                *(streaming_checks if streaming else ()),
            ]
        )

    def _readable_file(self) -> dict[str, str]:
        """Return the Spark properties in `properties_file`; none if the file cannot be read."""
        try:
            return read_properties(self.parameters.get("properties_file"))
        except ValueError:
            return {}

    def _calls_adaptive_job(self) -> bool:
        """Return whether the script names `AdaptiveJob`; True for a script that cannot be read, which another check reports."""
        try:
            return b"AdaptiveJob" in application_path(str(self.application)).read_bytes()
        except Exception:  # noqa: BLE001  The libraries of object stores raise exceptions of any class.
            return True

    def _check_policy(self, streaming: bool) -> None:
        """Reject a rescale policy that does not fit the job. Raises `RescalePolicyError`, and the errors of graph and options."""
        if self.rescale_policy is None:
            return
        if not streaming:
            raise RescalePolicyError("batch", ["rescale_policy has no effect on a batch: leave it out"])
        validation.graph(self.graph)
        require_policy(self._policy(), self.graph(), reactive=self._options().reactive)

    def _policy(self) -> Any:
        """Return the rescale policy, which a template renders as JSON. Raises `RescalePolicyError` for JSON of another object."""
        policy = self.rescale_policy
        return policy_from_text(policy) if isinstance(policy, str) and policy.startswith("{") else policy

    def _options(self) -> Options:
        return Options.of(self.options, configured_options())

    def graph(self) -> JobGraph:
        """Return the vertices of the job with their bounds. Raises `ValueError` or `AdaptiveSchedulerError` for invalid bounds."""
        declared: JobGraph | None = self.job_graph
        if declared is not None:
            return replace(declared, job=self.job)
        return JobGraph.single(self.job, ParallelismRange.of(self.parallelism), self.max_parallelism)

    def requested(self, kubernetes: KubernetesParameters) -> tuple[DriverShape, ExecutorShape]:
        """Return the sizes with what a driver and an executor take from the cluster. Raises as `placement.requested`."""
        return requested(self.connections, kubernetes, self._readable_file() | _text_values(self.conf), *self.shapes())

    def shapes(self) -> tuple[DriverShape, ExecutorShape]:
        """Return the sizes of the driver and of an executor. Raises `ValueError` for an invalid size."""
        driver = DriverShape(cores=self.driver_cores, memory_mb=parse_memory(self.driver_memory))
        return driver, ExecutorShape(cores=self.executor_cores, memory_mb=parse_memory(self.executor_memory))


def _text_values(values: object) -> dict[str, str]:
    """Return a mapping of texts. The checks `mappings` and `items` reject all other values."""
    return {key: str(value) for key, value in values.items()} if isinstance(values, Mapping) else {}


NUMBERS: Final = ("parallelism", "max_parallelism", "driver_cores", "executor_cores")
"""Templated parameters that are numbers, pairs of numbers or None."""

TEXTS: Final = (
    *("job_directory", "conn_id", "kubernetes_conn_id", "namespace", "kafka_conn_id", "properties_file"),
    *("driver_class_path", "name", "image", "service_account_name", "priority_class_name"),
)
"""Templated parameters that are text or None."""

COLLECTIONS: Final = ("application_args", "conf", "env_vars", "node_selector", "spot_nodes", "labels", "annotations")
"""Templated lists of texts, and mappings of names to texts."""

LONGEST_NUMBER: Final = 100
"""Maximum length of the text of a number, or of a pair of numbers. Python cannot parse every longer text."""


def native(nodes: Iterable[Any]) -> Any:
    """Return the result of a template: the object of a single expression, and otherwise text, which is not evaluated as a literal.

    Raises `jinja2.UndefinedError` for a name that the context does not contain.
    """
    found = [*nodes]
    if len(found) == 1 and not isinstance(found[0], str | Undefined):
        return found[0]
    return "".join(map(str, found))


def rendered(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return rendered parameters with the types that they have: numbers, texts, and JSON instead of nested lists and mappings.

    The validation rejects all other values.
    """
    return {name: _number(value) if name in NUMBERS else _texts(name, value) for name, value in parameters.items()}


def _texts(name: str, value: Any) -> Any:
    if name in TEXTS:
        return str(value) if isinstance(value, int | float) else value
    if name not in COLLECTIONS or isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {key: _text(item) for key, item in value.items()}
    return [_text(item) for item in value] if isinstance(value, Sequence) else value


def _number(value: Any) -> Any:
    """Return "4" as 4, and "(1, 8)", "[1, 8]" and ("1", "8") as pairs of numbers."""
    if isinstance(value, list | tuple):
        return tuple(_number(item) for item in value)
    if not isinstance(value, str) or len(value) > LONGEST_NUMBER:
        return value
    try:
        return literal_eval(value.strip())
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return value


def _text(value: Any) -> Any:
    """Return the text that a script gets: JSON for a list or a mapping. None, bytes and sets have no text."""
    if isinstance(value, list | tuple | Mapping):
        with suppress(TypeError, ValueError, RecursionError):
            return json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False)
        return value
    return value if value is None or isinstance(value, bytes | set | frozenset) else str(value)


def is_parsing(operator: BaseOperator) -> bool:
    """Return whether Airflow constructs the operator to read the DAG, not to run the task.

    A running job must keep its loop, whatever its DAG file contains meanwhile: the task validates the declaration itself.
    """
    return get_parsing_context().task_id is None and not is_mapped_item(operator)


def require_possible(operator: Any) -> None:
    """Reject literals of an `AdaptiveSparkOperator` that are invalid, while Airflow parses the DAG. The task validates all other values.

    Raises:
        DeclarationError: the message lists all violations.
    """
    directory = operator.job_directory
    try:
        validation.require(
            [
                lambda: JobKey(operator.job).folder,
                lambda: _bounds(operator),
                lambda: _policy(operator),
                lambda: require_absolute(str(directory)) if _is_literal(operator, directory) else None,
                lambda: _script_beside_the_dag_file(operator, operator.application),
            ]
        )
    except DeclarationError as error:
        violations = "; ".join(error.violations)
        raise DeclarationError([f"job {operator.job!r}: {violations}"], code=error.code) from error


def _is_literal(operator: BaseOperator, value: object) -> bool:
    """Return whether a value is text that no template can change. An empty text may come from a variable that only the workers have."""
    dag = operator.get_dag()
    if dag is not None and dag.jinja_environment_kwargs:
        return False
    text = str(value).strip()
    return isinstance(value, str | PurePath) and text != "" and "{{" not in text and "{%" not in text


def _is_fixed(operator: BaseOperator, value: object) -> bool:
    """Return whether no template can change a value, or an item of a list."""
    items = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(item, int | float) or _is_literal(operator, item) for item in items)


def _bounds(operator: Any) -> None:
    if operator.job_graph is not None:
        validation.graph(lambda: operator.job_graph)
    elif _is_fixed(operator, operator.parallelism):
        bounds = rendered({name: getattr(operator, name) for name in ("parallelism", "max_parallelism")})
        maximum = bounds["max_parallelism"] if _is_fixed(operator, operator.max_parallelism) else None
        validation.graph(lambda: JobGraph.single(operator.job, ParallelismRange.of(bounds["parallelism"]), maximum))


def _policy(operator: Any) -> None:
    """Reject what is no policy: its class, which Airflow would call as a template, and text, unless a template renders the JSON text of a policy."""
    policy = operator.rescale_policy
    if isinstance(policy, type) or (_is_literal(operator, policy) and not policy.startswith("{")):
        require_policy(policy, JobGraph.single(operator.job, ParallelismRange.of(1)))


def _script_beside_the_dag_file(operator: BaseOperator, application: object) -> None:
    """Reject a missing script below the folder of the DAG file. Another script may be on the workers only."""
    dag = operator.get_dag()
    if dag is None or not _is_literal(operator, application):
        return
    script, folder = Path(os.path.normpath(str(application))), Path(dag.fileloc).parent
    if script.is_absolute() and script.is_relative_to(folder) and not _may_exist(script):
        raise DeclarationError(
            [f"application {str(script)!r} does not exist: correct the path, or copy the script there"]
        )


def _may_exist(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a folder that this process may not read
        return True
