"""Submits a declared batch with spark-submit, through the hook that `SparkSubmitOperator` uses.

The driver runs in client mode on the Airflow worker, because `spark-submit --deploy-mode cluster` rejects Python applications on a standalone
cluster. Secret properties come from the connection. A file that only its owner can read passes them to spark-submit, because every
user of the host can list command lines.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_adaptive._airflow.connections import cluster_address
from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._clusters.properties import to_file
from airflow_adaptive._core.protocol.secret_names import is_secret
from airflow_adaptive._core.scheduler.allocator import required_slots
from airflow_adaptive._engine.directive import executors
from airflow_adaptive.local.distribution import find_spark
from airflow_adaptive.local.waiting import LocalClusterError

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

PYTHON_VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""Environment variables that select the Python interpreter of the driver, by precedence."""


def cores_of(job: DeclaredJob) -> int:
    """Return the cores of all executors of a batch: a multiple of those of an executor, because Spark starts whole executors only."""
    graph, (_, executor) = job.graph(), job.shapes()
    return executors(required_slots(graph, graph.requirements), executor) * executor.cores


class BatchSubmission:
    """Runs and kills one batch, which was checked. Its driver uses cores of the Airflow worker. `conf` are its Spark properties."""

    def __init__(self, job: DeclaredJob, conf: Mapping[str, str]) -> None:
        self._job = job
        self._conf = conf
        self._hook: SparkSubmitHook | None = None

    def run(self) -> None:
        """Run the batch to its end. The log of the task contains the output.

        Raises:
            ValueError: Airflow's Spark provider is not installed.
            AddressError: the connection does not describe a standalone cluster.
            AirflowException: spark-submit failed. The message contains the end of the output.
        """
        address = cluster_address(self._job.conn_id)
        properties, env = address.conf, {**address.secret_env, **self._job.environment}
        names = address.secret_names
        secret = {name: value for name, value in properties.items() if name in names or is_secret(name, value)}
        conf = {name: value for name, value in properties.items() if name not in secret} | dict(self._conf)
        if not secret:
            self._submit(conf, env, None)
            return
        with tempfile.NamedTemporaryFile("w", prefix="spark-", suffix=".conf", encoding="utf-8") as file:
            file.write(default_properties(os.environ | self._job.environment) + to_file(secret))
            file.flush()
            self._submit(conf, env, file.name)

    def kill(self) -> None:
        """Kill spark-submit and the driver."""
        if self._hook is not None:
            self._hook.on_kill()

    def _submit(self, conf: Mapping[str, str], env: Mapping[str, str], properties_file: str | None) -> None:
        job, needed, (driver, executor) = self._job, self._job.dependencies, self._job.shapes()
        lists: dict[str, Any] = {name: ",".join(items) or None for name, items in needed.lists().items()}
        self._hook = submit_hook()(
            **lists,
            conf=dict(conf),
            conn_id=job.conn_id,
            name=needed.name or job.job,
            driver_class_path=needed.driver_class_path,
            application_args=list(job.application_args or ()),
            env_vars=environment(env),
            total_executor_cores=cores_of(job),
            executor_cores=executor.cores,
            executor_memory=f"{executor.memory_mb}m",
            driver_memory=f"{driver.memory_mb}m",
            spark_binary=spark_submit(job.conn_id),
            properties_file=properties_file,
            deploy_mode="client",
        )
        self._hook.submit(str(job.application))


def submit_hook() -> type[SparkSubmitHook]:
    """Return the hook that `SparkSubmitOperator` uses. Raises `ValueError` if Airflow's Spark provider is not installed."""
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # noqa: PLC0415  The provider is optional.
    except ImportError as error:
        raise ValueError(
            f"batches need Airflow's Spark provider: install 'airflow-adaptive[batch]' on the workers ({error})"
        ) from error
    return SparkSubmitHook


def spark_submit(conn_id: str) -> str | None:
    """Return the path of spark-submit in the pyspark package of this environment.

    None means that the connection names a spark-submit, or that PATH contains one.
    """
    if "spark-binary" in BaseHook.get_connection(conn_id).extra_dejson:
        return None
    try:
        return str(find_spark().home / "bin" / "spark-submit")
    except LocalClusterError:  # pyspark is not installed, or is installed without the jars of Spark
        return None


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the task. Unless a variable selects another interpreter, the driver uses the interpreter of this process."""
    chosen = any(name in env or name in os.environ for name in PYTHON_VARIABLES)
    return dict(env) if chosen else {PYTHON_VARIABLES[0]: sys.executable, **env}


def default_properties(env: Mapping[str, str]) -> str:
    """Return the text of spark-defaults.conf. spark-submit does not read this file when it receives another properties file."""
    home = env.get("SPARK_HOME")
    folder = env.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    file = None if folder is None else Path(folder, "spark-defaults.conf")
    return f"{file.read_text(encoding='utf-8')}\n" if file is not None and file.is_file() else ""
