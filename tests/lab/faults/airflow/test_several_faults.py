"""One job from its start to its end while each process that runs it is killed once, as `make test-jobs` runs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_adaptive.local.airflow import Component
from tests.lab.faults.airflow.airflow_job import AirflowJob
from tests.lab.faults.conftest import WORKER
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


def test_driver_triggerer_and_worker_are_killed(job: AirflowJob, record: Record) -> None:
    job.begin()
    job.fault()
    for process in job.driver_processes():
        process.kill()
    job.wait_for("the next driver", lambda: job.epoch() == 2)
    job.recover()

    owner = job.owner()
    job.fault()
    job.airflow.kill(Component.TRIGGERER)
    job.airflow.restart(Component.TRIGGERER)
    job.wait_loop(owner)
    job.recover()
    assert job.epoch() == 2

    (lost,) = job.cluster.workers
    job.cluster.add_worker(**WORKER)
    job.fault()
    job.cluster.kill_worker(lost)
    job.recover()
    assert job.task_state() == "deferred"
    record("several faults", "driver, triggerer and Spark's worker killed (-9), one after the other", job.suspend())
