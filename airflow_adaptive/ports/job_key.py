"""The identity of a job. Pure.

Theory: a job id is unique only in its scope. The id of the job of a task is unique in Airflow, and the id of the job of a mapped task is unique in this
task. A key contains the scope, and everything that belongs to one job derives from its key: its name in messages, requests, metrics, journal documents
and Spark, its Airflow Asset, the labels of its pods, and the folder of its directory. Two jobs with different keys therefore never share any of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Id of a job: a valid name of a folder on any storage."""

SEPARATOR: Final = ":"
"""Separates the parts of the name of a job, and of a key in Airflow's stores. Neither ids of Airflow nor job ids contain it."""

FOLDER_SEPARATOR: Final = "~"
"""Separates the parts of the folder of a fleet. Neither ids of Airflow nor job ids contain it."""

MAX_FOLDER: Final = 200
"""Longest name of the folder of a fleet, because file systems allow 255 bytes. A longer name, or one that is not ASCII, is replaced by a hash."""


@dataclass(frozen=True, slots=True)
class JobKey:
    """The identity of a job.

    Attributes:
        job: id of the job.
        dag_id: DAG of the mapped task that runs the fleet of the job; "" for a job without a fleet.
        task_id: the mapped task; "" for a job without a fleet.
    """

    job: str
    dag_id: str = ""
    task_id: str = ""

    @classmethod
    def of(cls, job: str, dag_id: str, task_id: str, map_index: int) -> JobKey:
        """Return the key of the job that a task instance runs."""
        return cls(job) if map_index < 0 else cls(job, dag_id, task_id)

    @classmethod
    def parse(cls, name: str) -> JobKey:
        """Return the key of the job with this name."""
        dag_id, _, rest = name.partition(SEPARATOR)
        task_id, is_of_fleet, job = rest.partition(SEPARATOR)
        return cls(job, dag_id, task_id) if is_of_fleet else cls(name)

    @property
    def is_of_fleet(self) -> bool:
        """Whether a mapped task runs the job."""
        return bool(self.dag_id)

    @property
    def name(self) -> str:
        """Name of the job."""
        return SEPARATOR.join((self.dag_id, self.task_id, self.job)) if self.is_of_fleet else self.job

    @property
    def folder(self) -> str:
        """Folder of the job below the folder of all job directories. Raises `ValueError` if the id is not a valid job id."""
        if not JOB_ID.fullmatch(self.job):
            raise ValueError(f"job id {self.job!r} must match {JOB_ID.pattern}")
        if not self.is_of_fleet:
            return self.job
        fleet = FOLDER_SEPARATOR.join((self.dag_id, self.task_id))
        if not fleet.isascii() or len(fleet) > MAX_FOLDER:
            fleet = f"{FOLDER_SEPARATOR}{sha256(fleet.encode()).hexdigest()}"
        return f"{fleet}/{self.job}"
