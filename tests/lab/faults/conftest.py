"""Shards, the results of earlier runs, and the environment of each case."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.harness.deployment import JOB
from tests.lab.faults.harness.job_under_fault import JobUnderFault
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import Result, commit, remember, remembered, write_page
from tests.support.repository import ROOT

WORKER = {"cores": 4, "memory_mb": 4096}


def is_published() -> bool:
    """Return whether the results belong to the page of faults. Those on other versions of Airflow do not."""
    return f"apache-airflow=={version('apache-airflow')}" in (ROOT / "constraints.txt").read_text().splitlines()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to another shard (`SHARD=1/3`), and what has gone well at this commit as often as `RUNS` requires."""
    shard, _, shards = os.environ.get("SHARD", "1/1").partition("/")
    wanted = int(os.environ.get("RUNS", "1"))
    cases = [item for item in items if item.get_closest_marker("faults")]
    earlier = remembered() if is_published() else []
    runs = Counter(result.case for result in earlier if result.commit == commit() and not result.outcome.violations)
    left = [case for number, case in enumerate(cases) if number % int(shards) == int(shard) - 1]
    chosen = {case.nodeid for case in left if runs[case.nodeid] < wanted}
    dropped = [case for case in cases if case.nodeid not in chosen]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]


@pytest.fixture(scope="session")
def fault_cluster() -> Iterator[LocalCluster]:
    """One cluster for all cases of a shard."""
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def make_job(fault_cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., JobUnderFault]]:
    """Makes jobs that have not been started: `make_job(job, cluster, **changes)`, see `JobUnderFault`."""
    created_jobs: list[JobUnderFault] = []
    (tmp_path / "jobs").mkdir(exist_ok=True)

    def make(job: str = JOB, cluster: LocalCluster = fault_cluster, **changes: Any) -> JobUnderFault:
        created_jobs.append(JobUnderFault(cluster, tmp_path / job, tmp_path / "jobs", job, changes))
        return created_jobs[-1]

    yield make
    for unstarted_job in created_jobs:
        unstarted_job.close()
    if fault_cluster.state()["activedrivers"] or [worker.cores for worker in fault_cluster.workers] != [
        WORKER["cores"]
    ]:
        fault_cluster.reset()


@pytest.fixture
def job(fault_cluster: LocalCluster, make_job: Callable[..., JobUnderFault]) -> JobUnderFault:
    """A job that has not been started, on a cluster with room for two drivers with an executor each."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    return make_job()


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Remember the outcome of a case whose jobs have ended, under the name of its fault; a violation is published, too, and fails the case."""

    def record(fault: str, where: str, *outcomes: Outcome) -> None:
        outcome = Outcome.of_all(outcomes)
        if is_published():
            remember([Result(case=request.node.nodeid, fault=fault, where=where, outcome=outcome, commit=commit())])
            write_page(remembered())
        outcome.check()

    return record
