"""One job after the other, of which each suffers some cells of the matrix."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.harness.disk import small_disk
from tests.lab.faults.harness.results import Result, remember, remembered
from tests.lab.faults.matrix.matrix_cluster import furnish
from tests.lab.faults.matrix.matrix_job import JOB, MatrixJob
from tests.lab.faults.matrix.page import write_grid

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

    def take(self, standby: str) -> MatrixJob:
        """A job that runs with this option `standby`; all its directory is on a small disk."""
        if self.current is not None and self.current.standby != standby:
            self.finish()
        self.current = self.current or self._start(standby)
        return self.current

    def keep(self, result: Result) -> None:
        """Keep the result of a cell until the final check. A violation is published immediately, and raises `SinkError`."""
        if result.outcome.violations:
            _publish([result])
        result.outcome.check()
        self.results.append(result)

    def finish(self) -> None:
        """See what has come out of it in the end, and publish the results of its cells. A violation is one of all its cells."""
        try:
            if self.current is not None and self.results:
                end = self.current.finish(self.current.loop)
                _publish([result.with_violations(end.violations) for result in self.results])
                end.check()
        finally:
            self.drop()

    def drop(self) -> None:
        """It did not do well, or has ended."""
        self.current, self.results = None, []
        self._owned.close()

    def _start(self, standby: str) -> MatrixJob:
        furnish(self._cluster)
        self._count += 1
        folder = self._root / str(self._count)
        (folder / "jobs").mkdir(parents=True)
        self._owned.enter_context(small_disk(folder / "jobs", DISK_MB))
        job = MatrixJob(self._cluster, folder / JOB, folder / "jobs", JOB, standby=standby)
        self._owned.callback(job.close)
        job.begin()
        return job


def _publish(results: list[Result]) -> None:
    remember(results)
    write_grid(remembered())
