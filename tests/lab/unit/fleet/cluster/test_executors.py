"""The executors of simulated drivers, and the slots that exist."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.ports import MIB, Resources
from tests.lab.fleet.cluster.executors import LOSS_S
from tests.lab.fleet.cluster.job_model import WorkloadShape
from tests.support.fleet.one_job import JOB, OneJobFleet


@pytest.fixture
def running():
    fleet = OneJobFleet()
    fleet.add_workers(3)
    fleet.run_until(fleet.runs_with(2))
    return fleet


def test_executors_that_are_late_are_granted_and_do_not_run_tasks(running):
    end = running.cluster.late_executors(40)
    running.add_workers(1)
    running.run(30)
    assert len(running.cluster.executors(running.driver.submission_id)) == 3
    assert running.driver.slots == 2
    end()
    running.run_until(running.runs_with(3))


def test_a_driver_releases_only_executors_that_have_registered(running):
    running.cluster.late_executors(40)
    running.add_workers(1)
    running.run(30)
    executors, cluster, driver = running.driver._executors, running.cluster, running.driver.submission_id
    (late,) = cluster.executors_by_id(driver).keys() - {executor.executor_id for executor in executors.registered()}
    executors.release(2, {})
    assert len(cluster.executors(driver)) == 3
    executors.release(1, {})
    assert late in cluster.executors_by_id(driver)
    assert len(executors.registered()) == 1


def test_a_plan_without_its_executors_is_found(running):
    running.driver._executors.use(3)
    assert running.cluster.excesses == [f"{running.driver.submission_id} uses 3 executors and has 2"]


def test_a_plan_whose_executors_were_just_lost_is_no_violation():
    fleet = OneJobFleet(shape=WorkloadShape(batch_s=10 * LOSS_S))
    fleet.add_workers(3, 1)
    fleet.run_until(lambda: bool(fleet.drivers.with_queries(JOB)) and fleet.driver.slots == 3)
    fleet.cluster.lose_worker(fleet.cluster.executors(fleet.driver.submission_id)[-1])
    fleet.driver._executors.use(3)
    assert fleet.cluster.excesses == []


def test_cores_that_a_worker_grants_twice_are_found(running):
    (worker,) = running.cluster.workers
    running.cluster._free[worker.worker_id] = Resources(1000, 512 * MIB)
    running.cluster.set_executor_limit(running.driver.submission_id, 3, 1, 512)
    assert running.cluster.excesses == [f"drivers and executors use 4 of 3 cores of {worker.worker_id}"]


def test_a_driver_on_a_lost_worker_gets_executors_until_it_ends(running):
    (worker,) = running.cluster.workers
    running.cluster.lose_worker(worker.worker_id)
    running.add_workers(2)
    running.run(5)
    orphan = running.driver.submission_id
    assert len(running.cluster.executors(orphan)) == 2
    running.driver.processes.kill()
    running.run(1)
    assert len(running.cluster.executors(orphan)) == 0
