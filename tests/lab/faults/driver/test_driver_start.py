"""The driver dies, or hangs, before its first status: only the master knows it."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.conftest import WORKER
from tests.lab.faults.harness.job_under_fault import JobUnderFault, frozen
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


@pytest.fixture
def hasty_world(fault_cluster: LocalCluster, make_job: Callable[..., JobUnderFault]) -> JobUnderFault:
    """A job that gives a driver little time to start."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    return make_job(options={"deploy_timeout": "40 s"})


def born(job: JobUnderFault) -> list[psutil.Process]:
    """Processes of the only driver, as soon as there are any."""
    (driver,) = job.wait_for("the driver", job.submitted)
    return job.wait_for("its processes", lambda: job.cluster._daemons.working_in(driver))


def test_driver_that_dies_before_its_first_report(job: JobUnderFault, record: Record) -> None:
    loop = job.start_loop()
    for process in born(job):
        process.kill()
    assert job.status() is None
    job.fault()
    job.recover()
    assert job.epoch() == 2
    record("driver killed (-9)", "before its first driver status", job.finish(loop))


def test_driver_that_hangs_before_its_first_report(hasty_world: JobUnderFault, record: Record) -> None:
    job = hasty_world
    loop = job.start_loop()
    old = born(job)
    with frozen(old):
        assert job.status() is None
        job.fault()
        job.wait_for("the next driver", lambda: job.epoch() == 2)
        job.recover()
    job.wait_for("the end of the old driver", lambda: not any(process.is_running() for process in old))
    record(
        "driver frozen, then resumed",
        "before its first driver status, until the next driver had taken over",
        job.finish(loop),
    )


def test_next_driver_that_dies_before_its_first_report(job: JobUnderFault, record: Record) -> None:
    """The report that is there is the one of the driver before."""
    loop = job.start_loop()
    job.run_well()
    first = job.driver()
    job.cluster.kill_driver(first)
    job.wait_for("the next driver", lambda: job.submitted() not in ([], [first]))
    for process in born(job):
        process.kill()
    job.fault()
    job.wait_for("a third driver", lambda: job.epoch() == 3)
    job.recover()
    record("driver killed (-9)", "and the next driver before its first driver status", job.finish(loop))
