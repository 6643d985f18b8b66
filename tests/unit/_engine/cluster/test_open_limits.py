"""Drivers and executors take from limits exactly what the limits allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.ports import MIB, Limit, LimitKind, Request, Resources
from airflow_adaptive._engine.cluster.free_capacity import UNBOUNDED, OpenLimits

EXECUTOR = Request(1000, 100)
DRIVER = Request(500, 300)


def limit(cpu: int | None = None, memory: int | None = None, count: int | None = None) -> Limit:
    return Limit(kind=LimitKind.QUOTA, name="team-a", cpu_millicores=cpu, memory_bytes=memory, count=count)


def test_without_limits_everything_is_allowed():
    assert OpenLimits([]).allowed(EXECUTOR) == UNBOUNDED
    assert OpenLimits([limit()]).allowed(EXECUTOR) == UNBOUNDED


def test_the_scarcest_resource_of_all_limits_counts():
    assert OpenLimits([limit(cpu=4500)]).allowed(EXECUTOR) == 4
    assert OpenLimits([limit(cpu=4500, memory=350)]).allowed(EXECUTOR) == 3
    assert OpenLimits([limit(cpu=4500, memory=350), limit(count=2)]).allowed(EXECUTOR) == 2


def test_a_driver_that_comes_first_takes_its_part():
    assert OpenLimits([limit(cpu=4500)]).allowed(EXECUTOR, DRIVER) == 4
    assert OpenLimits([limit(cpu=4400)]).allowed(EXECUTOR, DRIVER) == 3
    assert OpenLimits([limit(count=2)]).allowed(EXECUTOR, DRIVER) == 1
    assert OpenLimits([limit(memory=200)]).allowed(EXECUTOR, DRIVER) == 0


def test_a_limit_that_is_exceeded_allows_nothing():
    assert OpenLimits([limit(cpu=-4500)]).allowed(EXECUTOR) == 0
    assert OpenLimits([limit(count=0)]).allowed(EXECUTOR) == 0


def test_what_is_taken_remains_taken():
    limits = OpenLimits([limit(cpu=4500, count=9), limit(memory=1000)])
    limits.charge(EXECUTOR, 2)
    limits.charge(EXECUTOR, 0)
    assert limits.remaining == (limit(cpu=2500, count=7), limit(memory=800))


def test_a_limit_that_does_not_apply_is_not_charged():
    def of_drivers(request: Request) -> Resources | None:
        return request if request == DRIVER else None

    quota = Limit(kind=LimitKind.QUOTA, cpu_millicores=1000, charge=of_drivers)
    limits = OpenLimits([quota])
    assert limits.allowed(EXECUTOR) == UNBOUNDED
    limits.charge(EXECUTOR, 5)
    assert limits.allowed(DRIVER) == 2
    assert limits.allowed(DRIVER, EXECUTOR) == 2
    limits.charge(DRIVER, 1)
    assert limits.allowed(DRIVER) == 1


def test_a_limit_may_charge_something_else_than_the_request():
    twice = Limit(kind=LimitKind.QUOTA, cpu_millicores=9000, charge=lambda it: Resources(2 * it.cpu_millicores, 0))
    assert OpenLimits([twice]).allowed(EXECUTOR) == 4


@given(st.integers(0, 9000), st.integers(0, 2000), st.integers(0, 9))
def test_exactly_the_allowed_number_can_be_taken(cpu: int, memory: int, count: int):
    limits = OpenLimits([limit(cpu, memory, count)])
    limits.charge(EXECUTOR, limits.allowed(EXECUTOR))
    [left] = limits.remaining
    assert min(left.cpu_millicores or 0, left.memory_bytes or 0, left.count or 0) >= 0
    assert limits.allowed(EXECUTOR) == 0


def shortage(*limits: Limit, request: Request = EXECUTOR) -> str | None:
    found = OpenLimits(limits).shortage(request)
    return None if found is None else found.text


def test_a_limit_that_allows_more_is_no_shortage():
    assert shortage(limit(cpu=1000, memory=100, count=1)) is None


def test_the_shortage_names_what_a_limit_allows_more():
    large = Request(1500, 2048 * MIB)
    assert shortage(limit(memory=1900 * MIB), request=large) == "quota `team-a` allows 1,900 MiB more"
    assert shortage(limit(cpu=1250, memory=8192 * MIB), request=large) == "quota `team-a` allows 1.25 cores more"
    assert shortage(limit(cpu=500, memory=0), request=large) == "quota `team-a` allows 0.5 cores and 0 MiB more"
    assert shortage(limit(count=0)) == "quota `team-a` allows no driver or executor more"
    assert shortage(limit(cpu=1000), request=large) == "quota `team-a` allows 1 core more"
    assert shortage(limit(cpu=-500)) == "quota `team-a` allows 0 cores more"


def test_the_first_limit_in_the_order_of_the_kinds_is_the_reason():
    cap = Limit(kind=LimitKind.CAP, cpu_millicores=500)
    queue = Limit(kind=LimitKind.QUEUE, name="streams", cpu_millicores=500)
    workers = Limit(kind=LimitKind.WORKERS, cpu_millicores=500)
    assert shortage(cap) == "the cap of the connection allows 0.5 cores more"
    assert shortage(cap, queue) == "queue `streams` allows 0.5 cores more"
    assert shortage(cap, queue, limit(cpu=500)) == "quota `team-a` allows 0.5 cores more"
    assert shortage(cap, limit(cpu=500), workers) == "the capacity of the workers allows 0.5 cores more"
    assert shortage(cap, limit(cpu=5000)) == "the cap of the connection allows 0.5 cores more"
