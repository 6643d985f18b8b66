"""Names and labels of the objects of a job. Pure.

Theory: the names of jobs are texts, and the names of Kubernetes are DNS labels. Each job is mapped to a DNS label of its own: a job id that is not
a short DNS label is abbreviated, and gets a hash of the id. The pod of a driver is named after the job, the epoch and the nonce, so a
repeated submission meets the pod of the first submission.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_adaptive._core.ports import Resources

Json = Mapping[str, Any]
"""An object, or a part of an object, as the Kubernetes API returns it."""

JOB: Final = "airflow-adaptive/job"
"""Label with the mapped name of the job, and annotation with the id of the job."""

EPOCH: Final = "airflow-adaptive/epoch"
NONCE: Final = "airflow-adaptive/nonce"

EXECUTOR_REQUEST: Final = "airflow-adaptive/executor-request"
"""Annotation of a driver with the request that the job calculates for each executor."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "airflow-adaptive"

ROLE: Final = "spark-role"
APPLICATION: Final = "spark-app-selector"
"""Labels that Spark gives its executors, too."""

MAX_PREFIX: Final = 47
"""Longest name of a driver pod, because the names of executor pods begin with it (`spark.kubernetes.executor.podNamePrefix`)."""

MAX_JOB: Final = 30

HASH: Final = 8

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class DriverIdentity:
    """The identity of a submission.

    Attributes:
        job: id of the job.
        epoch: epoch of the driver.
        nonce: nonce of the journal that assigned the epoch.
    """

    job: str
    epoch: int
    nonce: str

    @property
    def pod(self) -> str:
        """Name of the pod, the ConfigMap and the Secret, and the id of the application."""
        return f"{job_name(self.job)}-{self.epoch}-{_hash(self.nonce)}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the driver and of its executors."""
        return {JOB: job_name(self.job), EPOCH: str(self.epoch), MANAGED_BY: MANAGER}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the objects of the driver."""
        return {JOB: self.job, NONCE: self.nonce}


def job_name(job: str) -> str:
    """Return the DNS label of a job; other jobs have other labels."""
    if len(job) <= MAX_JOB and _DNS_LABEL.fullmatch(job):
        return job
    short = re.sub(r"[^a-z0-9]+", "-", job.lower())[: MAX_JOB - HASH - 1].strip("-")
    return f"{short or 'job'}-{_hash(job)}"


def submission_id(pod: str, uid: str) -> str:
    """Return the submission id of the driver in a pod."""
    return f"{pod}@{uid}"


def read_submission_id(submission: str) -> tuple[str, str]:
    """Return name and uid of the pod of a driver. Both are empty for the id of another cluster manager."""
    name, separator, uid = submission.partition("@")
    return (name, uid) if separator else ("", "")


def to_annotation(request: Resources) -> str:
    """Return the annotation of a driver with the request of its executors."""
    return json.dumps([request.cpu_millicores, request.memory_bytes])


def annotated_request(driver: Json) -> Resources | None:
    """Return the request of the executors of a driver, None if the annotation is missing or was changed."""
    text = (driver["metadata"].get("annotations") or {}).get(EXECUTOR_REQUEST)
    try:
        cpu_millicores, memory_bytes = json.loads(text or "")
        return Resources(int(cpu_millicores), int(memory_bytes))
    except (OverflowError, RecursionError, TypeError, ValueError):
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:HASH]
