"""Free capacity within the limits of the cluster, and on workers that accept only some drivers and executors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.ports import ClusterSnapshot, Limit, LimitKind, Request, Resources, Worker
from airflow_adaptive._engine.cluster.free_capacity import FreeCapacity, Shortage, all_slots

EXECUTOR = Request(1000, 100)
DRIVER = Request(1000, 100)


def worker(name: str, cores: int, **more: Any) -> Worker:
    free = Resources(1000 * cores, 10_000)
    return Worker(worker_id=name, address=name, total=free, free=free, **more)


def quota(count: int) -> Limit:
    return Limit(kind=LimitKind.QUOTA, name="team-a", cpu_millicores=1000 * count)


def only(*placements: str) -> dict[str, Any]:
    return {"accepts": lambda placement: placement in placements}


def test_executors_beyond_a_limit_do_not_fit():
    capacity = FreeCapacity([worker("a", 4), worker("b", 4)], [quota(5)])
    assert sum(capacity.executors(EXECUTOR).values()) == 5
    assert sum(capacity.executors(EXECUTOR, DRIVER).values()) == 4
    assert capacity.fits(5, EXECUTOR)
    assert not capacity.fits(6, EXECUTOR)
    assert capacity.fits(4, EXECUTOR, DRIVER)
    assert not capacity.fits(5, EXECUTOR, DRIVER)


def test_what_is_taken_counts_for_the_limits():
    capacity = FreeCapacity([worker("a", 4), worker("b", 4)], [quota(5)])
    capacity.place(DRIVER, EXECUTOR)
    assert capacity.limits == (quota(4),)
    assert capacity.take(3, EXECUTOR) == {"a": 2, "b": 1}
    assert capacity.take(3, EXECUTOR) == {"b": 1}
    assert capacity.limits == (quota(0),)
    assert capacity.executors(EXECUTOR) == {}


def test_workers_that_exist_come_before_workers_on_demand():
    executor, driver = Request(1000, 100, may_probe=True), Request(1000, 100, may_probe=True)
    capacity = FreeCapacity([worker("on-demand", 40, is_on_demand=True), worker("a", 2), worker("b", 2)])
    capacity.place(driver, executor)
    assert capacity.take(2, executor) == {"a": 1, "b": 1}
    assert capacity.take(3, executor) == {"b": 1, "on-demand": 2}
    capacity.place(driver, executor)
    assert {each.worker_id: each.free.cpu_millicores for each in capacity.workers} == {
        "on-demand": 37_000,
        "a": 0,
        "b": 0,
    }


def test_what_the_limits_count_already_is_not_charged_again():
    capacity = FreeCapacity([worker("a", 8)], [quota(1)])
    capacity.place(DRIVER, EXECUTOR, is_charged=True)
    assert capacity.limits == (quota(1),)
    assert capacity.take(4, EXECUTOR, charged=2) == {"a": 3}
    assert capacity.limits == (quota(0),)
    assert FreeCapacity([worker("a", 8)], [quota(1)]).take(1, EXECUTOR, charged=2) == {"a": 1}


def test_a_driver_beyond_a_limit_is_not_placed():
    capacity = FreeCapacity([worker("a", 4)], [quota(0)])
    capacity.place(DRIVER, EXECUTOR)
    assert capacity.workers == (worker("a", 4),)
    assert capacity.executors(EXECUTOR, DRIVER) == {}
    assert not capacity.fits(0, EXECUTOR, DRIVER)


def test_a_worker_takes_no_more_than_its_number():
    capacity = FreeCapacity([worker("a", 8, count=3), worker("b", 8)])
    assert capacity.executors(EXECUTOR) == {"a": 3, "b": 8}
    assert capacity.executors(EXECUTOR, DRIVER) == {"a": 2, "b": 8}
    assert capacity.take(5, EXECUTOR) == {"a": 3, "b": 2}
    assert capacity.workers[0].count == 0


def test_executors_fit_only_on_workers_that_accept_them():
    workers = [worker("a", 4, **only("", "gpu")), worker("b", 4, **only("gpu"))]
    gpu = Request(1000, 100, "gpu")
    assert FreeCapacity(workers).executors(EXECUTOR) == {"a": 4}
    assert FreeCapacity(workers).take(9, EXECUTOR) == {"a": 4}
    assert FreeCapacity(workers).executors(gpu) == {"a": 4, "b": 4}
    assert not FreeCapacity(workers).fits(1, Request(1000, 100, "arm"))


def test_a_driver_costs_no_executor_on_a_worker_that_takes_no_executors():
    workers = [worker("a", 4, **only("driver")), worker("b", 4, **only(""))]
    driver = Request(1000, 100, "driver")
    assert FreeCapacity(workers).executors(EXECUTOR, driver) == {"b": 4}
    assert FreeCapacity(workers).fits(4, EXECUTOR, driver)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 20), st.integers(0, 20))
def test_what_fits_can_be_taken(first: int, second: int, allowed: int, wanted: int):
    workers, limits = [worker("a", first), worker("b", second, count=4)], [quota(allowed)]
    expected = min(first + min(second, 4), allowed)
    assert FreeCapacity(workers, limits).fits(wanted, EXECUTOR) is (wanted <= expected)
    assert sum(FreeCapacity(workers, limits).executors(EXECUTOR).values()) == expected
    assert sum(FreeCapacity(workers, limits).take(wanted, EXECUTOR).values()) == min(wanted, expected)


def shortage(capacity: FreeCapacity, driver: Request | None = None, executor: Request = EXECUTOR) -> str | None:
    found = capacity.shortage(executor, driver)
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("workers", "limits", "slots"),
    [
        ([worker("w1", 4), worker("w2", 3, **only("other"))], [], 4),
        ([worker("w1", 4)], [quota(1)], 4),
        ([], [], 0),
        ([], [quota(1)], None),
        ([worker("w1", 4), worker("more", 9, is_on_demand=True)], [], None),
    ],
)
def test_all_slots_of_a_cluster_are_known_if_it_shows_its_workers(workers, limits, slots):
    cluster = ClusterSnapshot(workers=tuple(workers), limits=tuple(limits), ui_url="")
    assert all_slots(cluster, Request(2000, 1), cores=2) == slots


def test_without_limits_no_reason_is_needed():
    assert shortage(FreeCapacity([worker("a", 2)])) is None
    assert shortage(FreeCapacity([])) is None


def test_the_workers_are_the_reason_before_any_limit():
    assert shortage(FreeCapacity([worker("a", 2)], [quota(2)])) == "no worker has room for another executor"
    assert shortage(FreeCapacity([worker("a", 2)], [quota(2)]), DRIVER) == "no worker has room for another executor"
    assert shortage(FreeCapacity([], [quota(2)]), DRIVER) == "no worker has room for the driver"


@pytest.mark.parametrize("limits", [[], [quota(0)]], ids=["no limits", "a quota without room"])
def test_workers_that_accept_no_driver_or_executor_are_named_before_all_limits(limits):
    plain = worker("a", 2, **only(""))
    full = worker("b", 0, **only("ssd"))
    probed = worker("c", 2, **only(), is_on_demand=True)
    on_ssd = Request(1000, 100, "ssd")
    capacity = FreeCapacity([plain, probed], limits)
    assert capacity.shortage(EXECUTOR, on_ssd) == Shortage(LimitKind.WORKERS, is_of_driver=True, is_of_placement=True)
    assert capacity.shortage(on_ssd) == Shortage(LimitKind.WORKERS, is_of_placement=True)
    assert capacity.shortage(on_ssd, DRIVER) == Shortage(LimitKind.WORKERS, is_of_placement=True)
    text = "no worker is ready that accepts an executor: see its node selector, tolerations and node affinity"
    assert shortage(FreeCapacity([plain], limits), executor=on_ssd) == text
    for other in (FreeCapacity([plain, full], limits), FreeCapacity([probed], limits), FreeCapacity([], limits)):
        found = other.shortage(on_ssd)
        assert found is None or not found.is_of_placement


def test_a_limit_is_the_reason_after_the_executors_that_it_allows():
    assert shortage(FreeCapacity([worker("a", 9)], [quota(2)])) == "quota `team-a` allows 0 cores more"
    half = Limit(kind=LimitKind.QUOTA, name="team-a", cpu_millicores=2500)
    assert shortage(FreeCapacity([worker("a", 9)], [half]), DRIVER) == "quota `team-a` allows 0.5 cores more"


def test_a_limit_may_be_too_small_for_the_driver():
    large = Request(3000, 100)
    text = "quota `team-a` allows 2 cores more, which is too little for the driver"
    assert shortage(FreeCapacity([worker("a", 9)], [quota(2)]), large) == text
