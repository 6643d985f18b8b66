"""Spark properties of an adaptive job, and the settings that the driver reads from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "spark.airflow.adaptive."

OUT_OF_REACH = "1000000s"
"""A timeout of dynamic allocation that never expires: only the driver's requests add or remove executors."""


class NotSubmittedError(RuntimeError):
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
        NotSubmittedError: a property that identifies the job is missing.
        ValueError: a property has an invalid value.
    """
    identity = {name: get(PREFIX + name) for name in ("job", "directory", "epoch", "nonce")}
    missing = [PREFIX + name for name, value in identity.items() if not value]
    if missing:
        raise NotSubmittedError(
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
        **{name: float(value) for name, value in timings.items() if value},
    )


def session_conf(*, executors: int, max_executors: int, executor_cores: int, executor_memory_mb: int) -> dict[str, str]:
    """Return the properties that start a session with exactly `executors` executors, which only its driver changes.

    The FAIR scheduler mode lets the queries of a job share the executors by pools (`queries/fair_pools.py`). A single
    query uses all executors.

    A standalone application acquires `spark.cores.max` cores immediately unless dynamic allocation is on. Dynamic
    allocation requests its own target whenever that target changes. The minimum equals the initial number, so that the
    target does not decrease when there are few tasks, and the timeouts never expire, so that the target does not
    increase (`org.apache.spark.ExecutorAllocationManager`). The driver then requests other totals, also smaller ones,
    without changing that target (`executors/executor_pool.py`).

    Args:
        executors: number of executors at the start.
        max_executors: maximum number of executors of the job.
        executor_cores: cores (slots) of an executor.
        executor_memory_mb: heap of an executor in MiB.
    """
    if not 1 <= executors <= max_executors:
        raise ValueError(f"executors must be in 1..{max_executors} (max_executors), is {executors}")
    allocation = "spark.dynamicAllocation."
    return {
        "spark.executor.cores": str(executor_cores),
        "spark.executor.memory": f"{executor_memory_mb}m",
        "spark.cores.max": str(max_executors * executor_cores),
        "spark.scheduler.mode": "FAIR",
        f"{allocation}enabled": "true",
        f"{allocation}shuffleTracking.enabled": "true",
        f"{allocation}initialExecutors": str(executors),
        f"{allocation}minExecutors": str(executors),
        f"{allocation}maxExecutors": str(max_executors),
        f"{allocation}schedulerBacklogTimeout": OUT_OF_REACH,
        f"{allocation}executorIdleTimeout": OUT_OF_REACH,
        f"{allocation}cachedExecutorIdleTimeout": OUT_OF_REACH,
        f"{allocation}shuffleTracking.timeout": OUT_OF_REACH,
    }
