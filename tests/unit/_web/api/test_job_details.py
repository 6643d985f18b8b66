"""Bodies about a job, made from its published state without a server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements import dry_run
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._web.api import job_details
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.metadata_database.state_store import StoreKey
from airflow_adaptive._web.data.published_state import PublishedState
from tests.lab.scenario import Scenario
from tests.support.airflow.published_documents import executing, published, reported, scenario

JOB = Job(
    name="departures",
    asset="adaptive://job/departures",
    store=StoreKey(1),
    dag_ids=frozenset({"flights", "alarms"}),
    tasks=(("flights", "stream"),),
)


def state_of(job: Scenario, **more: Any) -> PublishedState:
    return PublishedState(documents={**published(job), **reported(), **more}, revisions={})


def test_details_of_a_job_without_a_known_state_have_all_fields() -> None:
    found = job_details.details(JOB, PublishedState(documents={}, revisions={}))
    assert (found.state, found.vertices, found.deadlines, found.options) == ("unknown", [], [], {})
    assert (found.waiting, found.backoff, found.reactive, found.pending_requirements) == (None, None, None, None)
    assert found.dag_ids == ["alarms", "flights"]


def test_backoff_ends_after_the_driver_has_stopped() -> None:
    job = executing().when_query_failed()
    assert job_details.details(JOB, state_of(job)).backoff is not None
    found = job_details.details(JOB, state_of(job.when_driver_ended())).backoff
    assert found is not None
    assert found.ends == job.now + timedelta(seconds=found.seconds)


@pytest.mark.parametrize(("limit", "listed"), [(1, False), (2, True)])
def test_plan_lists_subtasks_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, limit: int, listed: bool) -> None:
    monkeypatch.setattr(job_details, "MAX_SUBTASKS", limit)
    job = executing(slots=2)
    (worker,) = job_details.plan(job.state, state_of(job)).workers
    assert (worker.slots is not None, worker.slot_count) == (listed, 2)


def test_plan_of_a_job_that_lost_slots_has_no_placement() -> None:
    job = executing(slots=2)
    assert job_details.plan(replace(job.state, offers=()), state_of(job)).workers == []


def test_plan_of_a_job_without_a_plan_has_bounds_only() -> None:
    job = scenario().given_waiting()
    plan = job_details.plan(job.state, PublishedState(documents={}, revisions={}))
    assert (plan.version, plan.executors, plan.workers, plan.vertices[0].upper) == (None, [], [], 4)


def test_plan_shows_the_slots_of_the_standby() -> None:
    job = executing(standby="driver+executors").when_slots(held=2, standby=(0, 2)).when_committed()
    states = (job.state, job.when_prepared().state)
    found = [job_details.plan(state, state_of(job)).slots for state in states]
    assert [(it.standby, it.standby_prepared) for it in found] == [(2, False), (2, True)]


def test_preview_has_the_decisions_of_the_dry_run() -> None:
    job = executing(scaling_interval_min=0)
    result = dry_run.preview(job.state, {"job": ParallelismRange(1, 1)}, job.now)
    body = job_details.preview(result, job.state)
    assert body.after == {"job": 1}
    assert [decision.reason for decision in body.decisions] == [decision.reason for decision in result.decisions]
    assert body.tier == (None if result.tier is None else result.tier.name)
