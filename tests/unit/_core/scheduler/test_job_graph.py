"""Job graphs: what is wrong with them, and what follows from them."""

import pytest

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.errors import JobGraphError
from airflow_adaptive._core.scheduler.job_graph import DEFAULT_VERTEX, JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange


def vertex(name: str, lower: int = 1, upper: int = 4, **more) -> JobVertex:
    return JobVertex(name=name, parallelism=ParallelismRange(lower, upper), **more)


def graph(*vertices: JobVertex) -> JobGraph:
    return JobGraph(job="flights", vertices=vertices)


def test_all_violations_are_reported_at_once():
    broken = graph(
        vertex("read"),
        vertex("read"),
        vertex(""),
        vertex("parse", lower=0),
        vertex("join", lower=5),
        vertex("count", max_parallelism=3),
        vertex("write", upper=40_000, stateful=False),
    )
    with pytest.raises(JobGraphError, match="^job 'flights': ") as raised:
        broken.validate()
    assert raised.value.violations == (
        "vertex 'read' is declared twice",
        "a vertex has no name",
        "bounds [0, 4] of vertex 'parse' must be greater than zero",
        "lower bound 5 of vertex 'join' is higher than its upper bound 4",
        "upper bound 4 of vertex 'count' exceeds its maximum parallelism 3: set max_parallelism=4 or more",
        "upper bound 40000 of vertex 'write' exceeds its maximum parallelism 32768",
    )


def test_vertices_read_only_what_is_declared_before_them_in_their_own_query():
    broken = graph(
        vertex("early", inputs=("late", "nowhere")),
        vertex("late"),
        vertex("other", slot_sharing_group="two", inputs=("late",)),
        vertex("itself", inputs=("itself",)),
    )
    with pytest.raises(JobGraphError) as raised:
        broken.validate()
    assert raised.value.violations == (
        "vertex 'early' reads vertex 'late', which must be declared before it",
        "vertex 'early' reads vertex 'nowhere', which is not declared",
        "vertices 'late' and 'other' belong to one query, so to one slot sharing group, not to 'default' and 'two'",
        "vertex 'itself' reads vertex 'itself', which must be declared before it",
    )


def test_co_located_vertices_share_a_group():
    broken = graph(
        vertex("a", slot_sharing_group="one", co_location="c"),
        vertex("b", slot_sharing_group="two", co_location="c"),
        vertex("d", slot_sharing_group="two", co_location="e"),
    )
    with pytest.raises(JobGraphError) as raised:
        broken.validate()
    assert raised.value.violations == ("co-location 'c' spans the slot sharing groups 'one', 'two': it must be in one",)


@pytest.mark.parametrize("weight", [0, -1.5, float("nan"), float("inf")])
def test_loading_weight_is_a_positive_number(weight: float):
    with pytest.raises(JobGraphError, match="loading weight .* of vertex 'a' must be a number greater than zero"):
        graph(vertex("a", loading_weight=weight)).validate()


def test_no_cluster_holds_more_than_flinks_maximum():
    with pytest.raises(JobGraphError, match="maximum parallelism 40000 of vertex 'a' exceeds 32768"):
        graph(vertex("a", upper=4, max_parallelism=40_000)).validate()


def test_graph_with_inputs_and_co_location_is_valid():
    graph(
        vertex("read", co_location="c"),
        vertex("parse", inputs=("read",), co_location="c", loading_weight=2.5),
        vertex("other", slot_sharing_group="two"),
    ).validate()


def test_job_needs_a_vertex():
    with pytest.raises(JobGraphError, match="job 'flights': has no vertices"):
        machine.create(graph(), Options())


def test_job_without_a_graph_is_one_stateful_vertex():
    single = JobGraph.single("flights", ParallelismRange(1, 4), max_parallelism=8)
    assert single.requirements == {DEFAULT_VERTEX: ParallelismRange(1, 4)}
    assert single.max_parallelism == {DEFAULT_VERTEX: 8}
    assert single.state_partitions == {"default": 8}


def test_groups_keep_the_order_of_their_first_vertex():
    groups = graph(
        vertex("a", slot_sharing_group="two"),
        vertex("b", slot_sharing_group="one"),
        vertex("c", slot_sharing_group="two"),
    ).groups
    assert {name: [v.name for v in vertices] for name, vertices in groups.items()} == {"two": ["a", "c"], "one": ["b"]}


def test_state_partitions_are_those_of_the_widest_stateful_vertex():
    assert graph(vertex("a", stateful=False), vertex("b", upper=3), vertex("c", upper=2)).state_partitions == {
        "default": 3
    }
    assert graph(vertex("a", stateful=False)).state_partitions == {"default": 1}


def test_shuffles_without_state_have_the_partitions_that_their_group_can_use():
    wide, wider = vertex("a", upper=3, stateful=False), vertex("b", max_parallelism=6, stateful=False)
    assert graph(wide).stateless_partitions == {"default": 3}
    assert graph(wide, wider).stateless_partitions == {"default": 6}
    assert graph(wide, wider, vertex("c")).stateless_partitions == {}


def test_stateful_vertex_has_no_more_partitions_than_it_can_use():
    assert vertex("count", upper=6).effective_max_parallelism == 6
    assert vertex("parse", upper=6, stateful=False).effective_max_parallelism == 128
