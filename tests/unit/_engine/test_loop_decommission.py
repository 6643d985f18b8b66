"""An administrator takes executors of a job: the loop reports it, and does not fight it."""

from __future__ import annotations

from airflow_adaptive._core.protocol.documents import Decommission
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from tests.lab.simulation.one_job import MEMORY_MB, Simulation
from tests.support.runtime.loop_simulation import QUICK, request

WORKER = "http://10.0.0.7:8081"


def reports(simulation: Simulation) -> list[str]:
    decisions = simulation.store.views[-1].history.decisions
    return [it.reason for it in decisions if it.reason_code is ReasonCode.EXECUTORS_DECOMMISSIONED]


def set_decommission(simulation: Simulation, decommission: Decommission) -> None:
    simulation.drivers.decommission = decommission


def test_held_job_waits_for_its_executors_and_follows_new_bounds_afterwards() -> None:
    simulation = Simulation(**QUICK)
    simulation.cluster.add_worker(cores=5, memory_mb=5 * MEMORY_MB)
    states_after: dict[int, list[str]] = {}
    at = simulation.clock.at
    at(30, lambda: set_decommission(simulation, Decommission(held=True)))
    at(60, lambda: setattr(simulation.store, "requests", ControlRequests(requirements={"job": ParallelismRange(1, 2)})))
    at(300, lambda: states_after.update({300: list(simulation.states)}))
    at(300, lambda: set_decommission(simulation, Decommission()))
    at(400, request(simulation, DesiredState.SUSPENDED))
    simulation.run()
    assert states_after[300] == ["WaitingForResources", "Deploying", "Executing"]
    assert [parallelism for _, _, parallelism in simulation.drivers.started] == [{"job": 4}, {"job": 2}]
    held, resumed = reports(simulation)
    assert held.startswith("an administrator holds the Spark application")
    assert resumed == "nothing is decommissioned or held any more"


def test_held_job_can_be_canceled() -> None:
    simulation = Simulation(**QUICK)
    simulation.cluster.add_worker(cores=2, memory_mb=2 * MEMORY_MB)
    simulation.clock.at(30, lambda: set_decommission(simulation, Decommission(held=True)))
    simulation.clock.at(60, request(simulation, DesiredState.CANCELED))
    simulation.run_to_end()
    assert simulation.states[-2:] == ["Canceling", "Finished"]


def test_decommissioned_executors_are_reported_once_with_their_worker() -> None:
    simulation = Simulation(**QUICK)
    simulation.cluster.add_worker(cores=2, memory_mb=2 * MEMORY_MB)
    simulation.clock.at(30, lambda: set_decommission(simulation, Decommission(workers=(WORKER,))))
    simulation.clock.at(60, request(simulation, DesiredState.SUSPENDED))
    simulation.run()
    assert reports(simulation) == [f"executors are being decommissioned, and their slots leave: {WORKER}"]
