"""A policy as a loop has it: as text on its way there, with a memory that outlives the loop."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.advice import PolicyInput, QueryMetrics, limits_of
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import encode
from airflow_adaptive.autoscaling import advisor as advisors
from airflow_adaptive.autoscaling.advisor import (
    PolicyAdvisor,
    UnreadablePolicy,
    advisor,
    policy_from_text,
    policy_to_text,
)
from airflow_adaptive.autoscaling.calendar.declaration import period, scheduled_policy, window
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BEFORE_THE_WINDOW = datetime(2026, 6, 1, 5, 58, 30, tzinfo=UTC)
GRAPH = JobGraph.single("job", ParallelismRange(1, 8))
CALENDAR = scheduled_policy(
    zone="Europe/Berlin",
    windows=[
        window("day", (4, 8), weekdays="mon-fri", start="08:00", end="20:00", holidays="never"),
        window("closing", {"job": (4, 8)}, cron="0 18 l * *", duration="3 h", priority=1),
    ],
    default=(1, 4),
    excluded=[period("freeze", dates=[("2026-12-24", "2026-12-27")])],
    holidays=["2026-12-25"],
)
POLICIES = [CALENDAR, LoadPolicy(target=0.6, dry_run=True), CombinedPolicy(calendar=CALENDAR, dry_run=True)]


def seen(at: datetime = NOON, rate: float = 100.0, sequence: int = 1) -> PolicyInput:
    metrics = QueryMetrics(
        vertices=("job",),
        input_rate=rate,
        busy_rate=400.0,
        backlog=0,
        busy=0.25,
        batch_duration=2500,
        trigger_interval=10_000,
        epoch=1,
        sequence=sequence,
    )
    return PolicyInput(
        at=at,
        requirements=GRAPH.requirements,
        limits=limits_of(GRAPH, GRAPH.requirements),
        parallelism={"job": 4},
        queries={"q": metrics},
    )


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_policy_survives_the_way_as_text(policy: Any):
    assert policy_from_text(policy_to_text(policy)) == policy
    found = advisor(policy_to_text(policy))
    assert found is not None
    assert (found.kind, found.dry_run) == (type(policy).__name__, policy.dry_run)


@pytest.mark.parametrize("text", ["", "[]", "7", '{"type": "Other"}', '{"type": "LoadPolicy", "target": "much"}'])
def test_text_that_is_no_policy_becomes_an_advisor_that_reports_it(text: str):
    found = advisor(text)
    assert isinstance(found, UnreadablePolicy)
    assert (found.kind, found.dry_run) == ("unreadable", False)
    assert found.restore({}) is None
    assert found.to_snapshot() == {}
    with pytest.raises(RescalePolicyError):
        found.advise(seen())


def test_job_without_a_policy_has_no_advisor():
    assert advisor(None) is None


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_memory_goes_on_in_another_loop(policy: Any):
    """The window begins in less than the lead time of the calendar, so the calendar remembers an early change."""
    one, other = PolicyAdvisor(policy), PolicyAdvisor(policy)
    for number in range(5):
        one.advise(seen(BEFORE_THE_WINDOW + timedelta(seconds=20 * number), 100.0 + number, number))
    snapshot = json.loads(json.dumps(one.to_snapshot()))
    assert snapshot["memory"] != encode(policy.remember())
    assert other.restore(snapshot) is None
    assert json.loads(json.dumps(other.to_snapshot())) == snapshot


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_advice_is_that_of_the_policy_with_its_memory(policy: Any):
    """The load must be high for some time, so only the memory of earlier consultations leads to advice."""
    found, memory = PolicyAdvisor(policy), policy.remember()
    given = []
    for number in range(40):
        policy_input = seen(NOON + timedelta(seconds=20 * number), 390.0, number)
        memory, advice = policy.advise(memory, policy_input)
        given.append(advice)
        assert found.advise(policy_input) == advice
    assert given[-1] is not None


def test_nothing_is_reported_before_the_policy_was_evaluated():
    assert PolicyAdvisor(LoadPolicy()).to_snapshot() == {}


def test_memory_of_another_kind_of_policy_is_nothing_to_go_on_with():
    one, other = PolicyAdvisor(LoadPolicy()), PolicyAdvisor(CALENDAR)
    one.advise(seen())
    assert other.restore(one.to_snapshot()) is None
    assert other.to_snapshot() == {}


@pytest.mark.parametrize(
    "spoilt", [{"memory": 7}, {"at": "noon"}, {"memory": {"queries": []}}, {"memory": {"rescales": ["noon"]}}], ids=str
)
def test_memory_that_can_not_be_read_is_begun_again_with_a_note(spoilt: dict[str, Any]):
    one, other = PolicyAdvisor(LoadPolicy()), PolicyAdvisor(LoadPolicy())
    one.advise(seen())
    assert "is discarded" in str(other.restore({**one.to_snapshot(), **spoilt}))
    assert other.to_snapshot() == {}
    fresh = PolicyAdvisor(LoadPolicy())
    later = seen(NOON + timedelta(seconds=20), sequence=2)
    assert other.advise(later) == fresh.advise(later)
    assert other.to_snapshot() == fresh.to_snapshot()


def test_memory_that_is_too_large_for_the_log_is_not_reported(monkeypatch: pytest.MonkeyPatch):
    one = PolicyAdvisor(LoadPolicy())
    one.advise(seen())
    monkeypatch.setattr(advisors, "MAX_MEMORY_BYTES", 10)
    assert one.to_snapshot() == {}


class CountingPolicy:
    """A policy whose memory is the number of its consultations."""

    dry_run = False

    def remember(self) -> int:
        return 0

    def advise(self, memory: int, policy_input: PolicyInput) -> tuple[int, None]:
        return memory + 1, None


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize(
    ("passed", "consultations"),
    [
        (timedelta(minutes=59), 4),
        (timedelta(minutes=61), 1),
        (timedelta(seconds=-4), 4),
        (timedelta(seconds=-6), 1),
    ],
)
def test_memory_of_long_ago_or_of_the_future_is_begun_again(
    monkeypatch: pytest.MonkeyPatch, passed: timedelta, consultations: int, is_restored: bool
):
    """The loop was frozen, or the next loop starts late, or on a host with another clock."""
    monkeypatch.setattr(advisors, "MEMORIES", {CountingPolicy: int})
    policy: Any = CountingPolicy()
    found = PolicyAdvisor(policy)
    for _ in range(3):
        found.advise(seen())
    snapshot = found.to_snapshot()
    if is_restored:
        found = PolicyAdvisor(policy)
        assert found.restore(snapshot) is None
    found.advise(seen(NOON + passed))
    assert found.to_snapshot()["memory"] == consultations


def test_memory_of_an_advisor_ends_when_it_takes_over_a_journal_without_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(advisors, "MEMORIES", {CountingPolicy: int})
    policy: Any = CountingPolicy()
    found = PolicyAdvisor(policy)
    found.advise(seen())
    found.restore(None)
    assert found.to_snapshot() == {}


def test_parts_of_a_combined_policy_have_no_dry_run_of_their_own():
    with pytest.raises(RescalePolicyError, match="load has a dry_run of its own: set dry_run of the combined policy"):
        CombinedPolicy(calendar=CALENDAR, load=LoadPolicy(dry_run=True))


def test_combined_policy_of_other_things_is_refused():
    with pytest.raises(RescalePolicyError, match="calendar must be a ScheduledPolicy, not a LoadPolicy"):
        CombinedPolicy(calendar=LoadPolicy())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LoadPolicy(dry_run="yes"),  # type: ignore[arg-type]
        lambda: CombinedPolicy(calendar=CALENDAR, dry_run=1),  # type: ignore[arg-type]
        lambda: scheduled_policy(zone="UTC", windows=[window("day", 2, start="08:00", end="20:00")], dry_run=0),  # type: ignore[arg-type]
    ],
)
def test_dry_run_that_is_neither_on_nor_off_is_refused(make: Any):
    with pytest.raises(RescalePolicyError, match="dry_run must be True or False, not"):
        make()
