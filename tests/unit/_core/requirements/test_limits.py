"""Bounds within the limits that drivers report: the tasks that sources feed, and the gangs of queries in Real-Time Mode."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits, align
from airflow_adaptive._core.scheduler.config.options import SourceAlignment
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive.graph import JobGraph, JobVertex, ParallelismRange

BALANCED, EVENLY_SPREAD, OFF = SourceAlignment.BALANCED, SourceAlignment.EVENLY_SPREAD, SourceAlignment.OFF


@pytest.mark.parametrize("mode", SourceAlignment)
@pytest.mark.parametrize("target", [180, 100, 50, 16])
def test_more_subtasks_than_partitions_come_down_to_the_partitions_in_every_mode(mode: SourceAlignment, target: int):
    """FLINK-40389: with 15 partitions, Flink keeps a source at parallelism 100."""
    assert align(target, 15, (1, 180), mode) == 15


@pytest.mark.parametrize(
    ("target", "bounds", "balanced", "evenly_spread"),
    [
        (10, (1, 180), 15, 15),
        (10, (1, 12), 10, 5),
        (10, (6, 12), 10, 10),
        (6, (1, 180), 8, 15),
        (6, (1, 7), 6, 5),
        (4, (1, 180), 5, 5),
        (15, (1, 15), 15, 15),
        (1, (1, 180), 1, 1),
    ],
)
def test_alignment_of_15_partitions(target: int, bounds: tuple[int, int], balanced: int, evenly_spread: int):
    assert align(target, 15, bounds, BALANCED) == balanced
    assert align(target, 15, bounds, EVENLY_SPREAD) == evenly_spread
    assert align(target, 15, bounds, OFF) == target


@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 200), st.sampled_from(SourceAlignment))
def test_aligned_parallelism_stays_within_the_partitions_and_the_upper_bound(
    target: int, partitions: int, upper: int, mode: SourceAlignment
):
    aligned = align(target, partitions, (1, max(upper, target)), mode)
    assert 1 <= aligned <= min(partitions, max(upper, target))
    if mode is EVENLY_SPREAD:
        assert partitions % aligned == 0
    if mode is BALANCED:
        assert aligned >= min(target, partitions)


def vertex(name: str, *inputs: str, group: str = "default") -> JobVertex:
    return JobVertex(name=name, parallelism=ParallelismRange(1, 16), inputs=inputs, slot_sharing_group=group)


SINGLE = JobGraph(job="j", vertices=(vertex("job"),))
AGGREGATED = JobGraph(job="j", vertices=(vertex("read"), vertex("count", "read")))


def source(limit: int | None, min_partitions: int | None = None) -> SourceReport:
    return SourceReport(kind="KafkaV2", input_limit=limit, min_partitions=min_partitions)


def status(*sources: SourceReport, shuffle: Shuffle | None = Shuffle.NONE, **more: Any) -> DriverStatus:
    query = QueryReport(name="j", active=True, sources=sources, shuffle=shuffle)
    return DriverStatus(
        **{"job": "j", "epoch": 1, "nonce": "n", "sequence": 1, "at": "", "state": DriverState.RUNNING}  # type: ignore[arg-type]
        | {"queries": (query,)}
        | more
    )


def wanted(graph: JobGraph, lower: int = 1, upper: int = 16) -> Requirements:
    return {it.name: ParallelismRange(lower, upper) for it in graph.vertices}


def limited(
    limits: ReportedLimits,
    graph: JobGraph,
    lower: int = 1,
    upper: int = 16,
    mode: SourceAlignment = OFF,
    ceiling: int | None = None,
) -> dict[str, Any]:
    bounds = wanted(graph, lower, upper)
    found, _ = limits.applied(bounds, graph, wanted(graph, 1, ceiling or upper), mode)
    return {name: (bounds.lower, bounds.upper) for name, bounds in found.items()}


def observed(graph: JobGraph, *statuses: DriverStatus | None) -> ReportedLimits:
    limits = NO_LIMITS
    for it in statuses:
        limits = limits.observed(graph, it)
    return limits


def test_without_a_shuffle_the_limit_bounds_the_only_vertex():
    limits = observed(SINGLE, status(source(8)))
    assert limited(limits, SINGLE) == {"job": (1, 8)}
    assert limited(limits, SINGLE, 12, 16) == {"job": (8, 8)}
    assert limited(limits, SINGLE, 1, 4) == {"job": (1, 4)}
    _, reason = limits.applied(wanted(SINGLE), SINGLE, wanted(SINGLE), OFF)
    assert reason == "the sources of vertex job feed 8 tasks: more than 8 slots would idle"
    assert limits.applied(wanted(SINGLE, 1, 4), SINGLE, wanted(SINGLE), OFF) == (wanted(SINGLE, 1, 4), "")


@pytest.mark.parametrize("shuffle", [Shuffle.EXCHANGE, Shuffle.REPARTITION, Shuffle.UNKNOWN, None])
def test_where_a_shuffle_follows_the_limit_does_not_cap_the_job(shuffle: Shuffle | None):
    assert limited(observed(SINGLE, status(source(8), shuffle=shuffle)), SINGLE) == {"job": (1, 16)}


def test_limit_bounds_the_vertex_that_reads_before_a_shuffle():
    limits = observed(AGGREGATED, status(source(3), source(5), shuffle=Shuffle.EXCHANGE))
    assert limited(limits, AGGREGATED) == {"read": (1, 8), "count": (1, 16)}
    repartitioned = observed(AGGREGATED, status(source(8), shuffle=Shuffle.REPARTITION))
    assert limited(repartitioned, AGGREGATED) == {"read": (1, 16), "count": (1, 16)}


def test_with_several_reading_vertices_the_vertex_of_a_source_is_unknown():
    joined = JobGraph(job="j", vertices=(vertex("left"), vertex("right"), vertex("join", "left", "right")))
    limits = observed(joined, status(source(3), source(5), shuffle=Shuffle.EXCHANGE))
    assert limited(limits, joined) == {"left": (1, 16), "right": (1, 16), "join": (1, 16)}


def test_source_whose_tasks_are_unknown_limits_nothing():
    assert limited(observed(SINGLE, status(source(8), source(None))), SINGLE) == {"job": (1, 16)}
    assert limited(observed(SINGLE, status()), SINGLE) == {"job": (1, 16)}
    assert limited(observed(SINGLE, status(source(0))), SINGLE) == {"job": (1, 16)}


def reports(**queries: tuple[int | None, Shuffle]) -> DriverStatus:
    """Return the status of several queries."""
    found = [
        QueryReport(name=name, active=True, sources=(source(limit),), shuffle=shuffle)
        for name, (limit, shuffle) in queries.items()
    ]
    return status(queries=tuple(found))


def test_limits_of_queries_that_share_a_vertex_add_up():
    limits = observed(SINGLE, reports(a=(4, Shuffle.NONE), b=(3, Shuffle.NONE)))
    assert limited(limits, SINGLE) == {"job": (1, 7)}


@pytest.mark.parametrize("other", [(4, Shuffle.EXCHANGE), (None, Shuffle.NONE)])
def test_query_without_a_limit_keeps_the_slots_that_another_query_cannot_use(other: tuple[int | None, Shuffle]):
    for queries in ({"a": other, "b": (1, Shuffle.NONE)}, {"a": (1, Shuffle.NONE), "b": other}):
        assert limited(observed(SINGLE, reports(**queries)), SINGLE) == {"job": (1, 16)}


def test_new_partitions_raise_the_limit_and_a_driver_that_does_not_report_keeps_it():
    limits = observed(SINGLE, status(source(4)), None)
    assert limited(limits, SINGLE) == {"job": (1, 4)}
    limits = limits.observed(SINGLE, status(source(6)))
    assert limited(limits, SINGLE) == {"job": (1, 6)}
    limits = limits.observed(SINGLE, status(source(6), shuffle=Shuffle.EXCHANGE))
    assert limited(limits, SINGLE) == {"job": (1, 16)}


def test_min_partitions_that_the_script_takes_from_the_plan_is_no_limit():
    for parallelism in (4, 6, 3):
        read = status(
            source(max(3, parallelism), parallelism), parallelism={"job": parallelism}, vertices_read=("job",)
        )
        assert limited(observed(SINGLE, read), SINGLE) == {"job": (1, 16)}


def test_constant_min_partitions_is_a_limit():
    limits = observed(SINGLE, status(source(8, 8), parallelism={"job": 2}, vertices_read=("job",)))
    assert limited(limits, SINGLE) == {"job": (1, 8)}
    limits = limits.observed(SINGLE, status(source(8, 8), parallelism={"job": 8}, vertices_read=("job",)))
    assert limited(limits, SINGLE) == {"job": (1, 8)}
    unread = observed(SINGLE, status(source(8, 8), parallelism={"job": 8}, vertices_read=()))
    assert limited(unread, SINGLE) == {"job": (1, 8)}


def test_advice_is_aligned_within_the_declared_bounds_and_other_bounds_below_themselves():
    limits = observed(SINGLE, status(source(15)))
    assert limited(limits, SINGLE, 1, 10, BALANCED, ceiling=16) == {"job": (1, 15)}
    assert limited(limits, SINGLE, 1, 10, BALANCED) == {"job": (1, 10)}
    assert limited(limits, SINGLE, 1, 10, EVENLY_SPREAD) == {"job": (1, 5)}


def test_limit_of_a_vertex_that_is_gone_bounds_nothing():
    assert limited(ReportedLimits(inputs={"gone": 3}), SINGLE) == {"job": (1, 16)}


def test_next_loop_observes_again_whether_min_partitions_is_constant():
    limits = observed(SINGLE, status(source(8, 8), parallelism={"job": 2}, vertices_read=("job",)))
    assert limits.lasting == ReportedLimits(inputs={"job": 8})


# ---- gangs ----------------------------------------------------------------------------------------------------------


def in_real_time(gangs: dict[str, int], vertices_read: tuple[str, ...] | None = ()) -> DriverStatus:
    return status(gangs=gangs, vertices_read=vertices_read, queries=())


@pytest.mark.parametrize(
    ("bounds", "expected"), [((1, 8), (3, 8)), ((3, 8), (3, 8)), ((5, 6), (5, 6)), ((1, 2), (3, 3))]
)
def test_lower_bound_is_not_below_the_gang(bounds: tuple[int, int], expected: tuple[int, int]) -> None:
    assert limited(observed(SINGLE, in_real_time({"q": 3})), SINGLE, *bounds) == {"job": expected}


def test_reason_names_the_query_and_its_slots_once() -> None:
    limits = ReportedLimits(inputs={"job": 4}, gangs={"q": 3})
    bounds, reason = limits.applied(wanted(SINGLE), SINGLE, wanted(SINGLE), OFF)
    assert bounds == {"job": ParallelismRange(3, 4)}
    assert reason == (
        "the sources of vertex job feed 4 tasks: more than 4 slots would idle; "
        "Real-Time Mode runs all stages at the same time: query q needs 3 slots"
    )


def test_bounds_never_exceed_the_maximum_parallelism() -> None:
    assert limited(ReportedLimits(gangs={"q": 300}), SINGLE, 1, 8) == {"job": (16, 16)}


def test_queries_of_one_group_share_its_slots_so_their_gangs_add_up() -> None:
    assert limited(ReportedLimits(gangs={"a": 3, "b": 2}), SINGLE, 1, 8) == {"job": (5, 8)}


def test_each_group_gets_the_gang_of_its_query() -> None:
    narrow = JobVertex(name="read", parallelism=ParallelismRange(1, 4), slot_sharing_group="a", max_parallelism=4)
    graph = JobGraph(job="j", vertices=(narrow, vertex("count", group="a"), vertex("other", group="b")))
    assert limited(ReportedLimits(gangs={"a": 6, "b": 2}), graph, 1, 4) == {
        "read": (1, 4),
        "count": (6, 6),
        "other": (2, 4),
    }


def test_query_of_no_group_of_several_is_ignored() -> None:
    graph = JobGraph(job="j", vertices=(vertex("a", group="a"), vertex("b", group="b")))
    assert limited(ReportedLimits(gangs={"x": 3, "y": 3}), graph) == {"a": (1, 16), "b": (1, 16)}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((in_real_time({"q": 3}), None, in_real_time({}, None)), {"q": 3}),
        ((in_real_time({"q": 3}), in_real_time({})), {}),
        ((in_real_time({"q": 3}, None),), {"q": 3}),
    ],
    ids=["while no driver has built its queries", "in another mode", "before the queries can start"],
)
def test_gangs_are_those_of_the_newest_driver_that_knows_them(
    statuses: tuple[DriverStatus | None, ...], expected: dict[str, int]
) -> None:
    assert observed(SINGLE, *statuses).gangs == expected
