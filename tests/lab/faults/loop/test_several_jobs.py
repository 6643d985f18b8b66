"""Several jobs that want more than the cluster has, under the loops of one process and of two that know nothing of each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

import pytest

from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from tests.lab.faults.harness.deployment import MEMORY_MB
from tests.lab.faults.harness.job_under_fault import JobUnderFault, start_loops
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(1200)

Record = Callable[..., None]
MakeWorld = Callable[..., JobUnderFault]

PROCESSES = {1: "in one process of loops", 2: "in two processes of loops"}

TIMEOUT_S = 600.0
"""Twenty JVMs on two cores."""


def add_worker(cluster: LocalCluster, cores: int) -> LocalWorker:
    return cluster.add_worker(cores=cores, memory_mb=cores * MEMORY_MB)


def cores(job: JobUnderFault) -> int:
    """Of a job's driver and of its plan, as its log tells them; one that stops gives them back."""
    newest = job.newest()
    if newest is None or newest.scheduler["driver"] is None or newest.directive.action is Action.STOP:
        return 0
    plan = newest.directive.plan
    return 1 + (0 if plan is None else plan.executors)


def claimed(jobs: Sequence[JobUnderFault]) -> list[int]:
    """Cores of all jobs at one moment: read twice, since the logs are read one after the other."""
    first, second = (list(map(cores, jobs)) for _ in range(2))
    return first if first == second else claimed(jobs)


def only_what_is_there(jobs: Sequence[JobUnderFault]) -> None:
    """No plan is made on cores that are not there or are another's, those of drivers counted."""
    there, wanted = sum(worker.cores for worker in jobs[0].cluster.workers), claimed(jobs)
    assert sum(wanted) <= there, f"{wanted} of {there} cores"


def split(jobs: Sequence[JobUnderFault], processes: int) -> list[subprocess.Popen[bytes]]:
    """Start the loops of the jobs in so many processes."""
    return [start_loops(jobs[number::processes]) for number in range(processes)]


def stable(jobs: Sequence[JobUnderFault]) -> bool:
    """All jobs run with their planned slots, and no job could have more."""
    state = jobs[0].cluster.state()
    granted = {application["name"]: application["cores"] for application in state["activeapps"]}
    running = all(job.is_in("Executing") for job in jobs)
    return running and claimed(jobs) == [1 + granted.get(job.job, 0) for job in jobs]


def finish(jobs: Sequence[JobUnderFault], loops: Sequence[subprocess.Popen[bytes]]) -> list[Outcome]:
    """Suspend all jobs and see what has come out of each."""
    for job in jobs:
        job.request_state("suspended")
    for loop in loops:
        jobs[0].wait_exit(loop, 0)
    return [job.outcome() for job in jobs]


@pytest.mark.parametrize("processes", PROCESSES)
def test_two_jobs_compete_while_workers_come_and_go(
    fault_cluster: LocalCluster, make_job: MakeWorld, record: Record, processes: int
) -> None:
    """Each job could fill the cluster. No job takes slots that do not exist, and no job starves."""
    fault_cluster.reset()
    add_worker(fault_cluster, cores=4)
    jobs = [make_job(name) for name in ("first", "second")]
    for job in jobs:
        job.request_state(parallelism=(1, 2))
        job.feed()
    loops = split(jobs, processes)
    for job in jobs:
        job.wait_rows()
    joined = add_worker(fault_cluster, cores=2)
    jobs[0].wait_for("six cores in use", lambda: stable(jobs) and sum(claimed(jobs)) == 6)
    for job in jobs:
        job.fault()
    fault_cluster.kill_worker(joined)
    jobs[0].wait_for("four cores in use", lambda: stable(jobs) and sum(claimed(jobs)) == 4)
    for job in jobs:
        job.recover()
    add_worker(fault_cluster, cores=2)
    jobs[0].wait_for("six cores in use again", lambda: stable(jobs) and sum(claimed(jobs)) == 6)
    outcomes = finish(jobs, loops)
    record("worker killed (-9)", f"and replaced, while two jobs compete {PROCESSES[processes]}", *outcomes)


@pytest.mark.parametrize("processes", PROCESSES)
def test_ten_jobs_where_there_is_room_for_four(
    fault_cluster: LocalCluster, make_job: MakeWorld, record: Record, processes: int
) -> None:
    """A job that has read its rows is suspended, so that the next job gets its slots."""
    fault_cluster.reset()
    for _ in range(2):
        add_worker(fault_cluster, cores=4)
    jobs = [make_job(f"job-{number}") for number in range(10)]
    for job in jobs:
        job.fault()
    loops = split(jobs, processes)

    def all_had_their_turn() -> bool:
        if processes == 1:
            only_what_is_there(jobs)
        for job in jobs:
            if not job.recovery_s and job.is_well():
                job.recover()
                job.request_state("suspended")
        return all(job.recovery_s for job in jobs)

    jobs[0].wait_for("rows of all jobs", all_had_their_turn, TIMEOUT_S)
    record("ten jobs, slots for four", PROCESSES[processes], *finish(jobs, loops))
