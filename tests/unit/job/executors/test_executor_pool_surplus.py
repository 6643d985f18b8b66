from __future__ import annotations

import pytest

from airflow_adaptive._core.protocol.documents import ExecutorReport
from airflow_adaptive.job.executors.executor_pool import surplus


def executors(workers: str) -> list[ExecutorReport]:
    """One for each letter, the name of its worker, in the order in which they were started."""
    return [
        ExecutorReport(executor_id=str(number), cores=1, worker=worker.strip()) for number, worker in enumerate(workers)
    ]


@pytest.mark.parametrize(
    ("workers", "total", "keep", "gone"),
    [
        ("aabb", 4, {"a": 2}, []),
        ("aabb", 9, {}, []),
        ("aabb", 0, {}, ["3", "2", "1", "0"]),
        ("aabb", 2, {}, ["3", "2"]),
        ("aabb", 2, {"b": 2}, ["1", "0"]),
        ("aabb", 2, {"a": 1, "b": 1}, ["3", "1"]),
        ("abab", 2, {"a": 1, "b": 1}, ["3", "2"]),
        ("aaab", 2, {"a": 1, "b": 1}, ["2", "1"]),
        ("abbb", 2, {"a": 1, "b": 1}, ["3", "2"]),
    ],
)
def test_workers_that_keep_fewest_release_their_youngest_executors_first(workers, total, keep, gone):
    assert surplus(executors(workers), total, keep) == gone


def test_a_worker_that_keeps_more_than_it_has_does_not_affect_another():
    assert surplus(executors("aab"), 2, {"a": 1, "b": 5}) == ["1"]


def test_the_youngest_are_released_beyond_the_numbers_of_the_plan():
    assert surplus(executors("aabb"), 1, {"a": 2, "b": 1}) == ["3", "2", "1"]


def test_an_executor_of_an_unknown_worker_is_released_before_kept_ones():
    assert surplus(executors(" aa"), 2, {"a": 2}) == ["0"]
