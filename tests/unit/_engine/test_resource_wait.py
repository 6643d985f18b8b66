"""The wait for the slots of a job, and the sizes of memory of its processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_adaptive._core.ports import MIB, Limit, LimitKind
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.resource_wait import AvailableResources, wait_for_resources
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, parse_memory
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.manual_clock import START, ManualClock

Waiting = Callable[[], AvailableResources | None]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def wait(cluster: FakeCluster, clock: ManualClock) -> Waiting:
    """Wait at most a minute for the slots of a job with the bounds 2..4."""

    def wait() -> AvailableResources | None:
        return asyncio.run(
            wait_for_resources(
                JobGraph.single("job", ParallelismRange(2, 4)),
                Options(),
                ExecutorShape(cores=1, memory_mb=512),
                DriverShape(cores=1, memory_mb=512),
                cluster.snapshot,
                clock,
                START + timedelta(minutes=1),
            )
        )

    return wait


def test_slots_for_the_upper_bounds_are_found_at_once(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    found = wait()
    assert found is not None
    assert (found.slots, found.parallelism) == (4, {"job": 4})
    assert sum(found.workers.values()) == 4
    assert clock.elapsed == 0


def test_slots_for_the_lower_bounds_are_found_after_the_stabilization_timeout(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock
) -> None:
    cluster.add_worker(cores=3, memory_mb=4096)
    found = wait()
    assert found is not None
    assert found.parallelism == {"job": 2}
    assert clock.elapsed == pytest.approx(10, abs=1)


def test_wait_reports_the_limit_that_keeps_the_job_from_its_slots(
    wait: Waiting, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    cluster.limits = [Limit(kind=LimitKind.QUOTA, name="team-a", memory_bytes=1224 * MIB)]
    with caplog.at_level(logging.INFO):
        assert wait() is None
    assert caplog.messages == ["1 slot: quota `team-a` allows 200 MiB more"]


def test_wait_ends_when_a_worker_joins(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    clock.at(30, lambda: cluster.add_worker(cores=5, memory_mb=4096))
    found = wait()
    assert found is not None
    assert clock.elapsed == pytest.approx(30, abs=1)


def test_wait_continues_while_the_master_does_not_answer(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock
) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    cluster.reachable = False
    clock.at(30, lambda: setattr(cluster, "reachable", True))
    assert wait() is not None


@pytest.mark.parametrize("cores", [1, 2])
def test_wait_times_out_without_slots_for_the_driver_and_the_lower_bounds(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock, cores: int
) -> None:
    cluster.add_worker(cores=cores, memory_mb=4096)
    assert wait() is None
    assert clock.elapsed == pytest.approx(60, abs=1)


def test_wait_reserves_no_slots(wait: Waiting, cluster: FakeCluster) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    wait()
    assert not cluster.submissions


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1048576b", 1),
        ("2048k", 2),
        ("1023kb", 0),
        ("512m", 512),
        (" 2 G ", 2048),
        ("1t", 1024**2),
        ("1PB", 1024**3),
    ],
)
def test_memory_is_read_in_mebibytes(text: str, mib: int) -> None:
    assert parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "512", "0m", "m", "1.5g", "-1g", "2gg"])
def test_memory_without_a_unit_or_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^executor_memory .* is not a memory size: use, for example, '512m' or '2g'"):
        parse_memory(text, "executor_memory")
