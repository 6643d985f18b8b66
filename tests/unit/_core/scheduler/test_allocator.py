"""Slot allocation: the parallelism on a number of slots, and assignments: every subtask in a slot, every slot on a worker."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.allocator import (
    Assignment,
    LoadBalanceMode,
    assign,
    determine_parallelism,
    minimum_slots,
    required_slots,
    used_slots,
)
from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange

NONE, SLOTS, TASKS = LoadBalanceMode.NONE, LoadBalanceMode.SLOTS, LoadBalanceMode.TASKS


def vertex(name: str, **more) -> JobVertex:
    return JobVertex(name=name, parallelism=ParallelismRange(1, 30), **more)


def graph(*vertices: JobVertex) -> JobGraph:
    return JobGraph(job="job", vertices=vertices)


def workers(*free: int) -> tuple[SlotOffer, ...]:
    return tuple(SlotOffer(worker=f"worker-{number}", free=slots) for number, slots in enumerate(free))


def assigned(*arguments, **more) -> Assignment:
    assignment = assign(*arguments, **more)
    assert assignment is not None
    return assignment


def tasks_per_worker(assignment: Assignment) -> dict[str, int]:
    return {worker: sum(map(len, slots)) for worker, slots in assignment.contents().items()}


# ---- one example through ----------------------------------------------------------------------------------------------

FLIGHTS = graph(
    vertex("read"),
    vertex("count", loading_weight=4.0),
    vertex("write", slot_sharing_group="other"),
)
PARALLELISM = {"read": 3, "count": 1, "write": 1}


def test_assignment_names_the_place_of_every_task():
    assignment = assigned(FLIGHTS, PARALLELISM, workers(2, 2), TASKS)
    assert assignment.contents() == {
        "worker-0": [[("read", 0), ("count", 0)], [("write", 0)]],
        "worker-1": [[("read", 1)], [("read", 2)]],
    }
    assert assignment.loads == (5.0, 1.0, 1.0, 1.0)
    assert assignment.load_per_worker == {"worker-0": 6.0, "worker-1": 2.0}
    assert tasks_per_worker(assignment) == {"worker-0": 3, "worker-1": 2}
    assert assignment.slots_per_worker == {"worker-0": 2, "worker-1": 2}
    assert assignment.imbalance == 1.5


def weighted(**weights: float) -> JobGraph:
    return graph(*(replace(vertex, loading_weight=weights[vertex.name]) for vertex in FLIGHTS.vertices))


def test_weight_decides_what_is_balanced():
    by_declaration = assigned(FLIGHTS, PARALLELISM, workers(4, 4), TASKS)
    assert tasks_per_worker(by_declaration) == {"worker-0": 2, "worker-1": 3}
    by_number = assigned(weighted(read=1.0, count=1.0, write=1.0), PARALLELISM, workers(4, 4), TASKS)
    assert tasks_per_worker(by_number) == {"worker-0": 3, "worker-1": 2}
    heavy_sink = assigned(weighted(read=1.0, count=1.0, write=9.0), PARALLELISM, workers(4, 4), TASKS)
    assert heavy_sink.load_per_worker == {"worker-0": 9.0, "worker-1": 4.0}


@pytest.mark.parametrize(("mode", "loads"), [(NONE, (3.0, 1.0)), (SLOTS, (3.0, 1.0)), (TASKS, (2.0, 2.0))])
def test_tasks_are_balanced_over_slots_only_if_requested(mode: LoadBalanceMode, loads: tuple[float, ...]):
    job = graph(vertex("read"), vertex("parse"), vertex("count"))
    assert assigned(job, {"read": 1, "parse": 1, "count": 2}, workers(2), mode).loads == loads


def test_workers_without_a_slot_of_the_job_count_for_nothing():
    assignment = assigned(graph(vertex("job")), {"job": 2}, workers(2, 2, 2), NONE)
    assert assignment.slots_per_worker == {"worker-0": 2}
    assert assignment.imbalance == 1


# ---- what holds for any job and any offers --------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> tuple[JobGraph, Parallelism]:
    vertices = []
    for number in range(draw(st.integers(1, 6))):
        group = draw(st.sampled_from("ab"))
        mark = draw(st.sampled_from([None, f"m{group}"]))
        weight = draw(st.sampled_from([1.0, 2.0, 3.5]))
        vertices.append(vertex(f"v{number}", slot_sharing_group=group, co_location=mark, loading_weight=weight))
    return graph(*vertices), {v.name: draw(st.integers(1, 10)) for v in vertices}


offers = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8).map(
    lambda counts: tuple(SlotOffer(worker=f"w{i}", held=held, free=free) for i, (held, free) in enumerate(counts))
)
modes = st.sampled_from(LoadBalanceMode)


@given(plan=plans(), offered=offers, mode=modes)
def test_every_subtask_is_on_one_worker_within_what_it_offers(plan, offered, mode: LoadBalanceMode):
    job, parallelism = plan
    assignment = assign(job, parallelism, offered, mode)
    needed = sum(max(parallelism[v.name] for v in vertices) for vertices in job.groups.values())
    if assignment is None:
        assert sum(offer.held + offer.free for offer in offered) < needed
        return
    contents = assignment.contents()
    assert sorted(subtask for slots in contents.values() for slot in slots for subtask in slot) == sorted(
        (name, index) for name, count in parallelism.items() for index in range(count)
    )
    room = {offer.worker: offer.held + offer.free for offer in offered}
    assert {worker: len(slots) for worker, slots in contents.items()} == assignment.slots_per_worker
    assert sum(assignment.slots_per_worker.values()) == needed
    assert all(slots <= room[worker] for worker, slots in assignment.slots_per_worker.items())


@given(plan=plans(), offered=offers, mode=modes)
def test_metrics_per_worker_are_those_of_its_subtasks(plan, offered, mode: LoadBalanceMode):
    job, parallelism = plan
    assignment = assign(job, parallelism, offered, mode)
    if assignment is None:
        return
    weights = {v.name: v.loading_weight for v in job.vertices}
    on = {worker: [s for slot in slots for s in slot] for worker, slots in assignment.contents().items()}
    assert tasks_per_worker(assignment) == {worker: len(subtasks) for worker, subtasks in on.items()}
    loads = {worker: sum(weights[name] for name, _ in subtasks) for worker, subtasks in on.items()}
    assert assignment.load_per_worker == pytest.approx(loads)
    average = sum(loads.values()) / len(loads)
    assert assignment.imbalance == pytest.approx(max(loads.values()) / average)


@given(plan=plans(), offered=offers, mode=st.sampled_from([SLOTS, TASKS]), data=st.data())
def test_order_of_the_offers_does_not_matter_to_modes_that_spread(plan, offered, mode, data: st.DataObject):
    job, parallelism = plan
    shuffled = data.draw(st.permutations(offered))
    assert assign(job, parallelism, offered, mode) == assign(job, parallelism, shuffled, mode)


@st.composite
def graphs(draw: st.DrawFn) -> JobGraph:
    vertices = []
    for number in range(draw(st.integers(1, 6))):
        lower = draw(st.integers(1, 10))
        bounds = ParallelismRange(lower, draw(st.integers(lower, 20)))
        group = draw(st.sampled_from("abc"))
        vertices.append(JobVertex(name=f"v{number}", parallelism=bounds, slot_sharing_group=group))
    return JobGraph(job="job", vertices=tuple(vertices))


@given(job=graphs(), slots=st.integers(0, 80))
def test_parallelism_honours_bounds_and_slots(job: JobGraph, slots: int):
    parallelism = determine_parallelism(job, job.requirements, slots)
    if parallelism is None:
        assert slots < minimum_slots(job, job.requirements)
        return
    assert used_slots(job, parallelism) <= slots
    for vertex in job.vertices:
        assert vertex.parallelism.lower <= parallelism[vertex.name] <= vertex.parallelism.upper


@given(job=graphs())
def test_minimum_suffices_and_what_is_required_gives_every_upper_bound(job: JobGraph):
    assert determine_parallelism(job, job.requirements, minimum_slots(job, job.requirements)) is not None
    most = determine_parallelism(job, job.requirements, required_slots(job, job.requirements))
    assert most == {vertex.name: vertex.parallelism.upper for vertex in job.vertices}


@given(job=graphs(), slots=st.integers(0, 60))
def test_no_slot_is_left_that_a_job_could_use(job: JobGraph, slots: int):
    parallelism = determine_parallelism(job, job.requirements, slots)
    required = required_slots(job, job.requirements)
    if parallelism is not None:
        assert used_slots(job, parallelism) == min(slots, required)


def test_ties_go_by_the_groups_name():
    vertices = tuple(
        JobVertex(name=name, parallelism=ParallelismRange(1, 4), slot_sharing_group=name) for name in ("late", "early")
    )
    job = JobGraph(job="job", vertices=vertices)
    assert determine_parallelism(job, job.requirements, 3) == {"early": 1, "late": 2}
