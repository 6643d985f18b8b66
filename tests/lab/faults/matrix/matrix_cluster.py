"""A cluster whose master recovers its state after a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.harness.master_process import recovering
from tests.lab.faults.matrix.matrix_job import WORKER, WORKERS


@pytest.fixture(scope="session")
def matrix_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One for all cells of a shard."""
    memory = tmp_path_factory.mktemp("master")
    with LocalCluster(properties=recovering(memory), start_timeout_s=300) as cluster:
        yield cluster


def furnish(cluster: LocalCluster) -> None:
    """As each job finds it."""
    if cluster.state()["activedrivers"] or len(cluster.workers) > WORKERS:
        cluster.reset()
    for _ in range(WORKERS - len(cluster.workers)):
        cluster.add_worker(**WORKER)
