"""No job is kept from free slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive._core.ports import MIB, Resources
from airflow_adaptive._core.scheduler.job_graph import DEFAULT_VERTEX
from tests.lab.fleet.cluster.driver import SimulatedDriver
from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.simulation.one_job import MEMORY_MB


class Growth:
    """Checks at the end that each job that runs has all slots that it may use, or that no slot is free.

    Another job that waits for more slots than exist keeps slots free only for a limited time. A job that does not get the slots of its
    plan, for example because the master has lost its driver, may reserve free slots.
    """

    def __init__(self, environment: Environment) -> None:
        """Check an environment at its end."""
        self._env = environment

    def check(self) -> None:
        """Check all jobs. Raises `ViolationError`."""
        workers = self._env.drivers.cluster.workers
        if not any(Resources(1000, MEMORY_MB * MIB).count_in(worker.free) for worker in workers):
            return
        running = [(job, driver) for job in self._env.jobs for driver in self._env.drivers.with_queries(job)]
        if all(self._has_plan(job, driver) for job, driver in running):
            for job, driver in running:
                self._require_slots(job, driver)

    def _has_plan(self, job: str, driver: SimulatedDriver) -> bool:
        """Return whether a job has the slots of its plan, and no rescale is in progress."""
        summary = self._env.summary(job)
        planned = sum((summary.get("parallelism") or {}).values())
        return summary.get("state") == "Executing" and self._slots(driver) >= planned

    def _require_slots(self, job: str, driver: SimulatedDriver) -> None:
        slots, upper = self._slots(driver), self._upper(self._env.summary(job))
        if upper is not None and slots < upper:
            raise ViolationError("growth", f"{job} has {slots} slots and may have {upper}, and slots are free")

    def _slots(self, driver: SimulatedDriver) -> int:
        return len(self._env.drivers.cluster.executors(driver.submission_id))

    def _upper(self, summary: Mapping[str, Any]) -> int | None:
        bounds: Mapping[str, int] = (summary.get("requirements") or {}).get(DEFAULT_VERTEX, {})
        return bounds.get("upper")
