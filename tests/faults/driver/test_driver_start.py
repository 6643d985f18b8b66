"""The driver dies, or hangs, before its first report: nobody has heard of it but the master."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.faults.conftest import WORKER
from tests.faults.harness.job_under_fault import FaultWorld, frozen
from tests.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


@pytest.fixture
def hasty_world(fault_cluster: LocalCluster, make_world: Callable[..., FaultWorld]) -> FaultWorld:
    """A job that gives a driver little time to start."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    return make_world(options={"deploy_timeout": "40 s"})


def born(world: FaultWorld) -> list[psutil.Process]:
    """Processes of the only driver, as soon as there are any."""
    (driver,) = world.wait_for("the driver", world.submitted)
    return world.wait_for("its processes", lambda: world.cluster._daemons.working_in(driver))


def test_driver_that_dies_before_its_first_report(world: FaultWorld, record: Record) -> None:
    loop = world.start_loop()
    for process in born(world):
        process.kill()
    assert world.status() is None
    world.fault()
    world.recover()
    assert world.epoch() == 2
    record("driver killed (-9)", "before its first report", world.finish(loop))


def test_driver_that_hangs_before_its_first_report(hasty_world: FaultWorld, record: Record) -> None:
    world = hasty_world
    loop = world.start_loop()
    old = born(world)
    with frozen(old):
        assert world.status() is None
        world.fault()
        world.wait_for("the next driver", lambda: world.epoch() == 2)
        world.recover()
    world.wait_for("the end of the old driver", lambda: not any(process.is_running() for process in old))
    record("driver frozen, thawed", "before its first report, until the next had taken over", world.finish(loop))


def test_next_driver_that_dies_before_its_first_report(world: FaultWorld, record: Record) -> None:
    """The report that is there is the one of the driver before."""
    loop = world.start_loop()
    world.run_well()
    first = world.driver()
    world.cluster.kill_driver(first)
    world.wait_for("the next driver", lambda: world.submitted() not in ([], [first]))
    for process in born(world):
        process.kill()
    world.fault()
    world.wait_for("a third driver", lambda: world.epoch() == 3)
    world.recover()
    record("driver killed (-9)", "and the next one before its first report", world.finish(loop))
