"""The rows of the matrix (`tests/lab/faults/matrix/cells.py`) whose faults are those of Airflow's own processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.local.airflow import Component
from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.airflow.airflow_job import AirflowJob
from tests.lab.faults.conftest import WORKER
from tests.lab.faults.harness.job_under_fault import frozen
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import Result, commit, remember, remembered
from tests.lab.faults.matrix.cells import AIRFLOW_WORKER, UNDER_AIRFLOW, Cell, cells_with
from tests.lab.faults.matrix.matrix_job import SCRIPT, backs_off, feed_twice
from tests.lab.faults.matrix.page import write_grid
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = pytest.mark.timeout(900)

BACKOFF = {"type": "fixed-delay", "attempts": 1000, "delay": "15 s"}
"""Longer than a component of Airflow needs to come back."""

IN_WORKER: dict[str, Any] = {"deferrable": False, "retries": 3, "retry_delay": 1.0}
"""A worker that dies is a failure of its task: the next try goes on with the job."""


class StatefulAirflowJob(AirflowJob):
    """The stateful job, its one vertex being what its script reads and its state too."""

    program = SCRIPT
    in_worker = False
    """Whether a worker runs the loop, not the triggerer."""

    def feed(self, files: int = 2) -> None:
        feed_twice(self, files)

    def run(self) -> None:
        """Deploy it and run it."""
        placed = IN_WORKER if self.in_worker else {}
        self.deploy(application_args=[str(self.root), "job"], restart_strategy=BACKOFF, **placed)
        self.start()


@dataclass(frozen=True, kw_only=True)
class Place:
    """A moment, as it is reached and left under Airflow.

    Attributes:
        lead: sets off what leads there.
        seen: whether the job is there.
        go_on: when the fault is over.
        holds: whether the driver is frozen until then, since it would pass.
    """

    lead: Callable[[StatefulAirflowJob], None]
    seen: Callable[[StatefulAirflowJob], bool]
    go_on: Callable[[StatefulAirflowJob], None] = lambda job: None
    holds: bool = False


def run_well(job: StatefulAirflowJob) -> None:
    job.run()
    job.run_well()


def fail_a_batch(job: StatefulAirflowJob) -> None:
    run_well(job)
    job.put("poison.json", range(-1, 0))


def cure(job: StatefulAirflowJob) -> None:
    job.put("poison.json", range(0))


def run_again(job: StatefulAirflowJob) -> None:
    job.wait_for("Finished", lambda: job.is_in("Finished"))
    job.wait_task("success", "failed")
    job.start()


PLACES = {
    "Deploying": Place(lead=StatefulAirflowJob.run, seen=lambda job: job.is_in("Deploying")),
    "Executing": Place(lead=run_well, seen=lambda job: job.is_in("Executing")),
    "Restarting": Place(lead=fail_a_batch, seen=backs_off, go_on=cure),
    "StopWithSavepoint": Place(
        lead=lambda job: job.desired_state("suspended"),
        seen=lambda job: job.is_in("StopWithSavepoint"),
        go_on=run_again,
        holds=True,
    ),
    "Canceling": Place(
        lead=lambda job: job.desired_state("canceled"),
        seen=lambda job: job.is_in("Canceling"),
        go_on=run_again,
        holds=True,
    ),
}


def name_of(cell: Cell) -> str:
    return "-".join(re.sub(r"\W+", "_", name) for name in (cell.fault, cell.moment))


def kill(job: StatefulAirflowJob, fault: str) -> None:
    if fault == AIRFLOW_WORKER:
        job.kill_workers()
    else:
        job.airflow.kill(Component(fault))


@pytest.fixture
def job(
    fault_airflow: AirflowUnderTest,
    fault_cluster: LocalCluster,
    dags: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[StatefulAirflowJob]:
    """Of this case's name; not deployed."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    name = re.sub(r"\W+", "_", request.node.callspec.id)
    airflow_job = StatefulAirflowJob(fault_airflow, fault_cluster, dags, tmp_path, name)
    airflow_job.in_worker = request.node.callspec.params["cell"].fault == AIRFLOW_WORKER
    yield airflow_job
    airflow_job.remove()


@pytest.mark.parametrize("cell", cells_with(UNDER_AIRFLOW), ids=name_of)
def test_process_of_airflow_that_is_killed_at_a_moment(
    job: StatefulAirflowJob, request: pytest.FixtureRequest, cell: Cell
) -> None:
    place = PLACES[cell.moment]
    if place.holds:
        run_well(job)
    with frozen(job.driver_processes()) if place.holds else nullcontext():
        place.lead(job)
        job.wait_for(cell.moment, lambda: place.seen(job))
        job.fault()
        owner = job.owner()
        kill(job, cell.fault)
        assert place.seen(job), f"{cell.moment}: missed\n{job.story()}"
    if job.in_worker:  # the executor starts another worker itself, and Airflow tries the task again
        job.wait_loop(other_than=owner)
    else:
        job.airflow.restart(Component(cell.fault))
    place.go_on(job)
    job.recover()
    outcome: Outcome = job.suspend()
    case = request.node.nodeid
    remember([Result(case=case, fault=cell.fault, where=cell.moment, outcome=outcome, commit=commit())])
    write_grid(remembered())
