"""Which subtasks lie in which slot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.allocator import GroupSlots, place_balanced, place_by_index
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange

MOST = 12


def job(**marks: str | None) -> JobGraph:
    """One group of these vertices, each with its co-location mark."""
    return JobGraph(job="job", vertices=tuple(vertex(name, co_location=mark) for name, mark in marks.items()))


def vertex(name: str, **more) -> JobVertex:
    return JobVertex(name=name, parallelism=ParallelismRange(1, MOST), **more)


def written(group: GroupSlots) -> list[str]:
    """The content of each slot, for example "a0 b1"."""
    return [" ".join(f"{name}{index}" for name, index in slot) for slot in group.contents()]


# ---- examples -------------------------------------------------------------------------------------------------------


def test_subtask_lies_in_the_slot_of_its_index_unless_tasks_are_balanced():
    (group,) = place_by_index(job(a=None, b=None, c=None), {"a": 1, "b": 3, "c": 2})
    assert written(group) == ["a0 b0 c0", "b1 c1", "b2"]
    assert group.tasks() == [3, 2, 1]


@pytest.mark.parametrize(
    ("parallelism", "slots"),
    [
        ({"a": 3}, ["a0", "a1", "a2"]),
        ({"a": 6, "b": 3}, ["a0 b0", "a1 b1", "a2 b2", "a3", "a4", "a5"]),
        ({"a": 1, "b": 1, "c": 4}, ["a0 c0", "b0 c1", "c2", "c3"]),
        ({"a": 2, "b": 5, "c": 4, "d": 3, "e": 1}, ["a0 b0 c3", "a1 b1 d0", "b2 c0 d1", "b3 c1 d2", "b4 c2 e0"]),
        ({"a": 1, "b": 4, "c": 4, "d": 2, "e": 3}, ["a0 b0 c0 e1", "b1 c1 d0 e2", "b2 c2 d1", "b3 c3 e0"]),
        ({"a": 3, "b": 1, "c": 4}, ["a0 c0", "a1 c1", "a2 c2", "b0 c3"]),
    ],
    ids=str,
)
def test_vertices_go_round_unless_they_fill_the_group(parallelism: Parallelism, slots: list[str]):
    (group,) = place_balanced(job(**dict.fromkeys(parallelism)), parallelism)
    assert written(group) == slots


def test_groups_go_round_on_their_own():
    graph = JobGraph(
        job="job", vertices=tuple(vertex(name, slot_sharing_group=name[0]) for name in ("x1", "y1", "x2", "y2"))
    )
    placed = place_balanced(graph, {"x1": 1, "y1": 1, "x2": 2, "y2": 3})
    assert [(group.group, group.size, group.tasks()) for group in placed] == [("x", 2, [2, 1]), ("y", 3, [2, 1, 1])]


@pytest.mark.parametrize(
    ("marks", "parallelism", "slots"),
    [
        # the first of a mark takes the emptiest slots, the others follow; the next one begins in the emptiest slot
        ({"p": None, "q": "m", "r": "m", "a": None}, (1, 2, 2, 1), ["p0", "q0 r0", "q1 r1", "a0"]),
        # a wider vertex binds the rest of its indices to slots that hold none of its subtasks
        ({"p": "m", "q": "m"}, (2, 3), ["p0 q0", "p1 q1", "q2", ""]),
        ({"a": None, "p": "m", "q": "m"}, (3, 1, 3), ["a0 q1", "a1 q2", "a2", "p0 q0"]),
        # a narrower one follows with as many as it has
        ({"p": "m", "q": "m", "a": None}, (3, 2, 2), ["p0 q0 a1", "p1 q1", "p2", "a0"]),
        # marks know nothing of each other
        ({"p": "m", "q": "n"}, (2, 2), ["p0", "p1", "q0", "q1"]),
        # what is bound stays bound; the rest is bound when it is needed
        ({"p": "m", "q": "m", "a": None, "r": "m"}, (1, 2, 1, 3), ["p0 q0 r0", "q1 r1", "a0", "r2"]),
        # a vertex that fills the group leaves the next one where it was to begin, be it the fullest slot
        ({"p": None, "q": "m", "a": None}, (1, 4, 1), ["p0 q3", "q0 a0", "q1", "q2"]),
        (
            {"p": "m", "q": "m", "a": None, "f": "n", "b": None},
            (1, 1, 3, 4, 1),
            ["p0 q0 f3 b0", "a0 f0", "a1 f1", "a2 f2"],
        ),
    ],
    ids=str,
)
def test_co_located_subtasks_are_bound_to_one_slot(
    marks: dict[str, str | None], parallelism: tuple[int, ...], slots: list[str]
):
    counts = dict(zip(marks, parallelism, strict=True))
    (group,) = place_balanced(job(**marks, last=None), {**counts, "last": 4})
    assert written(group) == [f"{slot} last{index}".strip() for index, slot in enumerate(slots)]


# ---- what holds for any job -----------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn, *, marks: tuple[str | None, ...] = (None,)) -> JobGraph:
    groups = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=8))
    names = [(f"v{number}", group, draw(st.sampled_from(marks))) for number, group in enumerate(groups)]
    return JobGraph(
        job="job",
        vertices=tuple(
            vertex(name, slot_sharing_group=group, co_location=mark and mark + group) for name, group, mark in names
        ),
    )


@st.composite
def plans(draw: st.DrawFn, *, marks: tuple[str | None, ...] = (None, "m", "n")) -> tuple[JobGraph, Parallelism]:
    graph = draw(graphs(marks=marks))
    return graph, {v.name: draw(st.integers(1, MOST)) for v in graph.vertices}


@pytest.mark.parametrize("place", [place_by_index, place_balanced])
@given(plan=plans())
def test_every_subtask_lies_in_one_slot_beside_none_of_its_own_vertex(place, plan: tuple[JobGraph, Parallelism]):
    graph, parallelism = plan
    placed = place(graph, parallelism)
    assert [group.group for group in placed] == list(graph.groups)
    for group in placed:
        vertices = [v.name for v in graph.groups[group.group]]
        assert group.size == max(parallelism[name] for name in vertices)
        slots = group.contents()
        assert sorted(subtask for slot in slots for subtask in slot) == sorted(
            (name, index) for name in vertices for index in range(parallelism[name])
        )
        assert all(len({name for name, _ in slot}) == len(slot) for slot in slots)


@pytest.mark.parametrize("place", [place_by_index, place_balanced])
@given(plan=plans())
def test_subtasks_of_one_index_share_the_slot_of_their_mark(place, plan: tuple[JobGraph, Parallelism]):
    graph, parallelism = plan
    slots: dict[tuple[str, int], set[int]] = {}
    for group in place(graph, parallelism):
        for v in graph.groups[group.group]:
            for index, slot in enumerate(group.slots_of[v.name] if v.co_location else ()):
                slots.setdefault((str(v.co_location), index), set()).add(slot)
    assert all(len(found) == 1 for found in slots.values())


@given(plan=plans(marks=(None,)))
def test_balanced_slots_of_a_group_differ_by_one_subtask_at_most(plan: tuple[JobGraph, Parallelism]):
    for group in place_balanced(*plan):
        assert max(group.tasks()) - min(group.tasks()) <= 1


@given(plan=plans(), weights=st.lists(st.integers(1, 9), min_size=8, max_size=8))
def test_load_of_a_slot_is_the_weight_of_its_content(plan: tuple[JobGraph, Parallelism], weights: list[int]):
    graph, parallelism = plan
    weight_of = {f"v{number}": float(weight) for number, weight in enumerate(weights)}
    for group in place_balanced(graph, parallelism):
        assert group.loads(weight_of) == [sum(weight_of[name] for name, _ in slot) for slot in group.contents()]
        assert group.tasks() == [len(slot) for slot in group.contents()]
