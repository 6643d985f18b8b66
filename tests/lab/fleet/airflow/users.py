"""Users and programs: they request changes of jobs, and end or clear tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive._airflow.store.control_requests import store_request
from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive._core.requirements.control_requests import ControlRequest, Requester
from tests.lab.fleet.airflow.api_server import ApiServer, Record
from tests.lab.fleet.airflow.scheduler import Scheduler
from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import SimulatedProcess


@dataclass(slots=True, kw_only=True)
class MadeRequest:
    """A control request that a user has made.

    Attributes:
        job: id of the job.
        request: the request.
        accepted_at: time at which the request was stored, None before and after an error.
    """

    job: str
    request: ControlRequest
    accepted_at: float | None = None


class Users:
    """Everything that users do. Their process has one thread for each request.

    Attributes:
        requests: requests in the order in which they were made.
    """

    def __init__(self, kernel: Kernel, record: Record, api: ApiServer, scheduler: Scheduler) -> None:
        """Do nothing yet."""
        self.requests: list[MadeRequest] = []
        self._process = SimulatedProcess(kernel, "users")
        self._record = record
        self._api = api
        self._scheduler = scheduler

    def request(self, job: str, key: str, value: Any, expires_at: datetime | None = None) -> None:
        """Make a control request for a job.

        Args:
            job: id of the job.
            key: what is requested (`_core.requirements.control_requests.KEYS`).
            value: encoded value of the request.
            expires_at: when the request expires.
        """
        number = len(self.requests)
        requester = Requester(requested_by=f"user {number}", via="fleet", expires_at=expires_at)
        made = MadeRequest(job=job, request=ControlRequest(key=key, value=value, requester=requester))
        self.requests.append(made)
        self._process.soon(lambda: self._process.kernel.start_thread(lambda: self._store(made)))

    def _store(self, made: MadeRequest) -> None:
        what = f"{made.job}: request of {made.request.requester.requested_by}, {made.request.key}={made.request.value}"
        try:
            store_request(made.job, made.request)
        except AirflowRuntimeError as error:
            self._record(f"{what}, failed: {error}")
        else:
            made.accepted_at = self._process.kernel.now
            self._record(f"{what}, accepted")

    def end_task(self, job: str, state: TaskState) -> None:
        """Mark the task of a job as failed or successful. Its trigger is canceled."""
        task = self._scheduler.tasks[job]
        instance = self._scheduler.instance(task)
        instance.run += 1
        instance.trigger_id = None
        self._scheduler.end(task, instance, state)
        self._record(f"{job}: task marked {state}")

    def clear_task(self, job: str) -> None:
        """Clear the task of a job: it runs again, with as many retries as before."""
        task = self._scheduler.tasks[job]
        instance = self._scheduler.instance(task)
        instance.max_tries = instance.try_number + task.retries
        self._api.database.active_runs.add(task.key.run_id)
        self._record(f"{job}: task cleared")
        self._scheduler.queue(task)

    def empty_store(self, job: str) -> None:
        """Remove all documents of a job, as Airflow does for an asset that no DAG references for a time."""
        self._api.database.asset_states.pop(job_asset(job).name, None)
        self._record(f"{job}: asset store emptied")

    def set_connection(self, conn_id: str, fields: Mapping[str, Any]) -> None:
        """Define or change a connection, for example its password after a rotation of the token."""
        self._api.database.connections[conn_id] = dict(fields)
