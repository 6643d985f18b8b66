"""The rules that the load policy is compared with do what their documents say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.advice import QueryMetrics
from airflow_adaptive.autoscaling.simulation.baselines import (
    Rule,
    StaticRule,
    doubling,
    ds2,
    dstream,
    dynamic_allocation,
)
from tests.support.autoscaling.load_policy_inputs import QUERY, START, VERTEX, query_metrics, seen


class Ruled:
    """A job under a rule that is consulted every 15 seconds."""

    def __init__(self, rule: Any, slots: int) -> None:
        self.rule, self.slots = rule, slots
        self.memory = rule.remember()
        self.now = START

    def consult(self, metrics: QueryMetrics | None, seconds: float = 15.0) -> int:
        self.now += timedelta(seconds=seconds)
        queries = {} if metrics is None else {QUERY: metrics}
        self.memory, advice = self.rule.advise(self.memory, seen(self.now, self.slots, queries))
        self.slots = self.slots if advice is None else advice.bounds[VERTEX].upper
        return self.slots

    def watch(self, rate: float, minutes: float, **changes: Any) -> int:
        for _ in range(int(minutes * 4)):
            self.consult(query_metrics(rate, self.slots, **changes))
        return self.slots


@pytest.mark.parametrize("rule", [ds2, doubling, dstream, dynamic_allocation])
def test_rule_without_metrics_gives_no_advice(rule: Any):
    assert Ruled(Rule(rule), 4).consult(None) == 4


def test_static_rule_stays_within_the_bounds():
    assert Ruled(StaticRule(slots=50), 4).consult(None) == 20
    assert Ruled(StaticRule(slots=3), 4).watch(1900, minutes=5) == 3


def test_ds2_takes_the_true_rate_of_a_slot_and_leaves_no_room():
    assert Ruled(Rule(ds2), 4).consult(query_metrics(950, 4)) == 10
    assert Ruled(Rule(ds2), 10).consult(query_metrics(110, 10)) == 2
    assert Ruled(Rule(ds2), 10).consult(query_metrics(0, 10)) == 1


def test_ds2_decides_once_in_its_interval_and_counts_a_backlog_that_grows():
    job = Ruled(Rule(ds2), 4)
    assert job.consult(query_metrics(390, 4)) == 4
    assert job.consult(query_metrics(900, 4)) == 4
    assert job.consult(query_metrics(400, 4, backlog=30_000.0), seconds=45) == 9


def test_doubling_rule_waits_for_15_minutes_and_for_6_hours():
    job = Ruled(Rule(doubling), 4)
    assert job.watch(350, minutes=15) == 4
    assert job.watch(350, minutes=1) == 8
    assert job.watch(20, minutes=359) == 8
    assert job.watch(20, minutes=2) == 4


def test_doubling_rule_begins_again_when_the_load_comes_back_between():
    job = Ruled(Rule(doubling), 4)
    for _ in range(5):
        job.watch(350, minutes=14)
        assert job.watch(200, minutes=1) == 4


def test_dstream_rule_adds_the_rounded_ratio_and_removes_one():
    job = Ruled(Rule(dstream), 4)
    assert job.watch(1000, minutes=1.25) == 6  # batches of 25 s in intervals of 10 s
    down = Ruled(Rule(dstream), 8)
    assert down.watch(100, minutes=1.25) == 7
    assert Ruled(Rule(dstream), 8).watch(500, minutes=10) == 8
    assert Ruled(Rule(dstream), 8).watch(900, minutes=5, trigger_interval=None) == 8


def test_dynamic_allocation_doubles_while_tasks_wait_and_gives_back_what_idles_for_a_minute():
    job = Ruled(Rule(dynamic_allocation), 4)
    assert job.consult(query_metrics(100, 4)) == 7  # 20 tasks on 4 slots: they wait for 2 of 2.5 seconds
    assert job.watch(1500, minutes=2) == 20
    assert job.watch(100, minutes=60) == 20
    assert job.watch(0, minutes=1) == 20
    assert job.watch(0, minutes=1) == 1
