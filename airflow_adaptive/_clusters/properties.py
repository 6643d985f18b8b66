"""Spark properties that decide how the session of a driver starts, grows and shrinks, and checks that all clients make.

The properties override those of users, because only the driver changes the number of executors of an adaptive job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError

OUT_OF_REACH: Final = "1000000s"
"""A timeout of dynamic allocation that never expires: only the driver's requests add or remove executors."""

ALLOCATION: Final = "spark.dynamicAllocation."


def check_submission(submission: DriverSubmission) -> None:
    """Check that a submission is safe to send.

    Raises:
        SubmissionRefusedError: the driver has no size, the number of its executors is out of bounds, or the cluster would restart the
            driver without the scheduler.
    """
    if submission.driver_cores < 1 or submission.driver_memory_mb < 1:
        raise SubmissionRefusedError(
            f"driver of {submission.name!r} with {submission.driver_cores} cores and {submission.driver_memory_mb} MiB: "
            "both must be at least 1"
        )
    if not 1 <= submission.executors <= submission.max_executors:
        raise SubmissionRefusedError(
            f"driver of {submission.name!r} with {submission.executors} executors: "
            f"the number must be in 1..{submission.max_executors}"
        )
    if submission.conf.get("spark.driver.supervise", "false").lower() != "false":
        raise SubmissionRefusedError(
            f"spark.driver.supervise of {submission.name!r} must be off: the scheduler restarts the driver, not the cluster"
        )


def standalone_properties(submission: DriverSubmission) -> Mapping[str, str]:
    """Return the properties of a driver on a standalone cluster.

    A standalone application acquires `spark.cores.max` cores immediately unless dynamic allocation is on. Dynamic
    allocation requests its own target whenever that target changes. The minimum equals the initial number, so that the
    target does not decrease when there are few tasks, and the timeouts never expire, so that the target does not
    increase (`org.apache.spark.ExecutorAllocationManager`). The driver then requests other totals, also smaller ones,
    without changing that target (`job/executors.py`).

    Raises:
        SubmissionRefusedError: see `check_submission`.
    """
    return {
        **common_properties(submission),
        "spark.cores.max": str(submission.max_executors * submission.executor_cores),
        f"{ALLOCATION}enabled": "true",
        f"{ALLOCATION}shuffleTracking.enabled": "true",
        f"{ALLOCATION}initialExecutors": str(submission.executors),
        f"{ALLOCATION}minExecutors": str(submission.executors),
        f"{ALLOCATION}maxExecutors": str(submission.max_executors),
        f"{ALLOCATION}schedulerBacklogTimeout": OUT_OF_REACH,
        f"{ALLOCATION}executorIdleTimeout": OUT_OF_REACH,
        f"{ALLOCATION}cachedExecutorIdleTimeout": OUT_OF_REACH,
        f"{ALLOCATION}shuffleTracking.timeout": OUT_OF_REACH,
    }


def common_properties(submission: DriverSubmission) -> Mapping[str, str]:
    """Return the properties that are the same on every cluster manager.

    The FAIR scheduler mode lets the queries of a job share the executors by pools (`job/queries/fair_pools.py`). A single
    query uses all executors.

    Raises:
        SubmissionRefusedError: see `check_submission`.
    """
    check_submission(submission)
    return {
        "spark.executor.cores": str(submission.executor_cores),
        "spark.executor.memory": f"{submission.executor_memory_mb}m",
        "spark.scheduler.mode": "FAIR",
    }
