"""Lower bounds from the gangs of queries in Real-Time Mode."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.requirements.gangs import Gangs
from airflow_adaptive._core.requirements.sources import DECLARED, ResolvedRequirements
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange

SINGLE = JobGraph.single("j", ParallelismRange(1, 8))


def status(gangs: dict[str, int], vertices_read: tuple[str, ...] | None = ()) -> DriverStatus:
    return DriverStatus(
        job="j",
        epoch=1,
        nonce="n",
        sequence=1,
        at="",
        state=DriverState.STARTING,
        gangs=gangs,
        vertices_read=vertices_read,
    )


def observed(gangs: dict[str, int]) -> Gangs:
    found = Gangs()
    found.observe(status(gangs))
    return found


def applied(gangs: Gangs, graph: JobGraph, **bounds: tuple[int, int]) -> ResolvedRequirements:
    given = {name: ParallelismRange(*pair) for name, pair in bounds.items()}
    return gangs.apply(ResolvedRequirements(requirements=given, source=DECLARED), graph)


@pytest.mark.parametrize(
    ("bounds", "expected"), [((1, 8), (3, 8)), ((3, 8), (3, 8)), ((5, 6), (5, 6)), ((1, 2), (3, 3))]
)
def test_lower_bound_is_not_below_the_gang(bounds: tuple[int, int], expected: tuple[int, int]) -> None:
    result = applied(observed({"q": 3}), SINGLE, job=bounds)
    assert result.requirements == {"job": ParallelismRange(*expected)}
    assert bool(result.gang) == (bounds != expected)


def test_reason_names_the_query_and_its_slots() -> None:
    expected = "Real-Time Mode runs all stages at the same time: query q needs 3 slots"
    assert applied(observed({"q": 3}), SINGLE, job=(1, 8)).gang == expected


def test_bounds_never_exceed_the_maximum_parallelism() -> None:
    assert applied(observed({"q": 30}), SINGLE, job=(1, 8)).requirements == {"job": ParallelismRange(8, 8)}


def test_queries_of_one_group_share_its_slots_so_their_gangs_add_up() -> None:
    assert applied(observed({"a": 3, "b": 2}), SINGLE, job=(1, 8)).requirements == {"job": ParallelismRange(5, 8)}


def test_each_group_gets_the_gang_of_its_query() -> None:
    def vertex(name: str, group: str, most: int) -> JobVertex:
        return JobVertex(name=name, parallelism=ParallelismRange(1, most), slot_sharing_group=group)

    graph = JobGraph(job="j", vertices=(vertex("read", "a", 4), vertex("count", "a", 8), vertex("other", "b", 8)))
    result = applied(observed({"a": 6, "b": 2}), graph, read=(1, 4), count=(1, 8), other=(1, 8))
    assert {name: it.lower for name, it in result.requirements.items()} == {"read": 1, "count": 6, "other": 2}


def test_query_of_no_group_of_several_is_ignored() -> None:
    vertices = tuple(
        JobVertex(name=name, parallelism=ParallelismRange(1, 4), slot_sharing_group=name) for name in ("a", "b")
    )
    graph = JobGraph(job="j", vertices=vertices)
    assert applied(observed({"x": 3, "y": 3}), graph, a=(1, 4), b=(1, 4)).gang == ""


def test_gangs_remain_while_no_driver_has_built_its_queries() -> None:
    gangs = observed({"q": 3})
    gangs.observe(None)
    gangs.observe(status({}, vertices_read=None))
    assert gangs.to_snapshot() == {"q": 3}


def test_gangs_end_when_a_driver_has_built_queries_in_another_mode() -> None:
    gangs = observed({"q": 3})
    gangs.observe(status({}))
    assert gangs.to_snapshot() == {}


def test_gang_is_known_before_the_driver_has_built_queries_that_can_start() -> None:
    gangs = Gangs()
    gangs.observe(status({"q": 3}, vertices_read=None))
    assert gangs.to_snapshot() == {"q": 3}


@pytest.mark.parametrize(
    ("snapshot", "expected"), [({"q": 3}, {"q": 3}), ({"q": "x", "r": 1}, {"r": 1}), (None, {}), (7, {})]
)
def test_restore_ignores_anything_invalid(snapshot: Any, expected: dict[str, int]) -> None:
    gangs = Gangs()
    gangs.restore(snapshot)
    assert gangs.to_snapshot() == expected
