"""Spark properties that a parameter of the operator, the scheduler or the client of the cluster manager determines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PARAMETERS = {
    "spark.app.name": "name",
    "spark.cores.max": "parallelism",
    "spark.driver.cores": "driver_cores",
    "spark.driver.memory": "driver_memory",
    "spark.executor.cores": "executor_cores",
    "spark.executor.instances": "parallelism",
    "spark.executor.memory": "executor_memory",
    "spark.master": "conn_id",
    "spark.submit.pyFiles": "py_files",
}
"""Spark properties without effect -> parameter of the operator that determines the value."""

STREAMING_PARAMETERS = {
    "spark.app.name": "name",
    "spark.dynamicAllocation.enabled": "parallelism",
    "spark.dynamicAllocation.initialExecutors": "parallelism",
    "spark.dynamicAllocation.maxExecutors": "parallelism",
    "spark.dynamicAllocation.minExecutors": "parallelism",
    "spark.sql.shuffle.partitions": "max_parallelism",
    "spark.sql.streaming.stopTimeout": "stop_timeout",
}
"""The same for properties that the scheduler or the runtime in the driver determines."""

KUBERNETES_PARAMETERS = {
    "spark.app.name": "name",
    "spark.kubernetes.container.image.pullSecrets": "image_pull_secrets",
    "spark.kubernetes.context": "kubernetes_conn_id",
    "spark.kubernetes.driver.podTemplateFile": "driver_pod_template",
    "spark.kubernetes.driver.scheduler.name": "driver_pod_template",
    "spark.kubernetes.executor.podTemplateFile": "executor_pod_template",
    "spark.kubernetes.hadoop.configMapName": "driver_pod_template",
    "spark.kubernetes.namespace": "namespace",
}
"""The same for Kubernetes."""

KUBERNETES_PREFIXES = {
    "spark.kubernetes.authenticate.submission.": "kubernetes_conn_id",
    "spark.kubernetes.driver.secretKeyRef.": "driver_pod_template",
    "spark.kubernetes.driver.secrets.": "driver_pod_template",
    "spark.kubernetes.driverEnv.": "env_vars",
}
"""Beginnings of such properties. spark-submit evaluates the properties, and no spark-submit starts the driver."""

KUBERNETES_DETERMINED = (
    "spark.app.id",
    "spark.driver.bindAddress",
    "spark.driver.host",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.executor.failuresValidityInterval",
    "spark.executor.maxNumFailures",
    "spark.kubernetes.allocation.batch.size",
    "spark.kubernetes.allocation.pods.allocator",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.executor.podNamePrefix",
    "spark.kubernetes.submitInDriver",
)
"""Properties that the client of Kubernetes determines, because they identify the driver or keep it adaptive."""

OWN_PREFIX = "spark.airflow.adaptive."

SUPERVISE = "spark.driver.supervise"


def refused(conf: Mapping[str, Any], *, streaming: bool) -> Iterator[str]:
    """Yield a violation for each property without effect on any cluster manager. Its text begins with the name of the property."""
    parameters = PARAMETERS | STREAMING_PARAMETERS if streaming else PARAMETERS
    for name, value in conf.items():
        if name in parameters:
            yield _use(name, parameters[name])
        elif name.startswith(OWN_PREFIX):
            yield f"{name!r}] is reserved for the runtime: leave it out"
        elif name == SUPERVISE and str(value).lower() != "false":
            yield f"{name!r}] must be off, because the scheduler restarts the driver"


def refused_on_kubernetes(conf: Mapping[str, Any]) -> Iterator[str]:
    """Yield a violation for each property without effect on Kubernetes."""
    for name in map(str, conf):
        prefixes = (parameter for prefix, parameter in KUBERNETES_PREFIXES.items() if name.startswith(prefix))
        parameter = KUBERNETES_PARAMETERS.get(name) or next(prefixes, None)
        if parameter is not None:
            yield _use(name, parameter)
        elif name in KUBERNETES_DETERMINED:
            yield f"{name!r}] is determined by airflow-adaptive: leave it out"


def _use(name: str, parameter: str) -> str:
    return f"{name!r}] would have no effect: use the parameter {parameter!r} of the operator"
