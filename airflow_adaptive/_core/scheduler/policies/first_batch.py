"""The limit of equal failures of a job that has never committed a batch with its current deployment (`max_failures_before_first_batch`).

Theory: as long as no batch of a deployment has been committed, nothing proves that the deployment can work. If the same failure
occurs again and again, a restart does not help: the code, its arguments, its properties or its environment is wrong. Two failures are
equal if they have the same error class and the same message; numbers, paths, ids and times in a message do not count.

A failure that an outage may have caused (`failure_handling.is_outage`) is different. It counts only until the job has completed its first
trigger, with this or an earlier deployment, also a trigger without data: from then on, the job is known to reach its cluster, its storage
and its sources, so that the failure is expected to heal. A query that waits for data completes triggers, and never fails meanwhile. Until then,
equal refusals of a submission must last for `OUTAGE_TIME`, because a master that restarts refuses several submissions within seconds. Each other
failure takes a driver.

A batch has no trigger and no committed batch before it ends, so all its failures count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2s

from airflow_adaptive._core.scheduler.policies.failure_handling import (
    UNSUBMITTED,
    Failure,
    is_outage,
    is_outage_for_all,
)

MAX_KINDS = 16
"""Number of different failures that are counted; the newest ones are kept, because every snapshot contains them."""

MAX_FAILURES = 3
"""Number of failures in a row after which a deployment does not work any more, or cannot be prepared."""

OUTAGE_TIME = timedelta(minutes=1)
"""Shortest time from the first to the last of equal submissions that the cluster has not accepted."""

_VARIABLE = re.compile(r"[^\s=,;()\[\]{}'\"]*[/\\@][^\s,;()\[\]{}'\"]*|[\w.:+-]*\d[\w.:+-]*|\b[0-9a-fA-F]{8,}\b")
"""What differs between two equal failures: paths, addresses and object ids, and words with digits such as ids, times and numbers."""

_COMPARED_CHARACTERS = 400
"""Length of the start of a message that is compared: its end may contain the output of a driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualFailures:
    """Equal failures of one deployment.

    Attributes:
        count: number of the failures.
        since: time of the first one.
    """

    count: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRecord:
    """What the deployment of the newest driver, and the deployments before, have proved.

    Attributes:
        deployment: fingerprint of the deployment (`SchedulerState.deployment`).
        has_committed: whether the deployment has ever committed a batch.
        has_reached: whether the job has completed a trigger, with this deployment or an earlier one.
        failures: equal failures of the deployment, by their key.
        in_a_row: failures since the newest trigger that the deployment has completed, without outages; None before the first trigger.
    """

    deployment: str = ""
    has_committed: bool = False
    has_reached: bool = False
    failures: Mapping[str, EqualFailures] = field(default_factory=dict)
    in_a_row: int | None = None

    @property
    def works(self) -> bool:
        """Whether the deployment has completed a trigger, and has not failed again and again since."""
        return self.in_a_row is not None and self.in_a_row < MAX_FAILURES

    def started(self, deployment: str) -> DeploymentRecord:
        """Return the record after the start of a driver; another deployment has proved nothing yet."""
        return (
            self
            if deployment == self.deployment
            else replace(self.forgiven(), deployment=deployment, has_committed=False, in_a_row=None)
        )

    def forgiven(self) -> DeploymentRecord:
        """Return the record for a new run of the job, which a user or a schedule has started: failures count again from zero."""
        return replace(self, failures={}, in_a_row=None if self.in_a_row is None else 0)

    def progressed(self, *, has_committed: bool) -> DeploymentRecord:
        """Return the record after a trigger of the queries, which has committed a batch or has found no data."""
        return replace(self, has_committed=self.has_committed or has_committed, has_reached=True, in_a_row=0)

    def failed(self, failure: Failure, at: datetime) -> DeploymentRecord:
        """Return the record with one more failure, unless the failure does not count."""
        in_a_row = None if self.in_a_row is None else self.in_a_row + (not is_outage_for_all(failure))
        if self.has_committed or (self.has_reached and is_outage(failure)):
            return replace(self, in_a_row=in_a_row)
        key = key_of(failure)
        before = self.failures.get(key, EqualFailures(count=0, since=at))
        others = [(other, equal) for other, equal in self.failures.items() if other != key]
        kept = dict(others[-(MAX_KINDS - 1) :])
        counted = {**kept, key: replace(before, count=before.count + 1)}
        return replace(self, failures=counted, in_a_row=in_a_row)

    def repetitions(self, failure: Failure, at: datetime) -> int:
        """Return how often the deployment has failed in the same way; 0 while the cluster may still accept a driver."""
        equal = self.failures.get(key_of(failure))
        if equal is None or (equal.count > 1 and failure.error_class in UNSUBMITTED and at - equal.since < OUTAGE_TIME):
            return 0
        return equal.count


def gave_up(failure: Failure, repetitions: int) -> Failure:
    """Return the failure that ends the job: the repeated failure, with what follows from the repetition."""
    times = "once" if repetitions == 1 else f"{repetitions} times"
    text = (
        f"{failure.message}; this happened {times}, and this deployment has never committed a batch, so a restart does not help: remove the "
        "cause, and clear the task (max_failures_before_first_batch)"
    )
    return replace(failure, message=text)


def key_of(failure: Failure) -> str:
    """Return a key that equal failures have in common."""
    words = _VARIABLE.sub("#", failure.message[:_COMPARED_CHARACTERS]).split()
    return blake2s(" ".join([failure.error_class, *words]).encode(errors="replace"), digest_size=8).hexdigest()
