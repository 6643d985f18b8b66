"""Simulated jobs on a small cluster, and requests of their users."""

from collections.abc import Callable
from typing import Any

from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import Finished, Outcome, SchedulerState
from tests.lab.simulation.one_job import Simulation

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "2 s",
    "max_trigger_delay": "3 s",
}


def request(simulation: Simulation, desired_state: DesiredState) -> Callable[[], None]:
    return lambda: setattr(simulation.store, "requests", ControlRequests(desired_state=desired_state))


def outcome(state: SchedulerState) -> Outcome | None:
    return state.current.outcome if isinstance(state.current, Finished) else None


def newest_driver(simulation: Simulation) -> str:
    return list(simulation.cluster.submissions)[-1]
