"""Metrics that the load policy does not trust."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_adaptive._core.requirements.advice import QueryMetrics
from airflow_adaptive._core.scheduler import snapshot
from tests.support.autoscaling.load_policy_inputs import QUERY, START, VERTEX, bounds, query_metrics, seen
from tests.support.autoscaling.observed_load_policy import POLICY, watched
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"input_rate": None}, "input rate is missing"),
        ({"busy_rate": math.nan}, "busy rate is nan"),
        ({"backlog": -3.0}, "backlog is -3.0"),
        ({"unread": math.nan}, "unread rows is nan"),
        ({"busy": math.inf}, "busy share is inf"),
        ({"batch_duration": -1.0}, "batch duration is -1.0"),
        ({"trigger_interval": 1e300}, "trigger interval is 1e+300"),
        ({"running": math.nan}, "running is nan"),
        ({"input_rate": "many"}, "input rate is 'many'"),
        ({"input_rate": True}, "input rate is True"),
        ({"batch_duration": 0.0}, "without a duration"),
        ({"epoch": 0}, "the metrics are of epoch 0, and the newest epoch is 1"),
        ({"sequence": 3}, "the sequence number decreased"),
        ({"sequence": -1}, "not counters"),
    ],
)
def test_metrics_that_make_no_sense_are_ignored_with_a_reason(changes: dict[str, Any], reported: str):
    job = watched().watch(280, minutes=5)
    for _ in range(20):
        job.poll(900, **changes)
    assert job.path == [4]
    assert reported in job.reason


def test_query_in_real_time_mode_keeps_its_slots_with_a_reason():
    job = watched().watch(280, minutes=5)
    for load in (900, 0):
        for _ in range(400):
            job.poll(load, busy=None, busy_rate=None, is_real_time=True)
        assert job.path == [4]
        assert "Real-Time Mode has no busy share" in job.reason


def test_frozen_metrics_are_ignored_with_a_reason():
    job = watched().watch(280, minutes=5)
    frozen = query_metrics(900, 4, 1000)
    for _ in range(100):
        job.poll(query_metrics=frozen)
    assert job.path == [4]
    assert "not changed since" in job.reason


def test_new_epoch_counts_from_the_beginning():
    job = watched().watch(280, minutes=5)
    job.polls = 0
    job.watch(900, minutes=3, epoch=2)
    assert job.slots >= 13


def test_backlog_of_a_new_driver_is_not_a_growth_since_the_old_driver():
    steady = watched().watch(280, minutes=3, backlog=3000.0)
    restarted = watched().watch(280, minutes=3, backlog=0.0).poll(280, backlog=3000.0, epoch=2)
    assert restarted.reason == steady.reason


def test_clock_that_jumps_back_changes_nothing():
    job = watched().watch(280, minutes=5)
    job.poll(900, seconds=-120)
    assert "the clock stepped back" in job.reason


def test_job_without_metrics_is_given_no_advice():
    assert POLICY.advise(POLICY.remember(), seen(START, 4, {}))[1] is None
    bad = query_metrics(1, 4, input_rate=None)
    assert POLICY.advise(POLICY.remember(), seen(START, 4, {QUERY: bad}))[1] is None


def test_job_that_does_not_run_keeps_its_advice():
    job = watched().watch(800, minutes=5)
    job.poll(0, seen={"parallelism": None})
    assert job.upper == 12
    assert "is not running" in job.reason


def test_batches_as_fast_as_possible_report_nothing_while_they_are_all_alike():
    job = watched().watch(280, minutes=5, trigger_interval=None)
    assert job.path == [4]
    assert "the busy share is unknown" in job.reason


def test_batches_as_fast_as_possible_are_judged_by_the_cost_of_a_row():
    job = watched()
    for poll in range(1, 200):
        rate = 350.0 if poll % 2 else 370.0
        seconds = 0.5 / (1 - rate / (100 * job.slots)) if rate < 100 * job.slots else 60.0
        job.poll(
            query_metrics=query_metrics(
                rate, job.slots, poll, busy_rate=rate, batch_duration=seconds * 1000, busy=1.0, trigger_interval=0.0
            )
        )
    assert 4 < job.slots <= 8


numbers = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(min_value=0, max_value=2000),
    st.integers(min_value=-5, max_value=10**6),
)

nonsense = st.builds(
    QueryMetrics,
    vertices=st.sampled_from([(VERTEX,), (), ("gone",), (VERTEX, "gone")]),
    input_rate=numbers,
    busy_rate=numbers,
    backlog=numbers,
    busy=numbers,
    batch_duration=numbers,
    trigger_interval=numbers,
    epoch=st.integers(-1, 3),
    sequence=st.integers(-1, 50),
    running=numbers,
)


@settings(max_examples=examples(150))
@given(
    polls=st.lists(st.tuples(nonsense, st.integers(-60, 900), st.integers(1, 20)), max_size=25),
    lower=st.integers(1, 20),
    spread=st.integers(0, 19),
)
def test_no_metrics_lead_out_of_the_bounds_or_by_more_than_a_factor(
    polls: list[tuple[QueryMetrics, int, int]], lower: int, spread: int
):
    limits = bounds(lower, min(20, lower + spread))
    memory, now, before = POLICY.remember(), START, None
    for metrics, seconds, slots in polls:
        now += timedelta(seconds=seconds)
        memory, advice = POLICY.advise(memory, seen(now, slots, {QUERY: metrics}, limits=limits))
        json.dumps(snapshot.encode(memory), allow_nan=False)
        if advice is None:
            continue
        upper, allowed = advice.bounds[VERTEX].upper, limits[VERTEX].declared
        assert allowed.lower <= upper <= allowed.upper
        if before is not None and upper != before:
            assert upper <= max(math.ceil(before * POLICY.up_factor), allowed.lower)
        before = upper if QUERY in memory.queries and memory.queries[QUERY].target is not None else before


@settings(max_examples=examples(60))
@given(bad=nonsense)
def test_nonsense_for_one_observation_never_changes_a_job_whose_load_is_steady(bad: QueryMetrics):
    """It may be believed, but a single look is not enough."""
    job = watched().watch(280, minutes=6)
    job.poll(query_metrics=bad)
    assert job.path == [4]


def test_query_that_reports_nothing_for_a_while_keeps_its_advice():
    """A new driver reports no query."""
    job = watched().watch(800, minutes=5)
    memory, advice = job.policy.advise(job.memory, seen(job.now, 12, {}))
    assert advice is not None
    assert advice.bounds[VERTEX].upper == 12
    assert memory.queries == job.memory.queries


@settings(max_examples=examples(60))
@given(rate=st.floats(1, 1300), slots=st.integers(1, 20))
def test_steady_load_comes_to_rest_within_the_band_and_stays_there(rate: float, slots: int):
    job = watched(slots=slots).watch(rate, minutes=90)
    rest, changes = job.slots, len(job.path)
    assert rate / (100 * rest) <= POLICY.high
    assert rest == 1 or rest <= math.ceil(rate / 70) + max(1, rest // 8)
    assert len(job.watch(rate, minutes=60).path) == changes
    assert changes <= 7
