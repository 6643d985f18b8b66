"""The invariant that no job is kept from free slots."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.fleet.environment import Environment
from tests.lab.fleet.invariants.growth import Growth
from tests.lab.fleet.invariants.violation import ViolationError
from tests.lab.fleet.seeds import scenario_of


def running(state: str, upper: int, workers: tuple[int, ...], planned: int = 0) -> Any:
    """Return an environment in which a job without executors runs queries."""
    environment: Any = Environment(replace(scenario_of(1), workers=workers))
    driver = SimpleNamespace(
        settings=SimpleNamespace(job="job-0"),
        submission_id="driver-1",
        runs_query=True,
        processes=SimpleNamespace(is_alive=True),
    )
    environment.drivers.started.append(driver)
    environment.drivers.cluster.executors = lambda submission_id: ()
    summary = {"state": state, "requirements": {"job": {"lower": 1, "upper": upper}}, "parallelism": {"job": planned}}
    environment.airflow.api.database.asset_states["adaptive://job/job-0"]["summary"] = summary
    return environment


def test_a_job_below_its_upper_bound_beside_a_free_slot_is_found():
    with pytest.raises(ViolationError, match="growth: job-0 has 0 slots and may have 2, and slots are free"):
        Growth(running("Executing", 2, workers=(4,))).check()


def test_a_job_without_free_slots_or_at_its_upper_bound_or_that_restarts_is_no_violation():
    Growth(running("Executing", 2, workers=())).check()
    Growth(running("Executing", 0, workers=(4,))).check()
    Growth(running("Restarting", 2, workers=(4,))).check()


def test_a_job_that_waits_for_the_slots_of_its_plan_may_reserve_free_slots():
    Growth(running("Executing", 2, workers=(4,), planned=1)).check()
