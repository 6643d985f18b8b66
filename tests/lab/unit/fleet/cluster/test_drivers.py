"""Simulated drivers under the real loop: what they survive, and that they process each record exactly once."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from tests.lab.fleet.cluster.job_model import WorkloadShape
from tests.lab.fleet.cluster.masters import MasterFault
from tests.lab.fleet.jobs import JOB, LEASE_S, OneJobFleet

FAILURE = FailureReport(error_class="SparkException", message="a task failed", causes=("SparkException",))


@pytest.fixture
def fleet():
    found = OneJobFleet()
    found.add_workers(3)
    return found


@pytest.fixture
def running(fleet):
    fleet.run_until(fleet.runs_with(2))
    return fleet


def test_new_slots_rescale_a_query_that_reads_no_parallelism_without_a_restart(running):
    running.add_workers(2)
    running.run_until(running.runs_with(4))
    assert running.count("query started") == 1
    assert running.has("query continues with parallelism {'job': 4}")


def test_new_slots_restart_a_query_that_reads_the_parallelism_in_the_same_driver():
    fleet = OneJobFleet(shape=WorkloadShape(reads_parallelism=True))
    fleet.add_workers(3)
    fleet.run_until(fleet.runs_with(2))
    fleet.add_workers(2)
    fleet.run_until(fleet.runs_with(4))
    assert fleet.count("query started") == 2
    assert len(fleet.drivers.started) == 1


def test_a_user_releases_executors_without_a_restart_of_the_query(running):
    running.add_workers(2)
    running.run_until(running.runs_with(4))
    running.job.set_upper_bound(1)
    running.run_until(running.runs_with(1))
    assert running.count("query started") == 1


def test_a_lost_worker_costs_executors_and_no_record(fleet):
    (other,) = fleet.add_workers(2)
    fleet.run_until(fleet.runs_with(4))
    fleet.cluster.lose_worker(other)
    fleet.run_until(fleet.runs_with(2))


def test_a_failed_query_restarts_and_replays_its_batch(running):
    end = running.model.fail_queries(FAILURE)
    running.run_until(lambda: running.has("query failed: SparkException"))
    end()
    processed = running.model.processed
    running.run_until(lambda: running.model.processed > processed)
    assert len(running.drivers.started) == 1


def test_a_new_driver_continues_after_a_killed_one(running):
    running.driver.processes.kill()
    running.run_until(lambda: len(running.drivers.started) == 2)
    running.run_until(running.runs_with(2))


def test_the_jvm_of_a_killed_python_process_ends_before_the_next_driver_runs_a_query(running):
    running.driver.processes.kill_python()
    assert running.driver.runs_query
    running.run_until(lambda: len(running.drivers.started) == 2)
    running.run_until(running.runs_with(2))
    assert not running.has("the watchdog kills the driver")


def test_the_scheduler_kills_a_driver_without_a_heartbeat_before_the_watchdog_does(running):
    running.driver.processes.freeze()
    running.run_until(lambda: len(running.drivers.started) == 2)
    assert running.has("kill of triggerer-1 executed")
    assert not running.has("the watchdog kills the driver")


def test_a_python_process_waits_for_its_frozen_jvm(running):
    resume = running.driver.processes.freeze_jvm()
    running.run(1)
    written = running.count("status.json written")
    running.run(5)
    assert running.count("status.json written") == written
    assert not running.driver.runs_query
    resume()
    running.run(5)
    assert running.count("status.json written") > written
    assert running.driver.runs_query


def test_a_driver_on_a_lost_worker_continues_with_the_executors_that_the_master_has_granted(fleet):
    (other,) = fleet.add_workers(2)
    fleet.run_until(fleet.runs_with(4))
    fleet.cluster.lose_worker(next(worker.worker_id for worker in fleet.cluster.workers if worker.worker_id != other))
    fleet.run(3)
    processed = fleet.model.processed
    fleet.run(5)
    assert fleet.model.processed > processed


def test_the_drivers_of_a_failed_host_end(fleet):
    (other,) = fleet.add_workers(3)
    fleet.run_until(fleet.runs_with(4))
    host = next(worker.worker_id for worker in fleet.cluster.workers if worker.worker_id != other)
    fleet.drivers.lose_host(host)
    assert fleet.driver.ended_at == fleet.kernel.now
    fleet.run_until(fleet.runs_with(2))
    assert fleet.driver.slots == 2
    assert fleet.driver.launched_at > fleet.drivers.started[0].ended_at


def test_foreign_load_takes_slots_until_it_ends(fleet):
    end = fleet.cluster.add_foreign_load(cores=2, memory_mb=512)
    fleet.run(30)
    assert fleet.drivers.started == []
    end()
    fleet.run_until(fleet.runs_with(2))


def test_a_batch_that_stalls_ends_after_the_fault(running):
    end = running.model.stall_queries()
    running.run(5)
    processed = running.model.processed
    running.run(20)
    assert running.model.processed == processed
    end()
    running.run_until(lambda: running.model.processed > processed)


def test_a_driver_that_stops_interrupts_a_batch_that_is_too_long():
    fleet = OneJobFleet(shape=WorkloadShape(batch_s=60.0))
    fleet.add_workers(3)
    fleet.run_until(lambda: fleet.has("offsets/0 created"))
    fleet.store.requests = ControlRequests(desired_state=DesiredState.SUSPENDED)
    fleet.run_until(lambda: fleet.has("exit 0: STOPPED"), limit_s=30)
    assert fleet.has("no batch boundary within 10 s")
    assert fleet.model.output == {}


@pytest.mark.parametrize("frozen", ["freeze", "freeze_python", "freeze_jvm"])
def test_the_watchdog_kills_a_driver_that_is_frozen_for_longer_than_its_lease(running, frozen):
    end = running.masters.begin(MasterFault("refuse", kinds="kill"))
    getattr(running.driver.processes, frozen)()
    running.run_until(lambda: running.has("the watchdog kills the driver"), limit_s=LEASE_S + 6)
    end()
    running.run_until(running.runs_with(2))
    assert len(running.drivers.started) == 2


def test_a_frozen_python_process_leaves_the_query_running(running):
    processed, resume = running.model.processed, running.driver.processes.freeze_python()
    running.run_until(lambda: running.model.processed > processed)
    resume()
    running.run(30)
    assert len(running.drivers.started) == 1


def test_a_driver_whose_host_was_suspended_for_longer_than_its_lease_ends_after_the_host_resumes(running):
    running.run(2)  # a host that resumes right before a commit may commit before its watchdog runs
    (worker,) = [worker.worker_id for worker in running.cluster.workers]
    resume = running.driver.suspend()
    running.cluster.lose_worker(worker)
    running.add_workers(5)
    running.run_until(running.runs_with(2))
    assert running.drivers.of(JOB)[0].processes.is_alive
    resume()
    running.run(5)
    assert not running.drivers.of(JOB)[0].processes.is_alive


def test_a_driver_without_storage_ends_and_a_new_one_continues(running):
    cut = running.storage.faults.disconnect("*", running.driver.hosts)
    running.run_until(lambda: not running.driver.processes.is_alive)
    cut()
    running.run_until(running.runs_with(2))


def test_a_failed_build_rejects_the_plan_and_the_query_continues():
    fleet = OneJobFleet(shape=WorkloadShape(reads_parallelism=True))
    fleet.add_workers(3)
    fleet.run_until(fleet.runs_with(2))
    fleet.model.fail_builds(LookupError("no such carrier"))
    fleet.add_workers(2)
    fleet.run_until(lambda: fleet.has("rejected: LookupError"))
    processed = fleet.model.processed
    fleet.run_until(lambda: fleet.model.processed > processed)
    assert fleet.count("query started") == 1


def test_a_suspended_job_has_no_driver(running):
    running.store.requests = ControlRequests(desired_state=DesiredState.SUSPENDED)
    running.run_until(lambda: not running.drivers.alive(JOB))
    assert running.has("exit 0: STOPPED")


def test_a_bounded_job_finishes_with_each_record_once_although_its_driver_is_killed():
    fleet = OneJobFleet(shape=WorkloadShape(records=20_000, batch_records=1_000))
    fleet.add_workers(5)
    fleet.run_until(lambda: fleet.model.processed >= 5_000)
    fleet.driver.processes.kill()
    fleet.run_until(lambda: fleet.has("loop of job ended: Finished"))
    assert fleet.model.is_complete
    assert fleet.drivers.has_finished(JOB)
