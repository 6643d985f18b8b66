"""Spark properties of an adaptive job: what it is submitted with, and how its driver learns what it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "spark.airflow.adaptive."

OUT_OF_REACH = "1000000s"
"""A timeout of dynamic allocation that never passes: executors come and go by our word alone."""


class NotSubmittedError(RuntimeError):
    """The script was not submitted by the adaptive scheduler, so there is nobody whose directives it could obey."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """How the driver learns what it is and how it behaves, from the properties it was submitted with.

    Attributes:
        job: id of the job.
        directory: URI of the job directory.
        epoch: of this driver.
        nonce: of the log that gave the epoch.
        lease_timeout_s: the driver stops when it could not read the log for so long.
        poll_interval_s: between two looks at the log.
        heartbeat_interval_s: the status is written at least so often.
        stop_timeout_s: a batch that does not end within it is cut when its query has to stop.
        orphan_timeout_s: the driver stops when nobody has written to the log for so long.
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
        """Refuse intervals that would let the lease run out by themselves."""
        durations = ("lease_timeout_s", "poll_interval_s", "heartbeat_interval_s", "stop_timeout_s", "orphan_timeout_s")
        for name in durations:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, is {getattr(self, name)!r}")
        if self.poll_interval_s >= self.lease_timeout_s:
            raise ValueError(f"poll interval {self.poll_interval_s} s must be below lease {self.lease_timeout_s} s")


def read_settings(get: Callable[[str], str | None]) -> DriverSettings:
    """Settings from Spark's properties.

    Args:
        get: value of a Spark property, None if it is not set.

    Raises:
        NotSubmittedError: a property that names the job is missing.
        ValueError: a property has no sense.
    """
    identity = {name: get(PREFIX + name) for name in ("job", "directory", "epoch", "nonce")}
    missing = [PREFIX + name for name, value in identity.items() if not value]
    if missing:
        raise NotSubmittedError(
            f"{', '.join(missing)} not set: a script with AdaptiveJob is submitted by AdaptiveSparkOperator "
            "(airflow-adaptive), which sets them; it can't be run by spark-submit or python alone"
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
    """Properties that start a session with exactly `executors` executors and let only its driver change their number.

    The queries of a job share the executors by pools (`pools.py`), which is what `FAIR` is for; one query has all as ever.

    A standalone application takes `spark.cores.max` at once unless dynamic allocation is on. Dynamic allocation
    declares its own target whenever that changes: minimum = initial keeps it from sinking when there are few tasks, and
    timeouts out of reach from rising (`org.apache.spark.ExecutorAllocationManager`). The driver then declares other
    totals behind its back, also smaller ones (`executors.py`).

    Args:
        executors: to start with.
        max_executors: the most that the job may ever hold.
        executor_cores: cores (slots) of an executor.
        executor_memory_mb: heap of an executor, MiB.
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
