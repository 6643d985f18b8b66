"""Slot allocation: what holds for any job and any number of slots."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.allocator.slot_sharing import (
    determine_parallelism,
    minimum_slots,
    required_slots,
    used_slots,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange


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
