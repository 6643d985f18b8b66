"""Capacity shares within the limits of the cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.ports import (
    MIB,
    ActiveDriver,
    ClusterSnapshot,
    Limit,
    LimitKind,
    Request,
    Resources,
    SubmissionState,
    Worker,
)
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand, capacity_shares, unclaimed
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape

EXECUTOR = ExecutorShape(cores=1, memory_mb=512)
DRIVER = DriverShape(cores=1, memory_mb=512)


def cluster(allowed: int | None, **known: Any) -> ClusterSnapshot:
    """A worker of 20 cores, and a quota of some cores."""
    free = Resources(20_000, 65536 * MIB)
    worker = Worker(worker_id="worker", address="worker", total=free, free=free)
    quota = [] if allowed is None else [Limit(kind=LimitKind.QUOTA, name="team-a", cpu_millicores=1000 * allowed)]
    return ClusterSnapshot(workers=[worker], limits=quota, **known)


def job(name: str, minimum: int, maximum: int, **more: Any) -> SlotDemand:
    sizes = {"executor": EXECUTOR, "driver": DRIVER}
    given: dict[str, Any] = {**sizes, "age": timedelta(0), "growth_block_timeout": timedelta(minutes=5), **more}
    return SlotDemand(job=name, minimum=minimum, maximum=maximum, **given)


def running(name: str, planned: int, maximum: int, **more: Any) -> SlotDemand:
    known = {"has_driver": True, "submission_id": f"driver-{name}", "application_id": f"app-{name}", "planned": planned}
    return job(name, 1, maximum, **known | more)


def shares(snapshot: ClusterSnapshot, *demands: SlotDemand) -> list[int]:
    found = capacity_shares({demand.job: demand for demand in demands}, snapshot)
    return [sum(found[demand.job].executors.values()) for demand in demands]


def test_jobs_together_stay_within_the_quota():
    assert shares(cluster(None), job("a", 1, 4), job("b", 1, 8)) == [4, 8]
    assert shares(cluster(6), job("a", 1, 4), job("b", 1, 8)) == [3, 1]
    assert shares(cluster(9), job("a", 1, 4), job("b", 1, 8)) == [4, 3]


def test_a_job_whose_minimum_exceeds_the_quota_waits_with_what_the_quota_allows():
    assert shares(cluster(4), job("a", 4, 4)) == [3]


def test_executors_that_wait_for_a_worker_count_once():
    ends = {"drivers": {"driver-a": ActiveDriver(state=SubmissionState.RUNNING, request=Resources(1000, 512 * MIB))}}
    waiting = cluster(1, granted={"app-a": 1}, pending={"app-a": 3}, **ends)
    assert shares(waiting, running("a", planned=4, maximum=8)) == [4]
    created = cluster(1, granted={"app-a": 1}, **ends)
    assert shares(created, running("a", planned=4, maximum=8)) == [1]


def test_a_driver_that_waits_for_a_worker_counts_once():
    waiting = ActiveDriver(state=SubmissionState.SUBMITTED, request=Resources(1000, 512 * MIB))
    assert shares(cluster(3, drivers={"driver-a": waiting}), running("a", planned=3, maximum=3)) == [3]
    assert shares(cluster(3), running("a", planned=3, maximum=3)) == [2]
    assert shares(cluster(3, drivers={"foreign": waiting}), job("a", 1, 3)) == [2]


def test_what_is_unclaimed_is_less_than_the_quota():
    left = unclaimed({"a": job("a", 3, 8)}, cluster(6))
    assert [limit.cpu_millicores for limit in left.limits] == [2000]
    assert [worker.free.cpu_millicores for worker in left.workers] == [16_000]


def test_jobs_with_constraints_share_the_workers_that_accept_them():
    free = Resources(4000, 65536 * MIB)
    workers = [
        Worker(worker_id="any", address="any", total=free, free=free, accepts=lambda placement: not placement),
        Worker(worker_id="gpu", address="gpu", total=free, free=free),
    ]
    gpu = ExecutorShape(cores=1, memory_mb=512, requested=Request(1000, 512 * MIB, "gpu"))
    demands = {"gpu": job("gpu", 1, 8, executor=gpu, priority=2), "other": job("other", 1, 8)}
    found = capacity_shares(demands, ClusterSnapshot(workers=workers))
    assert {name: share.executors for name, share in found.items()} == {"gpu": {"gpu": 3}, "other": {"any": 3}}


def test_only_jobs_that_probe_are_offered_what_may_not_exist():
    free = Resources(8000, 65536 * MIB)
    workers = [
        Worker(worker_id="exists", address="exists", total=free, free=Resources(3000, 65536 * MIB)),
        Worker(worker_id="on-demand", address="", total=free, free=free, is_on_demand=True),
    ]
    snapshot = ClusterSnapshot(workers=workers)
    assert shares(snapshot, running("a", planned=0, maximum=8), running("b", planned=0, maximum=8)) == [1, 0]
    assert shares(snapshot, running("a", planned=0, maximum=8, may_probe=True)) == [8]


def test_planned_executors_of_a_probe_keep_their_share():
    free = Resources(8000, 65536 * MIB)
    worker = Worker(worker_id="on-demand", address="", total=free, free=free, is_on_demand=True)
    driver = {"driver-a": ActiveDriver(state=SubmissionState.RUNNING, request=Resources(1000, 512 * MIB))}
    snapshot = ClusterSnapshot(workers=[worker], drivers=driver, granted={"app-a": 1}, pending={"app-a": 3})
    assert shares(snapshot, running("a", planned=4, maximum=4, may_probe=True)) == [3]
    assert shares(snapshot, running("a", planned=4, maximum=4)) == [0]


# ---- reasons --------------------------------------------------------------------------------------------------------


def reason(snapshot: ClusterSnapshot, demand: SlotDemand) -> str | None:
    """The reason why a job gets no more executors."""
    shortage = capacity_shares({demand.job: demand}, snapshot)[demand.job].shortage
    return None if shortage is None else shortage.text


def test_share_names_the_limit_that_a_job_reaches():
    assert reason(cluster(4), job("a", 1, 8)) == "quota `team-a` allows 0 cores more"
    assert reason(cluster(4), running("a", planned=8, maximum=8)) == "quota `team-a` allows 0 cores more"


def test_share_names_the_limit_that_keeps_a_job_below_its_minimum():
    assert reason(cluster(4), job("a", 4, 4)) == "quota `team-a` allows 0 cores more"
    assert (
        reason(cluster(0), job("a", 1, 4)) == "quota `team-a` allows 0 cores more, which is too little for the driver"
    )


def test_share_that_suffices_has_no_reason():
    assert reason(cluster(9), job("a", 1, 8)) is None
    assert reason(cluster(0, granted={"app-a": 8}), running("a", planned=8, maximum=8)) is None


def test_job_that_must_not_grow_has_no_reason():
    waiting, growing = job("b", 30, 30), running("a", planned=1, maximum=8)
    snapshot = cluster(2, granted={"app-a": 1})
    assert capacity_shares({"a": growing, "b": waiting}, snapshot)["a"].shortage is None


# ---- always ---------------------------------------------------------------------------------------------------------

SIZES = [EXECUTOR, ExecutorShape(cores=2, memory_mb=512), ExecutorShape(cores=1, memory_mb=8192)]

some = st.none() | st.integers(0, 20)


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    cores, gibibytes = draw(some), draw(some)
    return Limit(
        kind=draw(st.sampled_from(LimitKind)),
        cpu_millicores=None if cores is None else 1000 * cores,
        memory_bytes=None if gibibytes is None else 1024 * MIB * gibibytes,
        count=draw(some),
    )


@st.composite
def demands(draw: st.DrawFn, name: str) -> SlotDemand:
    minimum = draw(st.integers(1, 4))
    maximum = minimum + draw(st.integers(0, 6))
    more = {"priority": draw(st.integers(1, 3)), "executor": draw(st.sampled_from(SIZES))}
    if draw(st.booleans()):
        return job(name, minimum, maximum, **more)
    return replace(running(name, draw(st.integers(minimum, maximum)), maximum, **more), minimum=minimum)


@given(st.lists(limits(), max_size=4), st.tuples(*(demands(name) for name in "abcd")))
def test_all_shares_and_drivers_together_are_within_each_limit(bounds: list[Limit], jobs: tuple[SlotDemand, ...]):
    snapshot = replace(cluster(None), limits=bounds)
    found = capacity_shares({it.job: it for it in jobs}, snapshot)
    taken, number = Resources(), 0
    for it in jobs:
        count = sum(found[it.job].executors.values())
        if it.has_driver or count >= it.minimum:  # otherwise the job waits, and plans nothing
            drivers = 1 if not it.has_driver else 0
            for request, times in ((it.executor.request, count), (it.driver.request, drivers)):
                taken += Resources(times * request.cpu_millicores, times * request.memory_bytes)
                number += times
    for limit in bounds:
        assert limit.cpu_millicores is None or taken.cpu_millicores <= limit.cpu_millicores
        assert limit.memory_bytes is None or taken.memory_bytes <= limit.memory_bytes
        assert limit.count is None or number <= limit.count


@given(st.lists(limits(), max_size=4), st.tuples(*(demands(name) for name in "abcd")))
def test_no_share_alone_exceeds_a_limit(bounds: list[Limit], jobs: tuple[SlotDemand, ...]):
    """The share of a job that waits contains all that is free, so it overlaps with other shares."""
    for it, share in capacity_shares({it: it for it in jobs}, replace(cluster(None), limits=bounds)).items():
        count, request = sum(share.executors.values()), it.executor.request
        for limit in bounds:
            assert limit.cpu_millicores is None or count * request.cpu_millicores <= limit.cpu_millicores
            assert limit.memory_bytes is None or count * request.memory_bytes <= limit.memory_bytes
            assert limit.count is None or count <= limit.count
