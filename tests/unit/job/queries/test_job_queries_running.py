"""What the driver loop requests of the running queries concerns all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from airflow_adaptive.job.queries import job_queries
from airflow_adaptive.job.queries.job_query import JobQuery
from airflow_adaptive.job.queries.real_time.real_time_mode import RealTimeMode
from tests.unit.job.queries.test_job_queries import Job, plan


@pytest.fixture
def running() -> Job:
    job = Job("a", "b")
    job.start(plan())
    return job


def no_time_passes(_: float) -> None: ...


@pytest.mark.parametrize("is_in_time", [True, False])
def test_function_is_called_while_no_query_runs_a_batch(
    running: Job, monkeypatch: pytest.MonkeyPatch, is_in_time: bool
) -> None:
    acts: list[str] = []

    def act_between_batches(
        queries: list[JobQuery], timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]
    ) -> bool:
        assert [query.name for query in queries] == ["a", "b"]
        assert (timeout_s, pause) == (7.0, no_time_passes)
        act()
        return is_in_time

    monkeypatch.setattr(job_queries, "boundaries", list)
    monkeypatch.setattr(job_queries, "act_between_batches", act_between_batches)
    assert running.queries.act_between_batches(7.0, no_time_passes, lambda: acts.append("released")) is is_in_time
    assert acts == ["released"]


@pytest.mark.parametrize("has_begun", [True, False])
def test_first_triggers_of_all_queries_are_awaited(
    running: Job, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    def wait_for_first_triggers(queries: Iterable[JobQuery], timeout_s: float) -> bool:
        assert [query.name for query in queries] == ["a", "b"]
        assert timeout_s == 7.0
        return has_begun

    monkeypatch.setattr(job_queries, "wait_for_first_triggers", wait_for_first_triggers)
    assert running.queries.wait_for_first_trigger(7.0) is has_begun


def test_gangs_depend_on_the_parallelism_of_all_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build function reads no parallelism. The driver computes the partitions from the slots of the plan."""
    job = Job("a")
    job.start(plan(parallelism={"read": 2, "count": 3}))
    assert (job.queries.gangs, job.queries.vertices_read) == ({}, ())
    monkeypatch.setattr(RealTimeMode, "gangs", {"a": 5})
    job.queries.build(plan(2, parallelism={"read": 2, "count": 3}))
    assert (job.queries.gangs, job.queries.vertices_read) == ({"a": 5}, ("count", "read"))
