"""Capacity shares: each round of the calculation on small clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.ports import MIB, ActiveDriver, ClusterSnapshot, Resources, SubmissionState, Worker
from airflow_adaptive._engine.cluster.capacity_share import SlotDemand, capacity_shares, slot_demand, unclaimed
from airflow_adaptive._engine.cluster.free_capacity import FreeCapacity
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from tests.lab.scenario import Scenario

EXECUTOR = ExecutorShape(cores=1, memory_mb=512)
DRIVER = DriverShape(cores=1, memory_mb=512)


def cluster(*free: int, **known: Any) -> ClusterSnapshot:
    """Workers with these numbers of free cores, and with plenty of memory."""
    return ClusterSnapshot(workers=tuple(worker(number, cores) for number, cores in enumerate(free)), **known)


def worker(number: int, cores: int, memory_mb: int = 65536) -> Worker:
    return Worker(
        worker_id=f"worker-{number}",
        address=f"http://h{number}:8081",
        total=Resources(64_000, 65536 * MIB),
        free=Resources(1000 * cores, memory_mb * MIB),
    )


def wants(job: str, minimum: int, maximum: int, **more: Any) -> SlotDemand:
    """A job without a driver."""
    given: dict[str, Any] = {
        "executor": EXECUTOR,
        "driver": DRIVER,
        "age": timedelta(0),
        "growth_block_timeout": timedelta(minutes=5),
    }
    return SlotDemand(job=job, minimum=minimum, maximum=maximum, **given | more)


def runs(job: str, planned: int, maximum: int, **more: Any) -> SlotDemand:
    """A job with a driver whose application is `app-<job>`."""
    known = {"has_driver": True, "submission_id": f"driver-{job}", "application_id": f"app-{job}", "planned": planned}
    return wants(job, 1, maximum, **known | more)


def executors_by_job(snapshot: ClusterSnapshot, *demands: SlotDemand) -> dict[str, int]:
    """Executors in each job's share."""
    shares = capacity_shares({demand.job: demand for demand in demands}, snapshot)
    return {demand.job: sum(shares[demand.job].executors.values()) for demand in demands}


# ---- one job --------------------------------------------------------------------------------------------------------


def test_job_alone_is_allocated_everything_beside_its_driver():
    assert executors_by_job(cluster(2, 2), wants("a", 1, 8)) == {"a": 3}


def test_free_cores_without_memory_are_not_allocated():
    snapshot = ClusterSnapshot(workers=(worker(0, 8, memory_mb=1024),))
    assert executors_by_job(snapshot, wants("a", 1, 8)) == {"a": 1}


def test_driver_is_placed_where_it_costs_most():
    four_cores = ExecutorShape(cores=4, memory_mb=512)
    assert executors_by_job(cluster(4, 2), wants("a", 1, 8, executor=four_cores)) == {"a": 0}
    assert executors_by_job(cluster(4, 4), wants("a", 1, 8, executor=four_cores)) == {"a": 1}


def test_job_that_has_all_that_it_can_use_is_allocated_nothing():
    granted = {"app-a": 2}
    assert executors_by_job(cluster(4, granted=granted), runs("a", planned=2, maximum=2)) == {"a": 0}


def test_slots_that_a_job_has_count_once_if_it_can_use_more():
    assert executors_by_job(cluster(4, granted={"app-a": 2}), runs("a", planned=2, maximum=4)) == {"a": 2}


def test_share_of_a_job_below_its_minimum_is_all_free_capacity():
    assert executors_by_job(cluster(3), wants("a", 4, 8)) == {"a": 2}
    assert executors_by_job(cluster(0), wants("a", 4, 8)) == {"a": 0}


# ---- what is planned ------------------------------------------------------------------------------------------------


def test_planned_executors_are_not_available_to_other_jobs():
    snapshot = cluster(5, granted={"app-a": 0})
    assert executors_by_job(snapshot, runs("a", planned=3, maximum=3), wants("b", 1, 4)) == {"a": 3, "b": 1}


def test_granted_executors_do_not_count_as_planned():
    snapshot = cluster(4, granted={"app-a": 3})
    assert executors_by_job(snapshot, runs("a", planned=3, maximum=3), wants("b", 1, 4)) == {"a": 0, "b": 3}


def test_application_that_was_not_reported_yet_is_known_by_its_name():
    snapshot = cluster(4, granted={"app-1": 3}, names={"app-1": "a"})
    unreported = replace(runs("a", planned=3, maximum=3), application_id=None)
    assert executors_by_job(snapshot, unreported, wants("b", 1, 4)) == {"a": 0, "b": 3}


def test_cores_of_a_driver_that_has_ended_do_not_count_as_held():
    """The master still lists the application of the former driver, which has the name of the job."""
    snapshot = cluster(4, granted={"app-1": 3}, names={"app-1": "a"})
    assert executors_by_job(snapshot, wants("a", 3, 3)) == {"a": 3}


@pytest.mark.parametrize(
    ("drivers", "left"),
    [
        ({}, 2),
        ({"driver-a": ActiveDriver(state=SubmissionState.SUBMITTED, request=Resources(1000 * 1, 512 * MIB))}, 2),
        ({"driver-a": ActiveDriver(state=SubmissionState.RUNNING, request=Resources(1000 * 1, 512 * MIB))}, 3),
    ],
    ids=["about to be submitted", "submitted", "placed"],
)
def test_driver_counts_until_it_is_placed(drivers: dict[str, ActiveDriver], left: int):
    starting = replace(runs("a", planned=0, maximum=0), minimum=0, application_id=None)
    assert executors_by_job(cluster(4, drivers=drivers), starting, wants("b", 1, 8)) == {"a": 0, "b": left}


def test_waiting_foreign_drivers_count():
    foreign_driver = ActiveDriver(state=SubmissionState.SUBMITTED, request=Resources(1000 * 2, 512 * MIB))
    snapshot = cluster(
        4, drivers={"driver-9": foreign_driver, "driver-8": replace(foreign_driver, state=SubmissionState.RUNNING)}
    )
    assert executors_by_job(snapshot, wants("a", 1, 8)) == {"a": 1}


def test_older_plan_is_served_first_when_slots_were_lost():
    older, younger = runs("z", 2, 2, age=timedelta(seconds=9)), runs("a", 2, 2, priority=9)
    assert executors_by_job(cluster(3, granted={"app-a": 0, "app-z": 0}), younger, older) == {"a": 1, "z": 2}


# ---- minimum and growth ---------------------------------------------------------------------------------------------


def test_minimum_of_each_job_comes_before_the_growth_of_any_job():
    first, second = wants("a", 1, 8, priority=9), wants("b", 1, 8)
    assert executors_by_job(cluster(8), first, second) == {"a": 5, "b": 1}


def test_higher_priority_goes_first_then_the_name():
    assert executors_by_job(cluster(2), wants("a", 1, 1), wants("b", 1, 1, priority=2)) == {"a": 0, "b": 1}
    assert executors_by_job(cluster(2), wants("b", 1, 1), wants("a", 1, 1)) == {"a": 1, "b": 0}


def test_smaller_job_starts_where_a_larger_one_does_not_fit():
    assert executors_by_job(cluster(3), wants("a", 4, 4, priority=9), wants("b", 2, 2))["b"] == 2


def test_no_job_grows_while_another_job_waits_for_its_minimum():
    growing = runs("a", planned=2, maximum=8)
    snapshot = cluster(2, granted={"app-a": 2})
    assert executors_by_job(snapshot, growing, wants("b", 2, 2)) == {"a": 0, "b": 1}


def test_waiting_job_blocks_the_growth_of_other_jobs_until_a_timeout():
    growing, waiting = runs("a", planned=2, maximum=8), wants("b", 2, 2, age=timedelta(minutes=5))
    assert executors_by_job(cluster(2, granted={"app-a": 2}), growing, waiting)["a"] == 2


def test_observers_see_the_slots_that_no_job_needs():
    demands = {1: runs("a", planned=2, maximum=8), 2: wants("b", 1, 8)}
    assert FreeCapacity(unclaimed(demands, cluster(8)).workers).executors(EXECUTOR.request) == {"worker-0": 3}


def test_drivers_that_leave_their_machine_come_one_by_one_before_the_growth_of_jobs():
    """Of three drivers on one machine, the first and the last one can move now: the second one needs more executors than are left."""
    jobs = [runs(name, planned, planned) for name, planned in (("a", 2), ("b", 3), ("c", 1))]
    moving = [replace(it, standby=wants(it.job, it.planned, it.planned, moves=True)) for it in jobs]
    growing = runs("0", planned=1, maximum=3)
    snapshot = cluster(3, 3, granted={f"app-{it.job}": it.planned for it in (*jobs, growing)})
    shares = capacity_shares({it.job: it for it in (*moving, growing)}, snapshot)
    standbys = {name: (share.standby, share.fits_standby) for name, share in shares.items()}
    assert standbys == {"a": (2, True), "b": (0, False), "c": (1, True), "0": (None, True)}
    assert executors_by_job(snapshot, *moving, growing) == {"a": 0, "b": 0, "c": 0, "0": 1}


def test_other_standbys_get_what_no_job_can_use():
    jobs = [replace(runs(name, 1, 2), standby=wants(name, 0, 2)) for name in "ab"]
    snapshot = cluster(6, granted={f"app-{it.job}": it.planned for it in jobs})
    shares = capacity_shares({it.job: it for it in jobs}, snapshot)
    assert [(share.executors, share.standby, share.fits_standby) for share in shares.values()] == [
        ({"worker-0": 1}, 2, True),
        ({"worker-0": 1}, 0, True),
    ]


def test_executors_that_a_standby_has_requested_are_planned():
    requested = wants("a", 0, 0, has_driver=True, planned=2, submission_id="driver-2", application_id="app-2")
    snapshot = cluster(4, granted={"app-a": 2, "app-2": 1})
    assert executors_by_job(snapshot, replace(runs("a", 2, 2), standby=requested), wants("b", 1, 8)) == {"a": 0, "b": 2}


# ---- always ---------------------------------------------------------------------------------------------------------


shapes = st.sampled_from([EXECUTOR, ExecutorShape(cores=2, memory_mb=512), ExecutorShape(cores=1, memory_mb=8192)])


@st.composite
def jobs(draw: st.DrawFn, name: str) -> SlotDemand:
    minimum = draw(st.integers(1, 4))
    maximum = minimum + draw(st.integers(0, 6))
    more = {"priority": draw(st.integers(1, 3)), "executor": draw(shapes)}
    waited = timedelta(minutes=draw(st.integers(0, 9)))
    if draw(st.booleans()):
        return wants(name, minimum, maximum, age=waited, **more)
    planned = draw(st.integers(minimum, maximum))
    return replace(runs(name, planned, maximum, age=waited, **more), minimum=minimum)


@given(
    st.lists(st.integers(0, 8), max_size=5),
    st.tuples(*(jobs(name) for name in "abcdef")),
    st.tuples(*(st.integers(0, 4) for _ in "abcdef")),
)
def test_no_job_can_plan_on_the_share_of_another_job(
    free: list[int], demands: tuple[SlotDemand, ...], granted: tuple[int, ...]
):
    cores = {
        f"app-{it.job}": number * it.executor.cores
        for it, number in zip(demands, granted, strict=True)
        if it.has_driver
    }
    snapshot = cluster(*free, granted=cores)
    taken: Counter[str] = Counter()
    drivers = 0
    for it, granted_share in capacity_shares({it: it for it in demands}, snapshot).items():
        share = granted_share.executors
        have = cores.get(f"app-{it.job}", 0) // it.executor.cores
        if have + sum(share.values()) >= it.minimum:
            drivers += not it.has_driver
            taken.update({worker: number * it.executor.cores for worker, number in share.items()})
    assert all(taken[f"worker-{number}"] <= cores for number, cores in enumerate(free))
    assert sum(taken.values()) + drivers <= sum(free)


@given(st.lists(st.integers(0, 8), max_size=5), st.tuples(*(jobs(name) for name in "abcdef")))
def test_waiting_job_does_not_fit_into_the_remaining_slots(free: list[int], demands: tuple[SlotDemand, ...]):
    snapshot = cluster(*free)
    shares = capacity_shares({it: it for it in demands}, snapshot)
    left = FreeCapacity(unclaimed({it: it for it in demands}, snapshot).workers)
    for it, share in shares.items():
        if not it.has_driver and sum(share.executors.values()) < it.minimum:
            assert not left.fits(it.minimum, it.executor.request, it.driver.request)


# ---- demands -----------------------------------------------------------------------------------------------------------


def demand_of(job: Scenario, executor: ExecutorShape = EXECUTOR, prepared: ExecutorShape | None = None) -> SlotDemand:
    spec = JobSpec(
        graph=job.state.job,
        options=job.state.options,
        directory="file:///jobs/job",
        script="script.py",
        py_files=(),
        executor=executor,
        driver=DRIVER,
        priority=7,
    )
    return slot_demand(spec, job.state, job.now, prepared=replace(spec, executor=prepared or executor))


def test_standby_of_a_deployment_demands_executors_of_the_size_of_the_deployment():
    """The four slots of the plan are four executors of the running driver, and one of the driver that is prepared."""
    small, large = ExecutorShape(cores=1, memory_mb=512), ExecutorShape(cores=4, memory_mb=3000)
    job = Scenario(upper=4).given_executing(4).when_committed().when_slots(held=4, standby=(0, 4))
    demand = demand_of(job.when_redeployed("new"), small, large)
    assert demand.standby is not None
    assert (demand.executor, demand.planned) == (small, 4)
    assert (demand.standby.executor, demand.standby.planned) == (large, 1)
    granted: dict[str, Any] = {"granted": {"app": 4}, "names": {"app": "job"}}
    standbys = [capacity_shares({"job": demand}, cluster(free, **granted))["job"].standby for free in (4, 5)]
    assert standbys == [0, 4]


def test_waiting_job_demands_slots_for_a_driver_and_its_bounds():
    demand = demand_of(Scenario(lower=2, upper=4).given_waiting())
    assert (demand.has_driver, demand.planned, demand.minimum, demand.maximum, demand.priority) == (False, 0, 2, 4, 7)


def test_slots_are_counted_in_executors():
    demand = demand_of(Scenario(lower=3, upper=8).given_deploying(8), ExecutorShape(cores=4, memory_mb=512))
    assert (demand.has_driver, demand.planned, demand.minimum, demand.maximum) == (True, 2, 1, 2)


def test_new_plan_of_a_job_exceeds_the_demand_before_the_plan():
    before, after = demand_of(Scenario(upper=4).given_waiting(free=2)), demand_of(Scenario(upper=4).given_deploying(4))
    assert after.exceeds(before)
    assert not before.exceeds(after)


@pytest.mark.parametrize("end", ["when_canceled", "when_suspended", "when_completed"])
def test_job_that_ends_demands_nothing(end: str):
    job = Scenario().given_executing(2)
    getattr(job, end)()
    demand = demand_of(job)
    assert (demand.has_driver, demand.planned, demand.minimum, demand.maximum) == (False, 0, 0, 0)


def test_job_that_must_stop_its_driver_demands_nothing_until_the_driver_has_ended():
    job = Scenario(lower=2, upper=4, local_recovery_timeout=0).given_executing(2).when_slots(held=1).then("Restarting")
    assert demand_of(job).maximum == 0
    assert demand_of(job.when_driver_ended()).maximum == 4


@pytest.mark.parametrize(("cores", "memory_mb"), [(1, 256), (0, 1024)])
def test_foreign_driver_of_a_size_that_no_job_may_have_stops_no_job(cores: int, memory_mb: int):
    """Another program submits a driver with less memory than Spark requires. The driver waits, and all loops poll the cluster."""
    foreign_driver = ActiveDriver(state=SubmissionState.SUBMITTED, request=Resources(1000 * cores, memory_mb * MIB))
    assert executors_by_job(cluster(4, drivers={"driver-9": foreign_driver}), wants("a", 1, 8)) == {"a": 2}


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4096)), max_size=5),
    st.lists(st.tuples(st.booleans(), shapes, st.integers(1, 4)), max_size=8),
)
def test_fitting_executors_are_those_of_the_remaining_capacity(
    free: list[tuple[int, int]], uses: list[tuple[bool, ExecutorShape, int]]
):
    """Drivers and executors of several sizes take capacity in turn. The kept numbers agree with a new calculation."""
    capacity = FreeCapacity([worker(number, *sizes) for number, sizes in enumerate(free)])
    for is_driver, shape, count in uses:
        if is_driver:
            capacity.place(shape.request, shape.request)
        else:
            capacity.take(count, shape.request)
        for executor in (EXECUTOR.request, shape.request):
            expected = FreeCapacity(capacity.workers)
            for driver in (None, DRIVER.request):
                assert capacity.executors(executor, driver) == expected.executors(executor, driver)
                assert capacity.fits(count, executor, driver) == expected.fits(count, executor, driver)
