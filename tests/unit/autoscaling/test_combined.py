"""Calendar and load together: who sets what, and who wins."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from airflow_adaptive._core.requirements.advice import Advice
from airflow_adaptive._core.scheduler import snapshot
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.calendar.declaration import period, scheduled_policy, window
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.combined import CombinedMemory, CombinedPolicy
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


def test_policy_and_memory_survive_json():
    job = Job(hour=10, slots=8)
    job.watch(3000, minutes=5)
    assert snapshot.decode(CombinedMemory, json.loads(json.dumps(snapshot.encode(job.memory)))) == job.memory
    written = json.loads(json.dumps(snapshot.encode(job.policy)))
    assert snapshot.decode(CombinedPolicy, written) == job.policy
