"""Published records are small, however much a job has to report."""

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import (
    DECISION_BYTES,
    ITEM_BYTES,
    MAX_RESCALES,
    RESCALE_BYTES,
    JobHistory,
    Urls,
    all_rescale_records,
    decision_records,
    documents,
    newest_within,
    rescale_record,
    rescale_records,
    transition_record,
)
from airflow_adaptive._engine.journal.history import MAX_DECISIONS, History
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.scenario import HOPELESS, Scenario
from tests.support.airflow.published_documents import history


def wide(vertices: int) -> Scenario:
    """A job with many vertices with long names, which was rescaled, has failed, and got many requirements."""
    bounds = ParallelismRange(1, 1000)
    names = [f"{number}-{'v' * 60}" for number in range(vertices)]
    graph = JobGraph(
        job="job", vertices=tuple(JobVertex(name=name, parallelism=bounds, slot_sharing_group=name) for name in names)
    )
    job = Scenario(graph=graph).given_executing(2 * vertices)
    for upper in range(2, 40):
        job.when_requirements(1, upper)
    return job.when_query_failed(replace(HOPELESS, message="x" * 9000))


@pytest.mark.parametrize("vertices", [1, 10, 50, 500])
def test_records_are_small_however_much_there_is_to_report(vertices: int) -> None:
    job = wide(vertices)
    past = history(job).at(job.state)
    rescales, decisions = rescale_records(past), decision_records(past)
    transitions = [transition_record(transition) for transition in past.transitions]
    assert 1 <= len(rescales) <= MAX_RESCALES
    assert 1 <= len(decisions) <= MAX_DECISIONS
    assert transitions
    assert len(json.dumps(rescales)) <= RESCALE_BYTES
    assert len(json.dumps(decisions)) <= DECISION_BYTES
    assert max(len(json.dumps(transition)) for transition in transitions) <= ITEM_BYTES
    assert rescales[-1]["terminated_reason"] == "JOB_FAILED"
    json.dumps(documents(job_view(job.state, history(job), Urls(), "attempt"), {}))


def test_wide_rescale_is_published_without_its_vertices() -> None:
    job = wide(500)
    newest = history(job).at(job.state).rescales[-1]
    assert (rescale_record(newest)["vertices"], rescale_record(newest)["groups"]) == (None, None)
    assert len(newest.vertices.desired) == 500


def unchanged(item: str) -> str:
    return item


def test_newest_items_are_published_as_far_as_they_fit() -> None:
    assert newest_within(["a" * 10, "b" * 10, "c" * 10], 28, unchanged) == ["b" * 10, "c" * 10]
    assert newest_within(["a", "b"], 1000, unchanged) == ["a", "b"]
    assert newest_within(["a" * 100], 10, unchanged) == []
    assert newest_within([], 10, unchanged) == []


def test_only_the_items_that_fit_and_one_more_are_encoded() -> None:
    encoded: list[int] = []

    def encode(number: int) -> str:
        encoded.append(number)
        return str(number)

    assert newest_within(range(1000), 21, encode) == ["997", "998", "999"]
    assert encoded == [999, 998, 997, 996]  # the last one does not fit


class Counted(dict[str, int]):
    """Counts its encodings."""

    def __init__(self) -> None:
        super().__init__(job=1)
        self.encoded = 0

    def items(self) -> Any:
        self.encoded += 1
        return super().items()


def test_of_many_rescales_only_those_that_fit_are_encoded() -> None:
    counted = Counted()
    ended = next(step.rescale for step in wide(1).steps if step.rescale is not None)
    rescale = replace(ended, vertices=replace(ended.vertices, desired=counted))
    past = JobHistory(rescales=[replace(rescale, number=number) for number in range(1, 1001)])
    published = len(all_rescale_records(past)) + len(rescale_records(past))
    assert 0 < published <= counted.encoded <= published + 2


def test_published_rescales_take_a_quarter_of_the_size_that_some_backends_accept() -> None:
    """All XComs of a job must fit into 64 KiB."""
    ended = next(step.rescale for step in wide(1).steps if step.rescale is not None)
    past = JobHistory(rescales=[replace(ended, number=number) for number in range(1, MAX_RESCALES + 1)])
    published = len(json.dumps(rescale_records(past)))
    assert published <= 16 << 10 < published + len(json.dumps(rescale_record(ended)))


def test_history_of_a_job_without_a_past_is_empty() -> None:
    past = History(FakeJobDirectory(), "job", 10).at(Scenario().state)
    assert (decision_records(past), rescale_records(past), all_rescale_records(past)) == ([], [], [])
