"""Spark properties that all clients set and check, and secret ones, whose values are masked in output.

The properties that decide how the session of a driver starts, grows and shrinks override those of users, because only the driver changes the
number of executors of an adaptive job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from airflow_adaptive._clusters.connection_fields import LAUNCH_PREFIXES
from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError
from airflow_adaptive._core.protocol.secret_names import (
    REDACTION_PATTERN,
    is_secret,
    is_secret_name,
    secret_parts,
)

OUT_OF_REACH: Final = "1000000s"
"""A timeout of dynamic allocation that never expires: only the driver's requests add or remove executors."""

ALLOCATION: Final = "spark.dynamicAllocation."


def check_submission(submission: DriverSubmission) -> None:
    """Check that a submission is safe to send.

    Raises `SubmissionRefusedError` if the driver has no size, the number of its executors is out of bounds, or the cluster would restart the driver
    without the scheduler.
    """
    if submission.driver_cores < 1 or submission.driver_memory_mb < 1:
        raise SubmissionRefusedError(
            f"driver of {submission.name!r} with {submission.driver_cores} cores and {submission.driver_memory_mb} MiB: "
            "both must be at least 1"
        )
    fewest = 0 if submission.is_standby else 1
    if not fewest <= submission.executors <= submission.max_executors:
        raise SubmissionRefusedError(
            f"driver of {submission.name!r} with {submission.executors} executors: "
            f"the number must be in {fewest}..{submission.max_executors}"
        )
    if submission.conf.get("spark.driver.supervise", "false").lower() != "false":
        raise SubmissionRefusedError(
            f"spark.driver.supervise of {submission.name!r} must be off: the scheduler restarts the driver, not the cluster"
        )


def standalone_properties(submission: DriverSubmission) -> Mapping[str, str]:
    """Return the properties of a driver on a standalone cluster. Raises as `check_submission`.

    A standalone application acquires `spark.cores.max` cores immediately unless dynamic allocation is on. Dynamic
    allocation requests its own target whenever that target changes. The minimum equals the initial number, so that the
    target does not decrease when there are few tasks, and the timeouts never expire, so that the target does not
    increase (`org.apache.spark.ExecutorAllocationManager`). The driver then requests other totals, also smaller ones,
    without changing that target (`job/executors.py`).
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
    """Return the properties that are the same on every cluster manager. Raises as `check_submission`.

    The FAIR scheduler mode lets the queries of a job share the executors by pools (`job/queries/job_queries.py`). A single
    query uses all executors.
    """
    check_submission(submission)
    return {
        "spark.executor.cores": str(submission.executor_cores),
        "spark.executor.memory": f"{submission.executor_memory_mb}m",
        "spark.scheduler.mode": "FAIR",
    }


REDACTION = "spark.redaction.regex"
"""Property with the pattern of names and values that Spark's web pages and event logs redact."""

SHORTEST = 5
"""Minimum length of a masked value. Shorter values also occur in ordinary words; Airflow has the same limit (`[logging]
min_length_masked_secret`)."""

FLAGS = ("true", "false")

MASK = "***"


def redaction_pattern(names: Iterable[str]) -> str:
    """Return the value of `REDACTION` for secrets that the provider recognizes, and for properties with these names."""
    return "|".join((REDACTION_PATTERN, *(f"^{re.escape(name)}$" for name in sorted(names))))


def secret_properties(properties: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Return the secret properties that the runtime sets on the session. spark-submit reads the others before the runtime starts.

    The values of `names` are secret whatever their names.
    """
    secret = {name: value for name, value in properties.items() if name in names or is_secret(name, value)}
    return {
        name: value
        for name, value in secret.items()
        if name in names or is_secret_name(name) or not name.startswith(LAUNCH_PREFIXES)
    }


def secret_values(properties: Mapping[str, str], names: frozenset[str], variables: Mapping[str, str]) -> list[str]:
    """Return the values, and the secrets in them, that no output may contain: of secret properties, of `names`, and of all variables."""
    secret = [value for name, value in properties.items() if name in names or is_secret(name, value)]
    return [part for value in (*secret, *variables.values()) for part in secret_parts(value)]


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the values masked, longest first, because a value may be part of another value."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST and secret.lower() not in FLAGS:
            text = text.replace(secret, MASK)
    return text


_IN_NAMES: Final = re.compile(r"[\\:=#! \t\n\r\f]")
_IN_VALUES: Final = re.compile(r"[\\\n\r\f]|^[ \t]")
_LETTERS: Final = {"\n": "n", "\r": "r", "\f": "f", "\t": "t"}


def to_file(properties: Mapping[str, str]) -> str:
    """Return the properties in the format of `java.util.Properties`."""
    lines = [
        f"{_escaped(name, _IN_NAMES)}={_escaped(value, _IN_VALUES)}\n" for name, value in sorted(properties.items())
    ]
    return "".join(lines)


def _escaped(text: str, special: re.Pattern[str]) -> str:
    return special.sub(lambda found: "\\" + _LETTERS.get(found[0], found[0]), text)
