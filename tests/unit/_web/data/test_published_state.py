"""The published state of a job, decoded without a database. The documents of a state store can have any content."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from sqlalchemy.orm import Session

from airflow_adaptive._core.requirements.request_bodies import encode_requirements
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import SlotCounts
from airflow_adaptive._engine.publishing.time_series import COLUMNS
from airflow_adaptive._web.data.metadata_database import state_store
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.published_state import JOBS_PER_READ, PublishedState, read_all_published
from tests.lab.scenario import Scenario
from tests.support.airflow.published_documents import executing, published, reported, time_series
from tests.support.airflow.rest_api import with_policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def state_of(job: Scenario | None = None, **more: Any) -> PublishedState:
    documents = {} if job is None else {**published(job), **reported(), **time_series(job)}
    return PublishedState(documents={**documents, **more}, revisions={})


def test_job_that_has_published_nothing_is_of_unknown_state() -> None:
    found = state_of()
    assert (found.summary.state, found.state, found.desired_state, found.driver_status) == ("unknown", None, None, None)
    assert (found.policy, found.requesters, found.rescales, found.current_metrics) == (None, {}, [], None)
    assert (found.transitions, found.decisions, found.failures, found.published_at) == ([], [], [], None)


def test_published_documents_are_decoded() -> None:
    job = executing()
    found = state_of(job)
    assert found.state == job.state
    assert found.transitions[-1].target == "Executing"
    assert found.driver_status is not None
    assert found.driver_status.parallelism == {"job": 2}
    assert found.current_metrics is not None
    assert found.current_metrics.slots == 2


@pytest.mark.parametrize("garbage", [None, 3, "x", [], [1], {"format": 2}, {"at": 1}])
def test_invalid_document_counts_as_absent(garbage: Any) -> None:
    keys = ("summary", "scheduler", "history", "rescales", "driver", "metrics/10", "policy", "desired_state")
    found = PublishedState(documents=dict.fromkeys(keys, garbage), revisions={})
    assert (found.summary.state, found.state, found.desired_state, found.policy) == ("unknown", None, None, None)
    assert (found.transitions, found.rescales, found.driver_status, found.current_metrics) == ([], [], None, None)


@pytest.mark.parametrize(("items", "invalid"), [("x" * 5000, 1), ([1] * 500, 500), ({"a": 1}, 1), (7, 1), ([], 0)])
def test_invalid_items_are_reported_in_one_line(items: Any, invalid: int, caplog: pytest.LogCaptureFixture) -> None:
    job = executing()
    history = {**published(job)["history"], "decisions": items}
    found = state_of(job, history=history, rescales=items)
    assert (found.decisions, found.rescales, len(found.transitions)) == ([], [], len(state_of(job).transitions))
    expected = [f"{invalid} items of the published document {key!r} are ignored" for key in ("history", "rescales")]
    assert [message.partition(" because")[0] for message in caplog.messages] == (expected if invalid else [])


def test_fields_that_a_later_version_has_changed_have_their_defaults() -> None:
    later = {**published(executing())["summary"], "outcome": "MOVED", "last_transition": {"at": 1}, "added": 1}
    summary = state_of(summary=later).summary
    assert (summary.state, summary.slots, summary.outcome) == ("Executing", SlotCounts(held=2, available=2), None)
    assert summary.last_transition is None


ALERT = {"since": "2026-01-01T00:00:00Z", "lag_s": 400.0, "expires_at": None}


@pytest.mark.parametrize(
    ("summary", "trend", "health"),
    [
        ({}, "short", "keeps_up"),
        ({}, None, "runs"),
        ({}, "steady", "runs"),
        ({}, "grows", "falls_behind"),
        ({}, "shrinks", "catches_up"),
        ({"lag_alert": ALERT}, None, "falls_behind"),
        ({"lag_alert": ALERT}, "shrinks", "catches_up"),
        ({"source_problem": "no broker answers"}, "short", "source_unreadable"),
        ({"cluster_problem": "no answer"}, "short", "cluster_unreachable"),
        ({"cluster_problem": "no answer", "state": "WaitingForResources"}, "short", "cluster_unreachable"),
        ({"state": "RestartingLocally"}, "short", "recovers"),
        ({"state": "WaitingForResources"}, "short", "starts"),
        ({"state": "WaitingForResources", "slots": {"held": 0, "available": 0}}, "short", "waits"),
        ({"state": "WaitingForResources", "slots": {"held": 0, "available": 0}, "cause": "X: y"}, "short", "waits"),
        ({"state": "WaitingForResources", "slots": None}, "short", "waits"),
        ({"state": "WaitingForResources", "cause": "X: y"}, "short", "restarts"),
        ({"state": "Deploying"}, "short", "starts"),
        ({"state": "Deploying", "cause": "X: y"}, "short", "restarts"),
        ({"cause": "X: y"}, "short", "restarts"),
        ({"state": "Finished", "outcome": "FAILED", "cluster_problem": "no answer"}, "short", "failed"),
        ({"state": "Finished", "outcome": "SUSPENDED"}, "short", "ended"),
        ({"state": "unknown"}, "short", "unknown"),
    ],
)
def test_health_is_good_only_if_the_lag_is_known_to_be_short(summary: Any, trend: str | None, health: str) -> None:
    found = state_of(executing())
    point = dict.fromkeys(COLUMNS) | {"at": 0, "slots": 3, "lower": 1, "upper": 8, "lag_s": 7200.0}
    page = {"step": 10, "columns": [*COLUMNS], "newest": [*point.values()], "lag_trend": trend, "points": []}
    documents = {"summary": {**found.documents["summary"], **summary}, "metrics/10": page}
    assert PublishedState(documents=documents, revisions={}).health(NOW) == health


@pytest.mark.parametrize(
    ("summary", "slots", "wait"),
    [
        ({"state": "Executing"}, {}, None),
        ({}, None, None),
        ({}, {"available": 2}, "2 slots available, waits until the number is stable"),
        ({}, {"available": 0}, "needs at least 1 slot; 0 available"),
        (
            {},
            {"driver_cores": 1.0, "total": 4},
            "needs at least 1 slot and 1 core for the driver; 0 of 4 available beside it",
        ),
        (
            {"requirements": {"job": {"lower": 6, "upper": 8}}},
            {"available": 2, "driver_cores": 0.5, "total": 9},
            "needs at least 6 slots and 0.5 cores for the driver; 2 of 9 available beside it",
        ),
    ],
)
def test_job_that_waits_says_what_it_needs_and_what_is_there(summary: Any, slots: Any, wait: str | None) -> None:
    counts = None if slots is None else {"held": 0, "available": 0, **slots}
    changed = {"state": "WaitingForResources", "slots": counts, **summary}
    assert state_of(summary={**published(executing())["summary"], **changed}).wait == wait


def test_health_of_a_job_that_nothing_publishes_is_not_the_published_one() -> None:
    old = replace(state_of(executing()), revisions={"summary": NOW - timedelta(hours=1)})
    assert old.health(NOW) == "stale"
    assert replace(old, task_state="failed").health(NOW) == "no_loop"


def test_time_of_the_publication_ignores_control_requests() -> None:
    revisions = {"summary": NOW, "requirements": NOW + timedelta(hours=1)}
    assert PublishedState(documents={}, revisions=revisions).published_at == NOW


def test_points_with_missing_columns_are_left_out() -> None:
    page = {"step": 10, "columns": ["at", "slots"], "points": [[1, 2], [3]]}
    assert PublishedState(documents={"metrics/10": page}, revisions={}).metrics(10).points == [[1, 2]]


# ---- resolved requirements ------------------------------------------------------------------------------------------


def resolved(found: PublishedState, now: datetime = NOW, override: Any = None) -> tuple[int, int]:
    assert found.state is not None
    bounds = found.resolved_requirements(found.state, now, override=override)["job"]
    return bounds.lower, bounds.upper


def body(lower: int, upper: int) -> dict[str, Any]:
    return encode_requirements({"job": ParallelismRange(lower, upper)})


def test_override_of_a_user_applies_before_the_loop_has_read_it() -> None:
    found = state_of(executing(), requirements={"value": body(2, 3)})
    assert resolved(found) == (2, 3)
    assert resolved(found, override=body(1, 2)) == (1, 2)


@pytest.mark.parametrize(("dry_run", "expected"), [(False, (2, 3)), (True, (1, 4))])
def test_advice_of_the_policy_applies_again_after_the_override_is_cleared(
    dry_run: bool, expected: tuple[int, int]
) -> None:
    found = state_of(executing(), **with_policy(2, 3, dry_run=dry_run), requirements={"value": body(1, 1)})
    assert resolved(found) == (1, 1)
    assert resolved(found, override=body(-1, -1)) == expected


def test_advice_that_the_job_cannot_have_is_ignored() -> None:
    assert resolved(state_of(executing(), **with_policy(9, 99))) == (1, 4)


@pytest.mark.parametrize(
    ("origin", "expected"), [("USER", (2, 3)), ("CALENDAR", (2, 3)), ("POLICY", (1, 4)), ("X", (1, 4))]
)
def test_bounds_whose_request_was_lost_with_the_store_stay(origin: str, expected: tuple[int, int]) -> None:
    job = executing().when_requirements(2, 3)
    source = {"origin": origin, "name": "alice", "via": "", "until": (NOW + timedelta(hours=1)).isoformat()}
    found = state_of(job, summary={**published(job)["summary"], "requirements_source": source})
    assert resolved(found) == expected
    assert resolved(found, NOW + timedelta(hours=1)) == ((2, 3) if origin == "CALENDAR" else (1, 4))


# ---- many jobs ------------------------------------------------------------------------------------------------------


def test_documents_of_many_jobs_are_not_in_memory_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer lists a thousand jobs. Their metrics have millions of values, of which the list needs the last ones."""
    reads: list[int] = []

    def read(ids: list[int], *_: Any) -> dict[int, state_store.Stored]:
        reads.append(len(ids))
        return {asset_id: state_store.Stored({"desired_state": "running"}, {}) for asset_id in ids}

    monkeypatch.setattr(state_store, "read", read)
    jobs = [
        Job(name=str(n), asset="a", store=state_store.StoreKey(n), dag_ids=frozenset(), tasks=())
        for n in range(2 * JOBS_PER_READ + 20)
    ]
    states = read_all_published(jobs, mock.create_autospec(Session, instance=True), ("desired_state",))
    next(states)
    assert reads == [JOBS_PER_READ]
    assert len(list(states)) == 2 * JOBS_PER_READ + 19
    assert reads == [JOBS_PER_READ, JOBS_PER_READ, 20]


def test_newest_point_is_decoded_without_the_other_points() -> None:
    document = {**time_series(executing(), 3)["metrics/10"], "points": "invalid"}
    found = PublishedState(documents={"metrics/10": document}, revisions={}).current_metrics
    assert found is not None
    assert found.slots == 2


@pytest.mark.parametrize("newest", [None, [], [1]])
def test_job_without_a_newest_point_has_no_metrics(newest: Any) -> None:
    """An older version has published the page, or the page is empty or invalid."""
    document = {**time_series(executing(), 3)["metrics/10"], "newest": newest}
    assert PublishedState(documents={"metrics/10": document}, revisions={}).current_metrics is None
