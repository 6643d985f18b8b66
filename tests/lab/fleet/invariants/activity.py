"""No loop is inactive for longer than its bound."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Finished
from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.airflow.triggerer import SimulatedTriggerer
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.violation import ViolationError

CHECK_INTERVAL_S: Final = 5.0
"""Interval between two checks."""

BOUND_S: Final = 45.0
"""Longest time between two reads of the driver status by the loop of a job, seconds."""

TOKEN_S: Final = 15.0
"""Further time while masters with a fault refuse a token, and Airflow, which has a fault, too, returns the new token late, seconds."""

PUBLICATION_S: Final = 120.0
"""Further time for a loop whose job has ended: it publishes the end, while many loops share the connection to Airflow, seconds."""

CALLS: Final = 20
"""Largest number of calls to a storage that a loop makes one after the other between two reads of the driver status."""


class Activity:
    """Checks that each loop reads the status of its driver, whatever happens to other jobs, to the cluster and to Airflow.

    The bound does not count while the loop cannot read: its process is frozen, or its storage has a fault. It does not count either while
    Airflow has a fault and the loop has not read the connections of its job yet.
    """

    def __init__(self, environment: Environment) -> None:
        """Check an environment from now on."""
        self._env = environment
        self._counts_since: dict[str, float] = {}
        self._delays_s: dict[str, float] = {}
        self._triggers: dict[str, tuple[int, str | None]] = {}

    def check(self) -> None:
        """Check all jobs. Raises `ViolationError`."""
        now = self._env.kernel.now
        for job in self._env.airflow.scheduler.tasks:
            delay_s = self._delay_s(job)
            if not self._can_read(job) or delay_s < self._delays_s.get(job, 0.0):
                self._counts_since[job] = now
            self._delays_s[job] = delay_s
            last_s = max(self._read_s(job), self._counts_since[job])
            late_s = now - last_s - BOUND_S - self._token_s(last_s, now) - CALLS * delay_s
            if late_s > 0 and not (late_s <= PUBLICATION_S and self._has_ended(job)):
                raise ViolationError(
                    "activity", f"the loop of {job} has not read the driver status for {now - last_s:.0f} s"
                )

    def _can_read(self, job: str) -> bool:
        """Return whether the loop of a job runs, and nothing hinders it. A trigger that is new in its triggerer begins a new interval."""
        instance = self._env.airflow.scheduler.instance(self._env.airflow.scheduler.tasks[job])
        trigger = self._env.airflow.api.database.triggers.get(instance.trigger_id or 0)
        if instance.state is not TaskState.DEFERRED or trigger is None:
            return False
        triggerer = self._triggerer(trigger.triggerer)
        if triggerer is None or not triggerer.runs(trigger.trigger_id):
            return False  # The trigger starts later, or it has fired and Airflow resumes the task later.
        started = (trigger.trigger_id, trigger.triggerer)
        is_new = self._triggers.get(job) != started
        if triggerer.process.is_frozen or self._has_storage_fault(job, triggerer):
            return False
        if is_new and self._env.airflow.api.faults.active:
            return False
        self._triggers[job] = started
        return not is_new

    def _token_s(self, since: float, now: float) -> float:
        """Return the time that a loop may need for a new token in an interval."""
        kinds = {
            event.kind.partition("_")[0]
            for event in self._env.scenario.events
            if event.at <= now and event.at + event.duration >= since
        }
        return TOKEN_S if {"token", "airflow", "master"} <= kinds else 0.0

    def _has_ended(self, job: str) -> bool:
        """Return whether the journal contains the end of the job, so that its loop has no driver status to read."""
        files = self._env.storage(job).files
        newest = max(files.paths(f"{self._env.directory(job)}/journal"), default=None)
        if newest is None:
            return False
        return isinstance(from_json(decode_document(JournalDocument, files.read(newest)).scheduler).current, Finished)

    def _triggerer(self, name: str | None) -> SimulatedTriggerer | None:
        return next((triggerer for triggerer in self._env.triggerers if triggerer.process.name == name), None)

    def _has_storage_fault(self, job: str, triggerer: SimulatedTriggerer) -> bool:
        return any(
            fnmatchcase(self._status_path(job), fault.path) and fnmatchcase(triggerer.process.name, fault.hosts)
            for fault in self._env.storage(job).faults.active
            if not fault.delay_s
        )

    def _delay_s(self, job: str) -> float:
        """Return by how many seconds each call to the storage of a job is late."""
        return sum(fault.delay_s for fault in self._env.storage(job).faults.active)

    def _read_s(self, job: str) -> float:
        return self._env.storage(job).read_at.get(self._status_path(job), 0.0)

    def _status_path(self, job: str) -> str:
        return f"{self._env.directory(job)}/status.json"
