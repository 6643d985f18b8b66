"""No job is kept from free slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive.runtime.publishing.documents import SUMMARY
from airflow_adaptive.scheduler.job_graph import DEFAULT_VERTEX
from airflow_adaptive.testing.fleet.cluster.driver import SimulatedDriver
from airflow_adaptive.testing.fleet.environment import Environment
from airflow_adaptive.testing.fleet.invariants.violation import ViolationError
from airflow_adaptive.testing.simulation.one_job import MEMORY_MB


class Growth:
    """Checks at the end that each job that runs has all slots that it may use, or that no slot is free.

    Another job that waits for more slots than exist keeps slots free only for a limited time.
    """

    def __init__(self, environment: Environment) -> None:
        """Check an environment at its end."""
        self._env = environment

    def check(self) -> None:
        """Check all jobs. Raises `ViolationError`."""
        workers = self._env.drivers.cluster.workers
        if not any(worker.cores_free >= 1 and worker.memory_free_mb >= MEMORY_MB for worker in workers):
            return
        for job in self._env.jobs:
            for driver in self._env.drivers.with_queries(job):
                self._require_slots(job, driver)

    def _require_slots(self, job: str, driver: SimulatedDriver) -> None:
        summary = self._summary(job)
        slots, upper = len(self._env.drivers.cluster.executors(driver.submission_id)), self._upper(summary)
        if summary.get("state") == "Executing" and upper is not None and slots < upper:
            raise ViolationError("growth", f"{job} has {slots} slots and may have {upper}, and slots are free")

    def _upper(self, summary: Mapping[str, Any]) -> int | None:
        bounds: Mapping[str, int] = (summary.get("requirements") or {}).get(DEFAULT_VERTEX, {})
        return bounds.get("upper")

    def _summary(self, job: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._env.airflow.api.database.asset_states[job].get(SUMMARY) or {}
        return found
