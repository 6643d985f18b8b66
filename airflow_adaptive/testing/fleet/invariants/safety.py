"""Invariants that hold at every moment."""

from __future__ import annotations

import json

from airflow_adaptive.job.protocol.documents import DriverState
from airflow_adaptive.testing.fleet.environment import Environment
from airflow_adaptive.testing.fleet.invariants.violation import ViolationError


class Safety:
    """Checks one driver with queries for each job, exactly-once processing, existing slots, and that no finished job runs again."""

    def __init__(self, environment: Environment) -> None:
        """Check an environment from now on."""
        self._env = environment
        self._started = 0

    def check(self) -> None:
        """Check all invariants of this class. Raises `ViolationError`."""
        drivers = self._env.drivers
        active = [driver for driver in drivers.all_alive() if driver.runs_query]
        jobs = [driver.settings.job for driver in active]
        if len(set(jobs)) < len(jobs):
            names = ", ".join(driver.name for driver in active if jobs.count(driver.settings.job) > 1)
            raise ViolationError("one-driver", f"drivers with queries at the same time: {names}")
        for job, model in drivers.models.items():
            if model.violations:
                raise ViolationError("exactly-once", f"{job}: {model.violations[0]}")
        if drivers.cluster.overcommitted:
            raise ViolationError(
                "existing-slots", f"workers with more granted cores than cores: {drivers.cluster.overcommitted}"
            )
        self._check_new_drivers()

    def _check_new_drivers(self) -> None:
        for driver in self._env.drivers.started[self._started :]:
            self._require_unfinished(driver.settings.job, driver.name)
        self._started = len(self._env.drivers.started)

    def _require_unfinished(self, job: str, name: str) -> None:
        """Raise `ViolationError` if the driver status of the job is FINISHED, and no user has cleared its task."""
        path = f"{self._env.directory(job)}/status.json"
        files = self._env.storage(job).files
        state = json.loads(files.read(path))["state"] if files.contains(path) else None
        if state == DriverState.FINISHED and job not in self._env.cleared:
            raise ViolationError("finished-once", f"{name} starts although the job has finished")
