from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.input_limits import InputLimits, align
from airflow_adaptive._core.requirements.sources import (
    DECLARED,
    RequirementsOrigin,
    RequirementsSource,
    ResolvedRequirements,
)
from airflow_adaptive._core.scheduler.config.alignment import SourceAlignment
from airflow_adaptive.graph import JobGraph, JobVertex, ParallelismRange

BALANCED, EVENLY_SPREAD, OFF = SourceAlignment.BALANCED, SourceAlignment.EVENLY_SPREAD, SourceAlignment.OFF
ADVICE = RequirementsSource(origin=RequirementsOrigin.POLICY, name="load")


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


def wanted(graph: JobGraph, lower: int = 1, upper: int = 16, by: RequirementsSource = DECLARED) -> ResolvedRequirements:
    bounds = {it.name: ParallelismRange(lower, upper) for it in graph.vertices}
    return ResolvedRequirements(requirements=bounds, source=by)


def limited(limits: InputLimits, resolved: ResolvedRequirements, mode: SourceAlignment = OFF) -> dict[str, Any]:
    ceiling = {name: ParallelismRange(1, 16) for name in resolved.requirements}
    found = limits.apply(resolved, ceiling, mode).requirements
    return {name: (bounds.lower, bounds.upper) for name, bounds in found.items()}


def observed(graph: JobGraph, *statuses: DriverStatus | None) -> InputLimits:
    limits = InputLimits()
    for it in statuses:
        limits.observe(graph, it)
    return limits


def test_without_a_shuffle_the_limit_bounds_the_only_vertex():
    limits = observed(SINGLE, status(source(8)))
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 8)}
    assert limited(limits, wanted(SINGLE, 12, 16)) == {"job": (8, 8)}
    assert limited(limits, wanted(SINGLE, 1, 4)) == {"job": (1, 4)}
    found = limits.apply(wanted(SINGLE), wanted(SINGLE).requirements, OFF)
    assert found.input_limit == "the sources of vertex job feed 8 tasks: more than 8 slots would idle"
    assert limits.apply(wanted(SINGLE, 1, 4), wanted(SINGLE).requirements, OFF).input_limit == ""


@pytest.mark.parametrize("shuffle", [Shuffle.EXCHANGE, Shuffle.REPARTITION, Shuffle.UNKNOWN, None])
def test_where_a_shuffle_follows_the_limit_does_not_cap_the_job(shuffle: Shuffle | None):
    assert limited(observed(SINGLE, status(source(8), shuffle=shuffle)), wanted(SINGLE)) == {"job": (1, 16)}


def test_limit_bounds_the_vertex_that_reads_before_a_shuffle():
    limits = observed(AGGREGATED, status(source(3), source(5), shuffle=Shuffle.EXCHANGE))
    assert limited(limits, wanted(AGGREGATED)) == {"read": (1, 8), "count": (1, 16)}
    repartitioned = observed(AGGREGATED, status(source(8), shuffle=Shuffle.REPARTITION))
    assert limited(repartitioned, wanted(AGGREGATED)) == {"read": (1, 16), "count": (1, 16)}


def test_with_several_reading_vertices_the_vertex_of_a_source_is_unknown():
    joined = JobGraph(job="j", vertices=(vertex("left"), vertex("right"), vertex("join", "left", "right")))
    limits = observed(joined, status(source(3), source(5), shuffle=Shuffle.EXCHANGE))
    assert limited(limits, wanted(joined)) == {"left": (1, 16), "right": (1, 16), "join": (1, 16)}


def test_source_whose_tasks_are_unknown_limits_nothing():
    assert limited(observed(SINGLE, status(source(8), source(None))), wanted(SINGLE)) == {"job": (1, 16)}
    assert limited(observed(SINGLE, status()), wanted(SINGLE)) == {"job": (1, 16)}
    assert limited(observed(SINGLE, status(source(0))), wanted(SINGLE)) == {"job": (1, 16)}


def reports(**queries: tuple[int | None, Shuffle]) -> DriverStatus:
    """Return the status of several queries."""
    found = [
        QueryReport(name=name, active=True, sources=(source(limit),), shuffle=shuffle)
        for name, (limit, shuffle) in queries.items()
    ]
    return status(queries=tuple(found))


def test_limits_of_queries_that_share_a_vertex_add_up():
    limits = observed(SINGLE, reports(a=(4, Shuffle.NONE), b=(3, Shuffle.NONE)))
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 7)}


@pytest.mark.parametrize("other", [(4, Shuffle.EXCHANGE), (None, Shuffle.NONE)])
def test_query_without_a_limit_keeps_the_slots_that_another_query_cannot_use(other: tuple[int | None, Shuffle]):
    for queries in ({"a": other, "b": (1, Shuffle.NONE)}, {"a": (1, Shuffle.NONE), "b": other}):
        assert limited(observed(SINGLE, reports(**queries)), wanted(SINGLE)) == {"job": (1, 16)}


def test_new_partitions_raise_the_limit_and_a_driver_that_does_not_report_keeps_it():
    limits = observed(SINGLE, status(source(4)), None)
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 4)}
    limits.observe(SINGLE, status(source(6)))
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 6)}
    limits.observe(SINGLE, status(source(6), shuffle=Shuffle.EXCHANGE))
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 16)}


def test_min_partitions_that_the_script_takes_from_the_plan_is_no_limit():
    for parallelism in (4, 6, 3):
        read = status(
            source(max(3, parallelism), parallelism), parallelism={"job": parallelism}, vertices_read=("job",)
        )
        assert limited(observed(SINGLE, read), wanted(SINGLE)) == {"job": (1, 16)}


def test_constant_min_partitions_is_a_limit():
    limits = observed(SINGLE, status(source(8, 8), parallelism={"job": 2}, vertices_read=("job",)))
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 8)}
    limits.observe(SINGLE, status(source(8, 8), parallelism={"job": 8}, vertices_read=("job",)))
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 8)}
    unread = observed(SINGLE, status(source(8, 8), parallelism={"job": 8}, vertices_read=()))
    assert limited(unread, wanted(SINGLE)) == {"job": (1, 8)}


def test_advice_is_aligned_within_the_declared_bounds_and_other_bounds_below_themselves():
    limits = observed(SINGLE, status(source(15)))
    assert limited(limits, wanted(SINGLE, 1, 10, ADVICE), BALANCED) == {"job": (1, 15)}
    assert limited(limits, wanted(SINGLE, 1, 10), BALANCED) == {"job": (1, 10)}
    assert limited(limits, wanted(SINGLE, 1, 10), EVENLY_SPREAD) == {"job": (1, 5)}


def test_next_loop_continues_with_the_limits():
    limits = InputLimits()
    limits.restore(observed(SINGLE, status(source(4))).to_snapshot())
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 4)}
    limits.restore(["no", "limits"])
    limits.restore({"job": "many", "gone": 3})
    assert limited(limits, wanted(SINGLE)) == {"job": (1, 16)}
