"""The master is killed and restarted, does not answer, or is not a master."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.faults.conftest import WORKER
from tests.faults.harness.job_under_fault import LEASE_S, FaultWorld
from tests.faults.harness.master_process import (
    impostor,
    kill_master,
    master_process,
    recovering,
    restart_master,
    wait_for_workers,
)
from tests.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

LONG_S = 2 * LEASE_S


@pytest.fixture(params=["remembers", "forgets"])
def memory(request: pytest.FixtureRequest) -> str:
    """Whether the master knows after a restart what it knew before (`spark.deploy.recoveryMode`)."""
    return str(request.param)


@pytest.fixture
def mortal_world(make_world: Callable[..., FaultWorld], memory: str, tmp_path: Path) -> Iterator[FaultWorld]:
    """A job on a cluster whose master may be killed."""
    properties = recovering(tmp_path / "master") if memory == "remembers" else {}
    with LocalCluster(tmp_path / "cluster", properties=properties) as cluster:
        cluster.add_worker(**WORKER)
        yield make_world(cluster=cluster)


def test_master_that_is_killed_and_restarted(mortal_world: FaultWorld, record: Record, memory: str) -> None:
    """One that forgets has its workers kill the drivers that it does not know."""
    world = mortal_world
    loop = world.start_loop()
    world.run_well()
    world.fault()
    kill_master(world.cluster)
    world.wait_for("rows without a master", world.took_all)
    world.last(LONG_S)
    restart_master(world.cluster)
    wait_for_workers(world.cluster)
    world.feed()
    world.recover()
    if memory == "remembers":
        assert world.epoch() == 1
    assert world.said("the cluster does not answer")
    record("master killed (-9)", f"for two leases; it {memory} what it knew", world.finish(loop))


@pytest.mark.parametrize("memory", ["remembers"])
def test_executor_that_is_given_back_while_there_is_no_master(mortal_world: FaultWorld, record: Record) -> None:
    """The master must hear of it later: else it counts that executor, and the job never has another in its place."""
    world = mortal_world
    loop = world.start_loop()
    world.run_well()
    world.ask(parallelism=(1, 2))
    world.wait_for("two executors", lambda: executors(world) == 2 and world.is_in("Executing"))
    kill_master(world.cluster)
    world.fault()
    world.ask()
    world.wait_for("one executor", lambda: executors(world) == 1)
    restart_master(world.cluster)
    wait_for_workers(world.cluster)
    world.wait_for("the slot's return", lambda: cores_of_executors(world.cluster) == 1)
    world.ask(parallelism=(1, 2))
    world.wait_for("two executors", lambda: executors(world) == 2 and world.is_in("Executing"))
    world.feed()
    world.recover()
    assert world.epoch() == 1
    record("master killed (-9)", "before an executor was given back", world.finish(loop))


@pytest.mark.parametrize("memory", ["remembers"])
def test_address_of_the_master_that_is_somebody_elses(mortal_world: FaultWorld, record: Record) -> None:
    world = mortal_world
    loop = world.start_loop()
    world.run_well()
    world.fault()
    kill_master(world.cluster)
    with impostor(world.cluster):
        world.wait_for("rows without a master", world.took_all)
        world.last(LONG_S)
        assert loop.poll() is None
    restart_master(world.cluster)
    wait_for_workers(world.cluster)
    world.feed()
    world.recover()
    assert world.epoch() == 1
    assert world.said("is no JSON", "is this its web UI")
    record("another server at the master's address", "for two leases", world.finish(loop))


@pytest.mark.parametrize("memory", ["forgets"])
def test_job_that_starts_without_a_master(mortal_world: FaultWorld, record: Record) -> None:
    world = mortal_world
    kill_master(world.cluster)
    world.fault()
    loop = world.start_loop()
    world.wait_for("an explanation", lambda: world.said("the cluster does not answer", "connection refused"))
    restart_master(world.cluster)
    world.recover()
    assert world.epoch() == 1
    record("master killed (-9)", "before the start of the job", world.finish(loop))


@pytest.mark.parametrize("memory", ["forgets"])
def test_master_that_dies_right_before_the_submission(mortal_world: FaultWorld, record: Record) -> None:
    world = mortal_world
    master = master_process(world.cluster)
    loop = world.start_loop("http:before:submit", victim=(master.pid, signal.SIGKILL))
    world.wait_for("the death of the master", lambda: not alive(master))
    world.fault()
    world.wait_for("an explanation", lambda: world.said("NOT_SUBMITTED"))
    restart_master(world.cluster)
    world.recover()
    record("master killed (-9)", "right before the submission", world.finish(loop))


@pytest.mark.parametrize("memory", ["forgets"])
def test_master_that_hangs_with_the_submission(mortal_world: FaultWorld, record: Record) -> None:
    """It takes it up when nobody waits for its answer any more."""
    world = mortal_world
    master = master_process(world.cluster)
    loop = world.start_loop("http:before:submit", victim=(master.pid, signal.SIGSTOP))
    world.wait_for("a master that hangs", lambda: master.status() == psutil.STATUS_STOPPED)
    world.fault()
    world.wait_for("an explanation", lambda: world.said("SubmitDriver: outcome unknown"))
    master.resume()
    world.recover()
    record("master frozen, thawed", "with the submission under way", world.finish(loop))


def executors(world: FaultWorld) -> int:
    status = world.status()
    return 0 if status is None else len(status.executors)


def cores_of_executors(cluster: LocalCluster) -> int:
    return sum(application["cores"] for application in cluster.state()["activeapps"])


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
