"""Spark properties that a parameter of the operator, the scheduler or the client of the cluster manager determines.

The operator refuses the properties in the declaration of a job, and the driver refuses a script that sets another value.
"""

from __future__ import annotations

from typing import Final

PARAMETERS: Final = {
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

STREAMING_PARAMETERS: Final = {
    "spark.app.name": "name",
    "spark.dynamicAllocation.enabled": "parallelism",
    "spark.dynamicAllocation.initialExecutors": "parallelism",
    "spark.dynamicAllocation.maxExecutors": "parallelism",
    "spark.dynamicAllocation.minExecutors": "parallelism",
}
"""The same for properties that the scheduler determines."""

MANAGED_PARAMETERS: Final = {
    "spark.sql.shuffle.partitions": "max_parallelism",
    "spark.sql.streaming.stopTimeout": "stop_timeout",
}
"""The same for properties that the runtime in the driver determines for scripts with `AdaptiveJob`. An unmanaged script sets them itself."""

KUBERNETES_PARAMETERS: Final = {
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

KUBERNETES_PREFIXES: Final = {
    "spark.kubernetes.authenticate.submission.": "kubernetes_conn_id",
    "spark.kubernetes.driver.secretKeyRef.": "driver_pod_template",
    "spark.kubernetes.driver.secrets.": "driver_pod_template",
    "spark.kubernetes.driverEnv.": "env_vars",
}
"""Beginnings of such properties. spark-submit evaluates the properties, and no spark-submit starts the driver."""

KUBERNETES_DETERMINED: Final = (
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

SUPERVISE: Final = "spark.driver.supervise"
