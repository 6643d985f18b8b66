"""Executors and workers are killed, with the driver on them and without."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from tests.faults.harness.job_under_fault import FaultWorld
from tests.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

SMALL = {"cores": 2, "memory_mb": 2048}


@pytest.fixture
def wide_world(fault_cluster: LocalCluster, make_world: Callable[..., FaultWorld]) -> FaultWorld:
    """A job on two workers, of which each takes an executor."""
    if fault_cluster.workers:
        fault_cluster.reset()
    for _ in range(2):
        fault_cluster.add_worker(**SMALL)
    return make_world()


def executors(world: FaultWorld) -> list[psutil.Process]:
    """JVMs of the executors of all applications."""
    application = world.wait_for("a report", lambda: world.status() and world.status().application_id)  # type: ignore[union-attr]
    return [process for process in world.processes() if application in process.cwd() and process.name() == "java"]


def run_on_both(world: FaultWorld) -> tuple[LocalWorker, LocalWorker]:
    """The job runs on an executor of each worker; the worker of its driver, and the other one."""
    world.ask(parallelism=(1, 2))
    world.run_well()
    world.wait_for("two executors", lambda: (world.status() or None) and len(world.status().executors) == 2)  # type: ignore[union-attr]
    (name,) = [driver["worker"] for driver in world.cluster.state()["activedrivers"] if driver["id"] == world.driver()]
    with_driver, without = sorted(world.cluster.workers, key=lambda worker: worker.worker_id != name)
    return with_driver, without


def test_executor_that_is_killed(world: FaultWorld, record: Record) -> None:
    loop = world.start_loop()
    world.run_well()
    (executor,) = executors(world)
    executor.kill()
    world.fault()
    world.recover()
    assert world.epoch() == 1
    record("executor killed (-9)", "the only one", world.finish(loop))


def test_worker_that_is_killed_without_the_driver_on_it(wide_world: FaultWorld, record: Record) -> None:
    world = wide_world
    loop = world.start_loop()
    _, without = run_on_both(world)
    world.fault()
    world.cluster.kill_worker(without)
    world.recover()
    assert world.epoch() == 1
    record("worker killed (-9)", "with an executor on it", world.finish(loop))


def test_worker_that_is_killed_with_the_driver_on_it(wide_world: FaultWorld, record: Record) -> None:
    """What is left has room for a driver and an executor."""
    world = wide_world
    loop = world.start_loop()
    with_driver, _ = run_on_both(world)
    world.fault()
    world.cluster.kill_worker(with_driver)
    world.wait_for("the next driver", lambda: world.epoch() == 2)
    world.recover()
    record("worker killed (-9)", "with the driver on it", world.finish(loop))


def test_last_worker_that_is_killed_and_replaced(world: FaultWorld, record: Record) -> None:
    """For a while there is nothing to run on."""
    loop = world.start_loop()
    world.run_well()
    (worker,) = world.cluster.workers
    world.fault()
    world.cluster.kill_worker(worker)
    world.wait_for("the wait for slots", lambda: world.is_in("WaitingForResources"))
    world.cluster.add_worker(cores=worker.cores, memory_mb=worker.memory_mb)
    world.recover()
    record("worker killed (-9)", "the only one, and replaced when the job waited for slots", world.finish(loop))
