"""The master is killed and restarted, does not answer, or is not a master."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.conftest import WORKER
from tests.lab.faults.harness.job_under_fault import LEASE_S, JobUnderFault
from tests.lab.faults.harness.master_process import (
    impostor,
    kill_master,
    master_process,
    recovering,
    restart_master,
    wait_for_workers,
)
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

LONG_S = 2 * LEASE_S


RECOVERY = {"recovers": "with its recovery directory", "starts empty": "without its recovery directory"}


@pytest.fixture(params=list(RECOVERY))
def recovery_mode(request: pytest.FixtureRequest) -> str:
    """Whether the master knows after a restart what it knew before (`spark.deploy.recoveryMode`)."""
    return str(request.param)


@pytest.fixture
def mortal_world(make_job: Callable[..., JobUnderFault], recovery_mode: str, tmp_path: Path) -> Iterator[JobUnderFault]:
    """A job on a cluster whose master may be killed."""
    properties = recovering(tmp_path / "master") if recovery_mode == "recovers" else {}
    with LocalCluster(tmp_path / "cluster", properties=properties) as cluster:
        cluster.add_worker(**WORKER)
        yield make_job(cluster=cluster)


def has_lost_drivers(cluster: LocalCluster) -> bool:
    """Return whether the master has removed drivers that it had recovered: Spark does that if a worker registers again before the worker has
    answered the recovery.
    """
    return "was not found after master recovery" in (cluster.directory / "logs" / "master.log").read_text()


def test_master_that_is_killed_and_restarted(mortal_world: JobUnderFault, record: Record, recovery_mode: str) -> None:
    """One that forgets has its workers kill the drivers that it does not know."""
    job = mortal_world
    loop = job.start_loop()
    job.run_well()
    job.fault()
    kill_master(job.cluster)
    job.wait_for("rows without a master", job.took_all)
    job.last(LONG_S)
    restart_master(job.cluster)
    wait_for_workers(job.cluster)
    job.feed()
    job.recover()
    if recovery_mode == "recovers":
        assert job.epoch() == 1 or has_lost_drivers(job.cluster)
    assert job.logged("the cluster does not answer")
    record("master killed (-9)", f"for two leases, {RECOVERY[recovery_mode]}", job.finish(loop))


@pytest.mark.parametrize("recovery_mode", ["recovers"])
def test_executor_that_is_given_back_while_there_is_no_master(mortal_world: JobUnderFault, record: Record) -> None:
    """The master must hear of it later: else it counts that executor, and the job never has another in its place."""
    job = mortal_world
    loop = job.start_loop()
    job.run_well()
    job.request_state(parallelism=(1, 2))
    job.wait_for("two executors", lambda: executors(job) == 2 and job.is_in("Executing"))
    kill_master(job.cluster)
    job.fault()
    job.request_state()
    job.wait_for("one executor", lambda: executors(job) == 1)
    restart_master(job.cluster)
    wait_for_workers(job.cluster)
    job.wait_for("the slot's return", lambda: cores_of_executors(job.cluster) == 1)
    job.request_state(parallelism=(1, 2))
    job.wait_for("two executors", lambda: executors(job) == 2 and job.is_in("Executing"))
    job.feed()
    job.recover()
    assert job.epoch() == 1
    record("master killed (-9)", "before an executor was released", job.finish(loop))


@pytest.mark.parametrize("recovery_mode", ["recovers"])
def test_address_of_the_master_that_is_of_another_user(mortal_world: JobUnderFault, record: Record) -> None:
    job = mortal_world
    loop = job.start_loop()
    job.run_well()
    job.fault()
    kill_master(job.cluster)
    with impostor(job.cluster):
        job.wait_for("rows without a master", job.took_all)
        job.last(LONG_S)
        assert loop.poll() is None
    restart_master(job.cluster)
    wait_for_workers(job.cluster)
    job.feed()
    job.recover()
    assert job.epoch() == 1
    assert job.logged("is not JSON", "that this is its web UI")
    record("another server at the address of the master", "for two leases", job.finish(loop))


@pytest.mark.parametrize("recovery_mode", ["starts empty"])
def test_job_that_starts_without_a_master(mortal_world: JobUnderFault, record: Record) -> None:
    job = mortal_world
    kill_master(job.cluster)
    job.fault()
    loop = job.start_loop()
    job.wait_for("an explanation", lambda: job.logged("the cluster does not answer", "connection refused"))
    restart_master(job.cluster)
    job.recover()
    assert job.epoch() == 1
    record("master killed (-9)", "before the start of the job", job.finish(loop))


@pytest.mark.parametrize("recovery_mode", ["starts empty"])
def test_master_that_dies_right_before_the_submission(mortal_world: JobUnderFault, record: Record) -> None:
    job = mortal_world
    master = master_process(job.cluster)
    loop = job.start_loop("http:before:submit", victim=(master.pid, signal.SIGKILL))
    job.wait_for("the death of the master", lambda: not alive(master))
    job.fault()
    job.wait_for("an explanation", lambda: job.logged("NOT_SUBMITTED"))
    restart_master(job.cluster)
    job.recover()
    record("master killed (-9)", "immediately before the submission", job.finish(loop))


@pytest.mark.parametrize("recovery_mode", ["starts empty"])
def test_master_that_hangs_with_the_submission(mortal_world: JobUnderFault, record: Record) -> None:
    """The master processes the request after the client has stopped waiting for the response."""
    job = mortal_world
    master = master_process(job.cluster)
    loop = job.start_loop("http:before:submit", victim=(master.pid, signal.SIGSTOP))
    job.wait_for("a master that hangs", lambda: master.status() == psutil.STATUS_STOPPED)
    job.fault()
    job.wait_for("an explanation", lambda: job.logged("The outcome of SubmitDriver is unknown"))
    master.resume()
    job.recover()
    record("master frozen, then resumed", "during the submission", job.finish(loop))


def executors(job: JobUnderFault) -> int:
    status = job.status()
    return 0 if status is None else len(status.executors)


def cores_of_executors(cluster: LocalCluster) -> int:
    return sum(application["cores"] for application in cluster.state()["activeapps"])


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
