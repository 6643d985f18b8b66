"""Steps of the real loop on a simulated cluster: rescale tiers, new deployments, and scale-up controllers that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.cluster.shared_cluster import Participant
from airflow_adaptive._engine.loop import RunLimits
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "2 s",
    "max_trigger_delay": "3 s",
}
MISTAKE = FailureReport(error_class="ZeroDivisionError", message="division by zero", causes=("BUILD_FUNCTION_ERROR",))


@pytest.fixture
def small() -> Simulation:
    """A cluster with room for the driver and one slot; a second slot comes after 20 s."""
    simulation = Simulation(**QUICK)
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    simulation.clock.at(20, lambda: simulation.cluster.add_worker(cores=1, memory_mb=512))
    return simulation


def run_until(simulation: Simulation, seconds: int) -> Executing:
    """Run a loop until then; the job executes."""
    current = simulation.run(RunLimits(recycle_at=START + timedelta(seconds=seconds))).current
    assert isinstance(current, Executing)
    return current


def test_query_that_does_not_depend_on_its_slots_runs_on_when_one_is_added(small: Simulation) -> None:
    small.drivers.vertices_read = ()
    assert run_until(small, 60).plan.parallelism == {"job": 2}
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [1]
    assert small.states == ["WaitingForResources", "Deploying", "Executing", "Deploying", "Executing"]


def test_function_that_fails_for_another_plan_leaves_the_job_as_it_was(small: Simulation) -> None:
    small.clock.at(10, lambda: setattr(small.drivers, "build_failure", MISTAKE))
    assert run_until(small, 120).plan.parallelism == {"job": 1}
    assert [parallelism["job"] for _, _, parallelism in small.drivers.started] == [1]
    assert "division by zero" in small.transitions[-1].reason
    assert small.states.count("Deploying") == 2


def test_new_attempt_with_other_properties_gets_a_new_driver(
    small: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a plan that was left without its slots delays larger plans."""
    monkeypatch.setattr(Participant, "back_off", None)
    run_until(small, 60)
    options = replace(small.spec.options, prepare_deployments=False)
    conf = {"spark.sql.session.timeZone": "UTC"}
    small.spec = replace(small.spec, attempt="attempt-2", conf=conf, options=options)
    run_until(small, 120)
    assert [(epoch, parallelism["job"]) for epoch, _, parallelism in small.drivers.started] == [(1, 1), (1, 2), (2, 2)]


@pytest.mark.parametrize("change", [{"attempt": "attempt-2"}, {"priority": 7}, {}], ids=str)
def test_driver_is_adopted_if_it_would_be_started_with_the_same(small: Simulation, change: dict[str, Any]) -> None:
    run_until(small, 60)
    small.spec = replace(small.spec, **change)
    run_until(small, 120)
    assert [epoch for epoch, _, _ in small.drivers.started] == [1, 1]


def test_fingerprint_distinguishes_deployments_and_reveals_no_values(small: Simulation) -> None:
    secret = replace(small.spec, conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"})
    others = [
        secret,
        replace(small.spec, script="file:///jobs/job/code/other.py"),
        replace(small.spec, args=("--from", "2013")),
        replace(small.spec, executor=replace(small.spec.executor, memory_mb=1024)),
        replace(small.spec, driver_template="{}"),
        replace(small.spec, executor_template="{}"),
    ]
    assert len({small.spec.deployment, *[other.deployment for other in others]}) == len(others) + 1
    assert "hunter2" not in secret.deployment


class BrokenController:
    """A scale-up controller of a DAG author with a defect."""

    def can_scale_up(self, current: Mapping[str, int], new: Mapping[str, int]) -> bool:
        return new["no such vertex"] > current["no such vertex"]


def test_scale_up_controller_that_fails_is_replaced_and_reported() -> None:
    """The job runs, a worker joins, and the job's own controller raises `KeyError`; later the driver is lost."""
    controller = f"{BrokenController.__module__}:{BrokenController.__name__}"
    job = Simulation(**QUICK, scale_up_controller=controller)
    job.cluster.add_worker(cores=2, memory_mb=1024)
    job.clock.at(20, lambda: job.cluster.add_worker(cores=1, memory_mb=512))
    assert run_until(job, 60).plan.parallelism == {"job": 2}
    code = ReasonCode.SCALE_UP_CONTROLLER_FAILED
    (failure,) = [it for it in job.store.views[-1].history.decisions if it.reason_code is code]
    assert failure.reason == f"scale_up_controller {controller!r} failed (KeyError); minimal-increase decides instead"
    assert job.store.views[-1].scheduler.options.scale_up_controller == controller
