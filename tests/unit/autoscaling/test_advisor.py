"""A policy as a loop has it: as text on its way there, with a memory that outlives the loop."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.advice import PolicyInput, PolicyMemory, QueryMetrics, limits_of
from airflow_adaptive._core.requirements.resolver import MAX_MEMORY_BYTES, ResolverMemory
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode, encode
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
    assert found.recall(PolicyMemory(kind="unreadable", at=NOON, content=1)) is None
    with pytest.raises(RescalePolicyError):
        found.advise(None, seen())


def test_job_without_a_policy_has_no_advisor():
    assert advisor(None) is None


def read_back(memory: PolicyMemory | None) -> PolicyMemory:
    """The memory as a journal document contains it."""
    found: PolicyMemory = decode(PolicyMemory, json.loads(json.dumps(encode(memory))))
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_memory_goes_on_in_another_loop(policy: Any):
    """The window begins in less than the lead time of the calendar, so the calendar remembers an early change."""
    memory = None
    for number in range(5):
        given = seen(BEFORE_THE_WINDOW + timedelta(seconds=20 * number), 100.0 + number, number)
        memory, _ = PolicyAdvisor(policy).advise(memory, given)
    assert memory is not None
    assert memory.content != policy.remember()
    assert PolicyAdvisor(policy).recall(read_back(memory)) == memory


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_advice_is_that_of_the_policy_with_its_memory(policy: Any):
    """The load must be high for some time, so only the memory of earlier consultations leads to advice."""
    found, memory, known = PolicyAdvisor(policy), policy.remember(), None
    given = []
    for number in range(40):
        policy_input = seen(NOON + timedelta(seconds=20 * number), 390.0, number)
        memory, advice = policy.advise(memory, policy_input)
        given.append(advice)
        known, advised = found.advise(known, policy_input)
        assert advised == advice
    assert given[-1] is not None


def test_memory_of_another_kind_of_policy_is_nothing_to_go_on_with():
    memory, _ = PolicyAdvisor(LoadPolicy()).advise(None, seen())
    assert PolicyAdvisor(CALENDAR).recall(read_back(memory)) is None


@pytest.mark.parametrize("spoilt", [7, {"queries": []}, {"rescales": ["noon"]}], ids=str)
def test_memory_that_can_not_be_read_is_refused_with_the_reason(spoilt: Any):
    with pytest.raises(ValueError, match="the memory of the policy is invalid and is discarded"):
        PolicyAdvisor(LoadPolicy()).recall(PolicyMemory(kind="LoadPolicy", at=NOON, content=spoilt))


@pytest.mark.parametrize(("size", "is_kept"), [(10, True), (MAX_MEMORY_BYTES, False)])
def test_memory_that_is_too_large_for_the_journal_is_not_kept(size: int, is_kept: bool):
    memory = ResolverMemory(policy=PolicyMemory(kind="LoadPolicy", at=NOON, content="x" * size))
    assert memory.lasting.policy == (memory.policy if is_kept else None)


class CountingPolicy:
    """A policy whose memory is the number of its consultations."""

    dry_run = False

    def remember(self) -> int:
        return 0

    def advise(self, memory: int, policy_input: PolicyInput) -> tuple[int, None]:
        return memory + 1, None


@pytest.mark.parametrize(
    ("passed", "consultations"),
    [
        (timedelta(minutes=59), 4),
        (timedelta(minutes=61), 1),
        (timedelta(seconds=-4), 4),
        (timedelta(seconds=-6), 1),
    ],
)
def test_memory_of_long_ago_or_of_the_future_is_begun_again(passed: timedelta, consultations: int):
    """The loop was frozen, or the next loop starts late, or on a host with another clock."""
    policy: Any = CountingPolicy()
    known = PolicyMemory(kind="CountingPolicy", at=NOON, content=3)
    memory, _ = PolicyAdvisor(policy).advise(known, seen(NOON + passed))
    assert memory == PolicyMemory(kind="CountingPolicy", at=NOON + passed, content=consultations)


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
