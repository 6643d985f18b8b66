"""Invariants that hold at every moment."""

from __future__ import annotations

import json

from airflow_adaptive._core.protocol.documents import DriverState
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.violation import ViolationError


class Safety:
    """Checks one driver with queries for each job, exactly-once processing, existing slots, and that no finished job runs again."""

    def __init__(self, environment: Environment) -> None:
        """Check an environment from now on."""
        self._env = environment
        self._started = 0
        self._contested: set[str] = set()
        """Jobs with several drivers. All other jobs cannot have two drivers with queries."""

    def check(self) -> None:
        """Check all invariants of this class. Raises `ViolationError`. The simulation calls this function after each event."""
        drivers = self._env.drivers
        if len(drivers.started) > self._started:
            self._check_new_drivers()
        if self._contested:
            for job in tuple(self._contested):
                self._require_one_driver(job)
        if drivers.violations:
            raise ViolationError("exactly-once", drivers.violations[0])
        if drivers.cluster.excesses:
            raise ViolationError("existing-slots", drivers.cluster.excesses[0])

    def _check_new_drivers(self) -> None:
        for driver in self._env.drivers.started[self._started :]:
            self._contested.add(driver.settings.job)
            self._require_unfinished(driver.settings.job, driver.name)
        self._started = len(self._env.drivers.started)

    def _require_one_driver(self, job: str) -> None:
        alive = self._env.drivers.alive(job)
        if len(alive) <= 1:
            self._contested.remove(job)
        active = [driver.name for driver in alive if driver.runs_query]
        if len(active) > 1 and not self._env.drivers.models[job].is_resuming:
            raise ViolationError("one-driver", f"drivers with queries at the same time: {', '.join(active)}")

    def _require_unfinished(self, job: str, name: str) -> None:
        """Raise `ViolationError` if the driver status of the job is FINISHED, and no user has cleared its task."""
        path = f"{self._env.directory(job)}/status.json"
        files = self._env.storage(job).files
        state = json.loads(files.read(path))["state"] if files.contains(path) else None
        if state == DriverState.FINISHED and job not in self._env.cleared:
            raise ViolationError("finished-once", f"{name} starts although the job has finished")
