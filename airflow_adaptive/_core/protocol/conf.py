"""Spark properties of an adaptive job: the settings that the driver reads from them, and the properties that users cannot set.

A parameter of the operator, the scheduler or the client of the cluster manager determines the latter. The operator refuses them in the declaration of a
job, and the driver refuses a script that sets another value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PREFIX = "spark.airflow.adaptive."

PACKAGES_PROPERTY = f"{PREFIX}packages"
"""Property with the Maven packages that the launcher resolves, separated by commas."""


STANDBY_EXECUTORS = f"{PREFIX}standbyExecutors"
"""Property of a driver that waits until it replaces another one: the number of executors with which it starts."""


class MissingSettingsError(RuntimeError):
    """The adaptive scheduler did not submit the script, so no scheduler sends directives to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """Identity and settings of a driver, from the Spark properties with which it was submitted.

    Attributes:
        job: id of the job.
        directory: URI of the job directory.
        epoch: epoch of this driver.
        nonce: nonce of the journal that assigned the epoch.
        lease_timeout_s: time without a successful read of the journal, in seconds, after which the driver stops.
        poll_interval_s: interval between polls of the journal, in seconds.
        heartbeat_interval_s: maximum interval between two driver statuses, in seconds.
        stop_timeout_s: time in seconds until the driver interrupts the batch of a query that has to stop.
        orphan_timeout_s: time without a new journal document, in seconds, after which the driver stops.
        standby_executors: number of executors with which a standby starts.
    """

    job: str
    directory: str
    epoch: int
    nonce: str
    lease_timeout_s: float = 60.0
    poll_interval_s: float = 0.5
    heartbeat_interval_s: float = 2.0
    stop_timeout_s: float = 30.0
    orphan_timeout_s: float = math.inf
    standby_executors: int = 0

    def __post_init__(self) -> None:
        """Reject intervals that would let the lease expire during normal operation."""
        durations = ("lease_timeout_s", "poll_interval_s", "heartbeat_interval_s", "stop_timeout_s", "orphan_timeout_s")
        for name in durations:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, is {getattr(self, name)!r}")
        if self.poll_interval_s >= self.lease_timeout_s:
            raise ValueError(f"poll interval {self.poll_interval_s} s must be below lease {self.lease_timeout_s} s")


def read_settings(get: Callable[[str], str | None]) -> DriverSettings:
    """Read the settings of a driver from Spark properties.

    Args:
        get: function that returns the value of a Spark property, or None if the property is not set.

    Raises:
        MissingSettingsError: a property that identifies the job is missing.
        ValueError: a property has an invalid value.
    """
    identity = {name: get(PREFIX + name) for name in ("job", "directory", "epoch", "nonce")}
    missing = [PREFIX + name for name, value in identity.items() if not value]
    if missing:
        raise MissingSettingsError(
            f"{', '.join(missing)} not set: run the script with AdaptiveSparkOperator "
            "(airflow-adaptive), which sets these properties; spark-submit and python cannot run a script with AdaptiveJob"
        )
    timings = {
        "lease_timeout_s": get(f"{PREFIX}leaseTimeout"),
        "poll_interval_s": get(f"{PREFIX}pollInterval"),
        "heartbeat_interval_s": get(f"{PREFIX}heartbeatInterval"),
        "stop_timeout_s": get(f"{PREFIX}stopTimeout"),
        "orphan_timeout_s": get(f"{PREFIX}orphanTimeout"),
    }
    return DriverSettings(
        job=str(identity["job"]),
        directory=str(identity["directory"]),
        epoch=int(str(identity["epoch"])),
        nonce=str(identity["nonce"]),
        standby_executors=int(get(STANDBY_EXECUTORS) or 0),
        **{name: float(value) for name, value in timings.items() if value},
    )


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
    "spark.sql.streaming.checkpointLocation": "job_directory",
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
