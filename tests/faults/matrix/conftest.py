"""A cluster whose master remembers, a stateful job, and the page that tells what came of each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.faults.harness.disk import NoMountError, small_disk
from tests.faults.harness.outcome import Outcome
from tests.faults.harness.results import Result, commit, remember, remembered
from tests.faults.matrix.matrix_cluster import furnish, matrix_cluster  # noqa: F401  a fixture
from tests.faults.matrix.matrix_job import JOB, MatrixJob
from tests.faults.matrix.page import write_grid

DISK_MB = 24

CELLS = 4
"""That one job suffers, at most. Their results are remembered after the job's final check."""


class Jobs:
    """One job after the other; each suffers some cells, as long as it does well."""

    def __init__(self, cluster: LocalCluster, root: Path) -> None:
        self._cluster = cluster
        self._root = root
        self._count = 0
        self._owned = ExitStack()
        self.current: MatrixJob | None = None
        self.results: list[Result] = []

    def take(self) -> MatrixJob:
        """A job that runs; all its directory is on a small disk."""
        self.current = self.current or self._start()
        return self.current

    def finish(self) -> None:
        """See what has come out of it in the end, and remember the results of its cells if all is well."""
        try:
            if self.current is not None and self.results:
                self.current.finish(self.current.loop)
                remember(self.results)
                write_grid(remembered())
        finally:
            self.drop()

    def drop(self) -> None:
        """It did not do well, or has ended."""
        self.current, self.results = None, []
        self._owned.close()

    def _start(self) -> MatrixJob:
        furnish(self._cluster)
        self._count += 1
        folder = self._root / str(self._count)
        (folder / "jobs").mkdir(parents=True)
        self._owned.enter_context(small_disk(folder / "jobs", DISK_MB))
        job = MatrixJob(self._cluster, folder / JOB, folder / "jobs", JOB)
        self._owned.callback(job.close)
        job.begin()
        return job


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
def job(jobs: Jobs) -> Iterator[MatrixJob]:
    """A job that runs, and has suffered nothing that it did not survive."""
    before = len(jobs.results)
    try:
        yield jobs.take()
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
        jobs.results.append(Result(case=case, fault=fault, where=moment, outcome=outcome, commit=commit()))

    return record
