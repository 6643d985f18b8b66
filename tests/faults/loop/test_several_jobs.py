"""Several jobs that want more than the cluster has, under the loops of one process and of two that know nothing of each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

import pytest

from airflow_adaptive.job.protocol.documents import Action
from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from tests.faults.harness.deployment import MEMORY_MB
from tests.faults.harness.job_under_fault import FaultWorld, start_loops
from tests.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(1200)

Record = Callable[..., None]
MakeWorld = Callable[..., FaultWorld]

PROCESSES = {1: "under one process of loops", 2: "under two"}

PATIENCE_S = 600.0
"""Twenty JVMs on two cores."""


def add_worker(cluster: LocalCluster, cores: int) -> LocalWorker:
    return cluster.add_worker(cores=cores, memory_mb=cores * MEMORY_MB)


def cores(world: FaultWorld) -> int:
    """Of a job's driver and of its plan, as its log tells them; one that stops gives them back."""
    newest = world.newest()
    if newest is None or newest.scheduler["driver"] is None or newest.directive.action is Action.STOP:
        return 0
    plan = newest.directive.plan
    return 1 + (0 if plan is None else plan.executors)


def claimed(worlds: Sequence[FaultWorld]) -> list[int]:
    """Cores of all jobs at one moment: read twice, since the logs are read one after the other."""
    first, second = (list(map(cores, worlds)) for _ in range(2))
    return first if first == second else claimed(worlds)


def only_what_is_there(worlds: Sequence[FaultWorld]) -> None:
    """No plan is made on cores that are not there or are another's, those of drivers counted."""
    there, wanted = sum(worker.cores for worker in worlds[0].cluster.workers), claimed(worlds)
    assert sum(wanted) <= there, f"{wanted} of {there} cores"


def split(worlds: Sequence[FaultWorld], processes: int) -> list[subprocess.Popen[bytes]]:
    """Start the loops of the jobs in so many processes."""
    return [start_loops(worlds[number::processes]) for number in range(processes)]


def settled(worlds: Sequence[FaultWorld]) -> bool:
    """All jobs run, each on what it has planned, and nobody could have more."""
    state = worlds[0].cluster.state()
    granted = {application["name"]: application["cores"] for application in state["activeapps"]}
    running = all(world.is_in("Executing") for world in worlds)
    return running and claimed(worlds) == [1 + granted.get(world.job, 0) for world in worlds]


def finish(worlds: Sequence[FaultWorld], loops: Sequence[subprocess.Popen[bytes]]) -> list[Outcome]:
    """Suspend all jobs and see what has come out of each."""
    for world in worlds:
        world.ask("suspend")
    for loop in loops:
        worlds[0].wait_exit(loop, 0)
    return [world.outcome() for world in worlds]


@pytest.mark.parametrize("processes", PROCESSES)
def test_two_jobs_compete_while_workers_come_and_go(
    fault_cluster: LocalCluster, make_world: MakeWorld, record: Record, processes: int
) -> None:
    """Each could fill the cluster. Nobody takes what is not there, and nobody starves."""
    fault_cluster.reset()
    add_worker(fault_cluster, cores=4)
    worlds = [make_world(name) for name in ("first", "second")]
    for world in worlds:
        world.ask(parallelism=(1, 2))
        world.feed()
    loops = split(worlds, processes)
    for world in worlds:
        world.wait_rows()
    joined = add_worker(fault_cluster, cores=2)
    worlds[0].wait_for("six cores in use", lambda: settled(worlds) and sum(claimed(worlds)) == 6)
    for world in worlds:
        world.fault()
    fault_cluster.kill_worker(joined)
    worlds[0].wait_for("four cores in use", lambda: settled(worlds) and sum(claimed(worlds)) == 4)
    for world in worlds:
        world.recover()
    add_worker(fault_cluster, cores=2)
    worlds[0].wait_for("six cores in use again", lambda: settled(worlds) and sum(claimed(worlds)) == 6)
    outcomes = finish(worlds, loops)
    record("worker killed (-9)", f"and replaced, while two jobs compete {PROCESSES[processes]}", *outcomes)


@pytest.mark.parametrize("processes", PROCESSES)
def test_ten_jobs_where_there_is_room_for_four(
    fault_cluster: LocalCluster, make_world: MakeWorld, record: Record, processes: int
) -> None:
    """Whoever has taken in its rows is suspended, so that the next one has its turn."""
    fault_cluster.reset()
    for _ in range(2):
        add_worker(fault_cluster, cores=4)
    worlds = [make_world(f"job-{number}") for number in range(10)]
    for world in worlds:
        world.fault()
    loops = split(worlds, processes)

    def all_had_their_turn() -> bool:
        if processes == 1:
            only_what_is_there(worlds)
        for world in worlds:
            if not world.recovery_s and world.is_well():
                world.recover()
                world.ask("suspend")
        return all(world.recovery_s for world in worlds)

    worlds[0].wait_for("rows of all jobs", all_had_their_turn, PATIENCE_S)
    record("ten jobs, room for four", PROCESSES[processes], *finish(worlds, loops))
