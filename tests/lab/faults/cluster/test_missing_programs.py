"""Java or Python is missing on a worker: the job reports the missing program and restarts with backoff."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive._engine.spec import DriverShape
from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from tests.lab.faults.conftest import WORKER
from tests.lab.faults.harness.job_under_fault import JobUnderFault
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

BACKOFF: dict[str, Any] = {"restart_strategy": {"type": "exponential-delay", "jitter_factor": 0}}
"""As by default: 1 s, then half as long again each time."""

PATIENT_S = 20.0


@pytest.fixture
def java(fault_cluster: LocalCluster, tmp_path: Path) -> Path:
    """A Java that can be taken away from the workers that use it."""
    home = tmp_path / "java"
    home.symlink_to(fault_cluster._daemons._environment["JAVA_HOME"])
    return home


def add_worker(cluster: LocalCluster, java: Path, **size: int) -> LocalWorker:
    """A worker that uses this Java."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cluster._daemons._environment, "JAVA_HOME", str(java))
        return cluster.add_worker(**size)


@contextmanager
def missing(link: Path) -> Iterator[None]:
    """It is away meanwhile."""
    target = link.readlink()
    link.unlink()
    try:
        yield
    finally:
        link.symlink_to(target)


def most_restarts(seconds: float) -> int:
    """With the default backoff in so long, if a driver fails at once."""
    delays = [1.5**number for number in range(20)]
    return next(number for number in range(20) if sum(delays[: number + 1]) > seconds)


def run_without(java: Path, job: JobUnderFault, worker: LocalWorker) -> Outcome:
    """The job begins while Java is missing on this worker, reports the missing program and waits; then Java is back."""
    host, port = worker.worker_id.rsplit("-", 2)[1:]
    with missing(java):
        job.fault()
        loop = job.start_loop()
        job.wait_for("advice", lambda: job.logged(f"Java is missing on worker {host}:{port}: ", "JAVA_HOME"))
        job.last(PATIENT_S)
        assert job.epoch() <= 1 + most_restarts(job.since_fault())
    job.recover()
    return job.finish(loop)


def test_java_that_is_missing_for_the_driver(
    fault_cluster: LocalCluster, make_job: Callable[..., JobUnderFault], record: Record, java: Path
) -> None:
    fault_cluster.reset()
    worker = add_worker(fault_cluster, java, **WORKER)
    job = make_job(options=BACKOFF)
    outcome = run_without(java, job, worker)
    record("Java missing on a worker", "that runs the driver, until Java was installed", outcome)


def test_java_that_is_missing_for_the_executors(
    fault_cluster: LocalCluster, make_job: Callable[..., JobUnderFault], record: Record, java: Path
) -> None:
    """Its driver is too large for the worker without Java. After ten attempts the master gives the application up."""
    fault_cluster.reset()
    fault_cluster.add_worker(cores=1, memory_mb=2048)
    worker = add_worker(fault_cluster, java, cores=2, memory_mb=1024)
    job = make_job(options=BACKOFF, conf={"spark.log.level": "INFO"}, driver=DriverShape(cores=1, memory_mb=1200))
    outcome = run_without(java, job, worker)
    record("Java missing on a worker", "that runs the executors, until Java was installed", outcome)


def test_python_that_is_missing_everywhere(job: JobUnderFault, record: Record) -> None:
    """No restart brings it: the job ends when its restarts are used up."""
    job.changes = {
        "options": {"restart_strategy": {"type": "fixed-delay", "attempts": 2, "delay": "1 s"}},
        "conf": {"spark.pyspark.python": "/nowhere/python"},
    }
    job.fault()
    loop = job.start_loop()
    job.wait_exit(loop, 0)
    assert job.is_in("Finished")
    assert job.logged("Python is missing on worker", "/nowhere/python", "PYSPARK_PYTHON")
    assert job.epoch() == 3
    job.changes = {}
    loop = job.start_loop(attempt="2")
    job.recover()
    record("Python missing on a worker", "until the next attempt", job.finish(loop))
