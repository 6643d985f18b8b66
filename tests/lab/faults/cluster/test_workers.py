"""Executors and workers are killed, with the driver on them and without."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from tests.lab.faults.harness.job_under_fault import JobUnderFault
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

SMALL = {"cores": 2, "memory_mb": 2048}


@pytest.fixture
def wide_world(fault_cluster: LocalCluster, make_job: Callable[..., JobUnderFault]) -> JobUnderFault:
    """A job on two workers, of which each takes an executor."""
    if fault_cluster.workers:
        fault_cluster.reset()
    for _ in range(2):
        fault_cluster.add_worker(**SMALL)
    return make_job()


def run_on_both(job: JobUnderFault) -> tuple[LocalWorker, LocalWorker]:
    """The job runs on an executor of each worker; the worker of its driver, and the other one."""
    job.request_state(parallelism=(1, 2))
    job.run_well()
    job.wait_for("two executors", lambda: (job.status() or None) and len(job.status().executors) == 2)  # type: ignore[union-attr]
    (name,) = [driver["worker"] for driver in job.cluster.state()["activedrivers"] if driver["id"] == job.driver()]
    with_driver, without = sorted(job.cluster.workers, key=lambda worker: worker.worker_id != name)
    return with_driver, without


def test_worker_that_is_killed_with_the_driver_on_it(wide_world: JobUnderFault, record: Record) -> None:
    """What is left has room for a driver and an executor."""
    job = wide_world
    loop = job.start_loop()
    with_driver, _ = run_on_both(job)
    job.fault()
    job.cluster.kill_worker(with_driver)
    job.wait_for("the next driver", lambda: job.epoch() == 2)
    job.recover()
    record("worker killed (-9)", "with the driver on it", job.finish(loop))


def test_last_worker_that_is_killed_and_replaced(job: JobUnderFault, record: Record) -> None:
    """For a while there is nothing to run on."""
    loop = job.start_loop()
    job.run_well()
    (worker,) = job.cluster.workers
    job.fault()
    job.cluster.kill_worker(worker)
    job.wait_for("the wait for slots", lambda: job.is_in("WaitingForResources"))
    job.cluster.add_worker(cores=worker.cores, memory_mb=worker.memory_mb)
    job.recover()
    record("worker killed (-9)", "the only worker, and replaced when the job waited for slots", job.finish(loop))
