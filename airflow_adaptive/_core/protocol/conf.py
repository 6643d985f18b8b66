"""Spark properties of an adaptive job, and the settings that the driver reads from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "spark.airflow.adaptive."

PACKAGES_PROPERTY = f"{PREFIX}packages"
"""Property with the Maven packages that the launcher resolves, separated by commas."""


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
