"""The job as anybody can see it: through Airflow's REST API, and the progress that its driver reports."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from airflow_adaptive.job.protocol.codec import DocumentError, decode_status
from airflow_adaptive.job.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive.local.airflow_api import AirflowApi

DAG = "flight_departures"
TASKS = ("resources", "departures")
JOB = "flight_departures"

UNFINISHED = ("queued", "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of the job's state, as in the XCom `transitions`.

    Attributes:
        at: when.
        source: state that was left.
        target: state that was entered.
        version: of the state that was entered; grows by one with each transition.
        before: slots in use before, 0 if none.
        after: slots in use after, 0 if none.
        reason: why, in plain words.
    """

    at: datetime
    source: str
    target: str
    version: int
    before: int
    after: int
    reason: str

    @classmethod
    def from_xcom(cls, item: Mapping[str, Any]) -> Self:
        """Read one item of the XCom."""
        return cls(
            at=datetime.fromisoformat(item["at"]),
            source=item["source"],
            target=item["target"],
            version=item["version"],
            before=slots(item["before"]),
            after=slots(item["after"]),
            reason=item["reason"],
        )


class Job:
    """One run of the DAG and the streaming job in it."""

    def __init__(self, airflow: AirflowApi, run_id: str, job_directory: Path) -> None:
        """Look at a run that was triggered.

        Args:
            airflow: where it runs.
            run_id: of the DAG run.
            job_directory: the job's own, with its driver's report.
        """
        self._airflow = airflow
        self._run_id = run_id
        self._status_file = job_directory / "status.json"
        self._status: DriverStatus | None = None

    @property
    def run_state(self) -> str:
        """State of the DAG run."""
        return self._airflow.run_state(DAG, self._run_id)

    @property
    def is_over(self) -> bool:
        """Whether the DAG run has ended, well or badly."""
        return self.run_state not in UNFINISHED

    @property
    def state(self) -> str | None:
        """State of the job, None before it has one."""
        state: str | None = self._xcom("state")
        return state

    @property
    def parallelism(self) -> int:
        """Slots that the job uses, 0 if none."""
        return slots(self._xcom("parallelism"))

    @property
    def transitions(self) -> list[Transition]:
        """All transitions so far, oldest first."""
        return [Transition.from_xcom(item) for item in self._xcom("transitions") or ()]

    @property
    def status(self) -> DriverStatus | None:
        """The driver's newest report, None before the first."""
        # Hadoop's local file system deletes a file before it replaces it: a report is good until there is another.
        with suppress(FileNotFoundError, DocumentError):
            self._status = decode_status(self._status_file.read_bytes())
        return self._status

    @property
    def query(self) -> QueryReport | None:
        """Progress of its query, None before the first report of it."""
        status = self.status
        return status.queries[0] if status is not None and status.queries else None

    @property
    def submission_id(self) -> str:
        """The cluster's id of its driver.

        Raises:
            LookupError: the driver has not reported it.
        """
        status = self.status
        if status is None or status.submission_id is None:
            raise LookupError(f"no driver's id in {self._status_file}")
        return status.submission_id

    def suspend(self) -> None:
        """Ask for a graceful stop: the wish goes into the state store of the asset that the job is."""
        self._airflow.set_asset_state(JOB, "desired_state", "suspended")

    def log(self) -> str:
        """The logs of the DAG's tasks."""
        return "\n".join(self._airflow.task_log(DAG, self._run_id, task) for task in TASKS)

    def _xcom(self, key: str) -> Any:
        return self._airflow.xcom(DAG, self._run_id, TASKS[-1], key)


def slots(parallelism: Mapping[str, int] | None) -> int:
    """Slots that a plan occupies when all its vertices share them."""
    return max((parallelism or {}).values(), default=0)
