"""A cluster whose master remembers, a stateful job, and the page that tells what came of each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.harness.disk import NoMountError
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import Result, commit
from tests.lab.faults.matrix.cells import Cell
from tests.lab.faults.matrix.jobs import CELLS, Jobs
from tests.lab.faults.matrix.matrix_cluster import matrix_cluster  # noqa: F401  a fixture
from tests.lab.faults.matrix.matrix_job import MatrixJob


@pytest.fixture(scope="session")
def jobs(
    matrix_cluster: LocalCluster,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Jobs]:
    """For all cells of a shard."""
    jobs = Jobs(matrix_cluster, tmp_path_factory.mktemp("matrix"))
    try:
        yield jobs
        jobs.finish()
    finally:
        jobs.drop()


@pytest.fixture
def job(jobs: Jobs, cell: Cell) -> Iterator[MatrixJob]:
    """A job that runs, and has suffered nothing that it did not survive."""
    before = len(jobs.results)
    try:
        yield jobs.take(cell.standby)
    except NoMountError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        if len(jobs.results) == before:
            jobs.drop()
        elif len(jobs.results) == CELLS:
            jobs.finish()


@pytest.fixture
def record(request: pytest.FixtureRequest, jobs: Jobs) -> Callable[[str, str, Outcome], None]:
    """Keep what came of this cell until the job's final check."""

    def record(fault: str, moment: str, outcome: Outcome) -> None:
        case = request.node.nodeid
        jobs.keep(Result(case=case, fault=fault, where=moment, outcome=outcome, commit=commit()))

    return record
