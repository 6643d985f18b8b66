"""Calendar and load together, and a policy as a loop has it: as text, with a memory that outlives the loop."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, PolicyMemory, QueryMetrics, limits_of
from airflow_adaptive._core.requirements.resolver import MAX_MEMORY_BYTES, ResolverMemory
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive.autoscaling.advisor import (
    PolicyAdvisor,
    UnreadablePolicy,
    advisor,
    policy_from_text,
    policy_to_text,
)
from airflow_adaptive.autoscaling.calendar.declaration import period, scheduled_policy, window
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from tests.support.autoscaling.load_policy_inputs import QUERY, VERTEX, query_metrics, seen

MONDAY = datetime(2030, 1, 7, tzinfo=UTC)


def calendar(**changes: object) -> ScheduledPolicy:
    """From 8 to 20 h 6 to 12 slots, else 2 to 4; excluded period from 22 to 23 h."""
    given = {
        "zone": "UTC",
        "windows": [window("day", (6, 12), start="08:00", end="20:00")],
        "default": (2, 4),
        "excluded": [period("release", start="22:00", end="23:00")],
    }
    return scheduled_policy(**given | changes)  # type: ignore[arg-type]


class Job:
    """A job that consults the policy every 15 seconds, and follows the advice."""

    def __init__(self, hour: float, slots: int) -> None:
        self.policy = CombinedPolicy(calendar=calendar(), load=LoadPolicy())
        self.memory = self.policy.remember()
        self.now = MONDAY + timedelta(hours=hour)
        self.slots, self.polls = slots, 0

    def poll(self, rate: float) -> Advice:
        self.polls += 1
        self.now += timedelta(seconds=15)
        queries = {QUERY: query_metrics(rate, self.slots, self.polls)}
        observed = seen(self.now, self.slots, queries)
        self.memory, advice = self.policy.advise(self.memory, observed)
        assert advice is not None
        self.slots = advice.bounds[VERTEX].upper
        return advice

    def watch(self, rate: float, minutes: int) -> Advice:
        for _ in range(minutes * 4 - 1):
            self.poll(rate)
        return self.poll(rate)


def test_load_changes_within_the_floor_and_the_ceiling_of_the_calendar():
    job = Job(hour=10, slots=8)
    advice = job.watch(3000, minutes=5)
    assert advice.bounds == {VERTEX: ParallelismRange(6, 12)}
    assert advice.source == "calendar and load"
    assert "window 'day'" in advice.reason
    assert "query 'default'" in advice.reason
    assert advice.next_at == datetime(2030, 1, 7, 20, tzinfo=UTC)
    assert job.watch(10, minutes=90).bounds == {VERTEX: ParallelismRange(6, 6)}


def test_bounds_that_the_calendar_changes_take_the_load_with_them():
    job = Job(hour=19.9, slots=10)
    assert job.watch(700, minutes=2).bounds[VERTEX].upper == 10
    assert job.watch(700, minutes=10).bounds == {VERTEX: ParallelismRange(2, 4)}


def test_calendar_holds_alone_while_no_query_reports_metrics():
    policy = CombinedPolicy(calendar=calendar())
    _, advice = policy.advise(policy.remember(), seen(MONDAY + timedelta(hours=10), 8, {}))
    assert advice is not None
    assert (advice.source, advice.bounds) == ("calendar", {VERTEX: ParallelismRange(6, 12)})


def test_load_changes_nothing_in_an_excluded_period():
    job = Job(hour=21.5, slots=3)
    before = job.watch(200, minutes=30)
    during = job.watch(900, minutes=20)
    assert during.bounds == before.bounds
    assert "excluded period" in during.reason
    job.now = MONDAY + timedelta(hours=23)
    assert job.watch(900, minutes=5).bounds[VERTEX].upper == 4


def test_window_that_the_job_can_t_have_is_refused():
    policy = CombinedPolicy(calendar=calendar(default=(2, 99)))
    with pytest.raises(RescalePolicyError, match="above its max_parallelism 20"):
        policy.advise(policy.remember(), seen(MONDAY, 4, {}))


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


def consultation(at: datetime = NOON, rate: float = 100.0, sequence: int = 1) -> PolicyInput:
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
        found.advise(None, consultation())


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
        given = consultation(BEFORE_THE_WINDOW + timedelta(seconds=20 * number), 100.0 + number, number)
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
        policy_input = consultation(NOON + timedelta(seconds=20 * number), 390.0, number)
        memory, advice = policy.advise(memory, policy_input)
        given.append(advice)
        known, advised = found.advise(known, policy_input)
        assert advised == advice
    assert given[-1] is not None


def test_memory_of_another_kind_of_policy_is_nothing_to_go_on_with():
    memory, _ = PolicyAdvisor(LoadPolicy()).advise(None, consultation())
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
    memory, _ = PolicyAdvisor(policy).advise(known, consultation(NOON + passed))
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
