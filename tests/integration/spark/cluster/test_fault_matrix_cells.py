"""A dozen cells of the matrix, struck one after the other at a job that runs through all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.matrix.cells import RUNS, cells, fault_of, moment_of
from tests.lab.faults.matrix.matrix_cluster import furnish, matrix_cluster  # noqa: F401  a fixture
from tests.lab.faults.matrix.matrix_job import JOB, MatrixJob
from tests.lab.faults.matrix.strike import strike

TELLING = """
executor                   | Executing
executor                   | tier 0 up
executor                   | tier 1
executor                   | RestartingLocally
worker                     | Executing
master                     | Executing
triggerer (loop's process) | tier 0 down
triggerer (loop's process) | tier 1
triggerer (loop's process) | Restarting
driver JVM                 | tier 1
driver Python              | tier 2
triggerer (loop's process) | StopWithSavepoint
"""

CELLS = {(cell.fault, cell.moment): cell for cell in cells() if cell.content == RUNS}


@pytest.fixture(scope="module")
def job(
    matrix_cluster: LocalCluster,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MatrixJob]:
    """One job for all, that runs."""
    furnish(matrix_cluster)
    root = tmp_path_factory.mktemp("telling")
    (root / "jobs").mkdir()
    job = MatrixJob(matrix_cluster, root / JOB, root / "jobs", JOB)
    try:
        job.begin()
        yield job
    finally:
        job.close()


@pytest.mark.parametrize("line", TELLING.strip().splitlines(), ids=lambda line: " ".join(line.split()))
def test_fault_at_a_telling_moment(job: MatrixJob, line: str) -> None:
    fault, _, moment = (part.strip() for part in line.partition("|"))
    cell = CELLS[fault, moment]
    strike(job, fault_of(cell), moment_of(cell))
    assert job.so_far().check().drivers_at_once == 1


def test_job_that_suffered_all_of_this_lost_and_duplicated_nothing(job: MatrixJob) -> None:
    outcome = job.finish(job.loop).check()
    assert (outcome.found, outcome.duplicated) == (outcome.expected, 0)
    assert outcome.drivers_at_once == 1
