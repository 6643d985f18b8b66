"""The sensor that waits for the slots of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._airflow.declaration.operator_arguments import parameters_of
from airflow_adaptive._airflow.declaration.placement import check_requested, cluster
from airflow_adaptive._airflow.internals import (
    AirflowException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow_adaptive._airflow.process.resource_wait import WantedResources, wait_for_slots
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape
from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkResourcesSensor(BaseSensorOperator):
    """Wait until a Spark cluster has the slots that a job needs, by the rules by which the job itself waits.

    The sensor succeeds at once when the slots for the upper bounds are free. The sensor succeeds with fewer slots when the slots for
    the lower bounds have been free for `resource_stabilization_timeout`. The return value (XCom) contains the slots and the resulting
    parallelism. The sensor does not reserve slots: if another application takes the slots, the job waits again.

    Args:
        parallelism: lower and upper bound of a job without a graph; a single number sets both.
        job_graph: vertices with bounds of their own, instead of `parallelism`.
        conn_id: Airflow connection of type `adaptive_spark` or `spark`. Its host selects the cluster manager: `spark://` or `k8s://`. (templated)
        kubernetes_conn_id: Airflow connection of type `kubernetes` with the credentials of a Kubernetes cluster. (templated)
        namespace: Kubernetes namespace instead of the one in the connection `conn_id`. (templated)
        driver_cores: cores of the driver of the job.
        driver_memory: heap of the driver of the job.
        executor_cores: cores of an executor. Each core is a slot.
        executor_memory: heap of an executor.
        conf: Spark properties of the job that change the resources of a pod on Kubernetes, such as the memory overhead. (templated)
        driver_pod_template: see `AdaptiveSparkOperator`, as for the three following parameters. They apply on Kubernetes only. (templated)
        executor_pod_template: likewise. (templated)
        node_selector: likewise. (templated)
        tolerations: likewise. (templated)
        resource_stabilization_timeout: see docs/reference/options.md.
        deferrable: wait in the triggerer instead of in the worker.
        kwargs: parameters of every Airflow sensor. `timeout` limits the wait. `soft_fail` skips the task instead of failing it.
    """

    template_fields: Sequence[str] = (
        *("conn_id", "kubernetes_conn_id", "namespace", "conf"),
        *("driver_pod_template", "executor_pod_template", "node_selector", "tolerations"),
    )

    def __init__(
        self,
        *,
        parallelism: int | tuple[int, int] = 1,
        job_graph: JobGraph | None = None,
        conn_id: str = "spark_default",
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
        driver_cores: int = 1,
        driver_memory: str = "1g",
        executor_cores: int = 1,
        executor_memory: str = "1g",
        conf: Mapping[str, str] | None = None,
        driver_pod_template: str | Mapping[str, Any] | None = None,
        executor_pod_template: str | Mapping[str, Any] | None = None,
        node_selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Any] | None = None,
        resource_stabilization_timeout: timedelta | float | str = "10 s",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.parallelism = parallelism
        self.job_graph = job_graph
        self.conn_id = conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.driver_cores = driver_cores
        self.driver_memory = driver_memory
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.conf = conf
        self.driver_pod_template = driver_pod_template
        self.executor_pod_template = executor_pod_template
        self.node_selector = node_selector
        self.tolerations = tolerations
        self.resource_stabilization_timeout = resource_stabilization_timeout
        self.deferrable = deferrable

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait in the triggerer or in the worker.

        Returns:
            `slots`, `parallelism` and `workers` (slots of each worker).

        Raises:
            AirflowFailException: a parameter is invalid. The message lists all violations.
            AirflowException: the cluster does not answer.
            AirflowSensorTimeout: the slots were not available before the timeout.
        """
        with validation.airflow_errors(self.task_id):
            self._check()
            wanted = self._wanted()
        connections = self._declared.connections
        until = (datetime.now(UTC) + timedelta(seconds=self.timeout)).isoformat()
        if self.deferrable:
            trigger = SparkResourcesTrigger(wanted=wanted, connections=asdict(connections), until=until)
            self.defer(trigger=trigger, method_name="execute_complete")
        return self.execute_complete(context, asyncio.run(wait_for_slots(wanted, connections, until)))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return or raise the result of the wait."""
        match event["status"]:
            case "found":
                return {key: event[key] for key in ("slots", "parallelism", "workers")}
            case "timeout" if self.soft_fail:
                raise AirflowSkipException(f"no resources within {self.timeout:g} s [timeout]")
            case "timeout":
                raise AirflowSensorTimeout(
                    f"no resources within {self.timeout:g} s: {self.conn_id!r} has too few slots [timeout]"
                )
            case _:
                raise AirflowException(event["message"])

    @property
    def _declared(self) -> DeclaredJob:
        return DeclaredJob(self.task_id, parameters_of(self, SparkResourcesSensor))

    def _check(self) -> None:
        """Validate the parameters without a request to the cluster. Raises `DeclarationError`."""
        declared = self._declared
        validation.require(
            [
                lambda: validation.mappings(conf=self.conf),
                lambda: validation.graph(self._graph),
                lambda: validation.size(DriverShape, "driver", self.driver_cores, self.driver_memory),
                lambda: validation.size(ExecutorShape, "executor", self.executor_cores, self.executor_memory),
                self._options,
                lambda: cluster(declared.connections, declared.kubernetes, self.conf, with_image=False),
                lambda: check_requested(declared.requested, declared.kubernetes),
            ]
        )

    def _graph(self) -> JobGraph:
        return self.job_graph or JobGraph.single(self.task_id, ParallelismRange.of(self.parallelism))

    def _options(self) -> Options:
        timeouts = {"resource_stabilization_timeout": self.resource_stabilization_timeout, "resource_wait_timeout": -1}
        return Options.of(timeouts)

    def _wanted(self) -> dict[str, Any]:
        declared = self._declared
        driver, executor = declared.requested(declared.kubernetes)
        wanted = WantedResources(graph=self._graph(), options=self._options(), executor=executor, driver=driver)
        return dict(encode(wanted))
