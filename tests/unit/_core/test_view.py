"""The documents that a loop publishes: their keys, their form, and their limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.deployment import Declaration
from airflow_adaptive._core.requirements.advice import PublishedAdvice, PublishedPolicy
from airflow_adaptive._core.requirements.resolution import RequirementsOrigin, RequirementsSource
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode, from_json
from airflow_adaptive._core.view import (
    DRIVER,
    FORMAT,
    HISTORY,
    MAX_VALUE_BYTES,
    POLICY,
    RESCALES,
    SCHEDULER,
    SUMMARY,
    SlotCounts,
    Summary,
    TaskKey,
    Urls,
    documents,
    driver_document,
    fits,
    policy_document,
    summary_of,
)
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.scenario import START
from tests.support.airflow.published_documents import canceled, executing, history, published, report

TASK = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}
BY_LOAD = RequirementsSource(origin=RequirementsOrigin.POLICY, name="load", since=START, reason="busy")
ADVICE = PublishedAdvice(
    bounds={"job": ParallelismRange(2, 3)}, reason="busy", source="load", next_at=START, at=START, since=START
)


def encoded(**more: Any) -> dict[str, Any]:
    job = executing()
    return documents(replace(job_view(job.state, history(job), Urls(), "attempt"), **more), TASK)


def test_documents_have_the_state_of_the_scheduler_and_its_past() -> None:
    job = executing()
    found = published(job)
    assert found.keys() == {"summary", "scheduler", "history", "rescales", "driver", "policy", "deployment"}
    assert from_json(found[SCHEDULER]) == job.state
    assert [it["target"] for it in found[HISTORY]["transitions"]][-1] == "Executing"
    assert found[RESCALES][-1]["number"] == 1
    assert (found[DRIVER], found[POLICY]) == ({}, {})
    assert encoded(declarations={"f1": Declaration(code="c")})["deployment"]["declarations"]["f1"]["code"] == "c"
    assert json.loads(json.dumps(found)) == found


def test_summary_describes_the_job_in_one_document() -> None:
    document = encoded()[SUMMARY]
    assert (document["format"], document["job"]) == (FORMAT, "departures")
    summary: Summary = decode(Summary, document)
    assert (summary.state, summary.outcome, summary.task) == (
        "Executing",
        None,
        TaskKey(dag_id="d", task_id="t", run_id="r"),
    )
    assert (summary.parallelism, summary.requirements) == ({"job": 2}, {"job": ParallelismRange(1, 4)})
    assert summary.slots == SlotCounts(held=2, available=2)
    assert summary.last_transition is not None
    assert summary.last_transition.reason == "the driver has activated the plan"
    assert published(canceled())[SUMMARY]["outcome"] == "CANCELED"


@pytest.mark.parametrize("source", [None, BY_LOAD])
def test_source_of_the_requirements_is_published(source: RequirementsSource | None) -> None:
    assert decode(Summary, encoded(requirements_source=source)[SUMMARY]).requirements_source == source


def test_advice_of_a_policy_is_active_while_the_policy_sets_the_requirements() -> None:
    policy = PublishedPolicy(kind="LoadPolicy", advice=ADVICE)
    by_user = replace(BY_LOAD, origin=RequirementsOrigin.USER)
    assert [policy_document(policy, source)["active"] for source in (BY_LOAD, by_user, None)] == [True, False, False]
    assert decode(PublishedPolicy, policy_document(policy, BY_LOAD)).advice == ADVICE


def test_policy_without_advice_publishes_its_problem() -> None:
    policy = PublishedPolicy(kind="LoadPolicy", dry_run=True, problem="no metrics")
    assert decode(PublishedPolicy, policy_document(policy, BY_LOAD)) == policy


def test_driver_status_is_a_document_and_empty_without_a_driver() -> None:
    document = driver_document(report())
    assert (document["state"], document["version"], document["parallelism"]) == ("RUNNING", 2, {"job": 2})
    assert len(document["executors"]) == 2
    assert driver_document(None) == {}


def test_document_that_no_store_accepts_is_left_empty() -> None:
    assert fits("x" * (MAX_VALUE_BYTES - 2))
    assert not fits("x" * (MAX_VALUE_BYTES - 1))
    wide = replace(ADVICE, reason="x" * MAX_VALUE_BYTES)
    policy = PublishedPolicy(kind="LoadPolicy", advice=wide)
    assert encoded(policy=policy)[POLICY] == {}


@pytest.mark.parametrize(
    ("documents", "status"),
    [
        ({}, "unknown"),
        ({"summary": {"format": FORMAT + 1, "state": "Executing"}}, "unknown"),
        (published(executing()), "Executing"),
        (published(canceled()), "CANCELED"),
        ({**published(executing()), "handled_requests": {"end": {"outcome": "FAILED"}}}, "FAILED"),
        ({**published(canceled()), "handled_requests": {"end": {"outcome": "FAILED"}}}, "CANCELED"),
    ],
    ids=["nothing", "another format", "published", "ended", "reported by the task", "published and reported"],
)
def test_status_of_a_job_is_its_state_or_how_it_ended(documents: Any, status: str) -> None:
    assert summary_of(documents).status == status
