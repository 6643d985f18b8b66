"""The load policy: the slots that a load leads to, small changes that have no effect, and implausible metrics."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_adaptive._core import codec
from airflow_adaptive._core.requirements.advice import QueryMetrics
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from tests.support.autoscaling.load_policy_inputs import QUERY, START, VERTEX, Watched, bounds, query_metrics, seen
from tests.support.autoscaling.observed_load_policy import POLICY, watched
from tests.support.examples import examples


def test_job_within_the_band_is_left_alone():
    assert watched().watch(300, minutes=60).path == [4]


def test_job_that_is_too_busy_gets_to_the_target_in_one_step():
    assert watched().watch(800, minutes=5).path == [4, 12]


def test_job_keeps_its_slots_until_the_load_was_low_for_down_delay():
    job = watched(slots=12).watch(200, minutes=10)
    assert job.path == [12]
    assert "shorter than down_delay" in job.reason
    assert job.watch(200, minutes=20).slots == 3


def test_load_that_comes_back_within_down_delay_keeps_its_slots():
    job = watched(slots=8)
    for _ in range(6):
        job.watch(100, minutes=4).watch(550, minutes=1)
    assert job.path == [8]


def test_a_rise_is_bounded_by_the_factor_and_goes_on_from_there():
    job = watched(slots=2, up_factor=2.0).watch(900, minutes=10)
    assert job.path[:3] == [2, 4, 8]


def test_a_fall_is_bounded_by_the_factor():
    assert watched(slots=16).watch(10, minutes=12).path[:2] == [16, 8]


def test_unread_rows_during_a_batch_require_the_slots_that_work_them_off_in_time():
    """The backlog at the beginning of the newest batch does not contain rows that arrived later."""
    assert watched().watch(280, minutes=3).watch(280, minutes=2, unread=280.0).slots == 4
    assert watched().watch(280, minutes=3).watch(280, minutes=2, unread=60_000.0).slots > 4


def test_backlog_requires_the_slots_that_work_it_off_in_time():
    steady = watched().watch(280, minutes=3)
    late = watched().watch(280, minutes=3).watch(280, minutes=2, backlog=60_000.0)
    assert steady.slots == 4
    assert late.slots > 6


def test_batch_that_overruns_shows_that_rows_wait_though_the_source_does_not():
    job = watched().watch(280, minutes=3, backlog=None)
    assert job.watch(500, minutes=2, backlog=None).slots >= 8


def test_batch_that_runs_for_long_is_noticed_before_it_has_ended():
    job = watched().watch(280, minutes=3)
    job.poll(280, running=40_000.0).poll(280, running=55_000.0)
    assert job.slots > 8


def test_idle_delay_without_rows_leads_to_the_lower_bound_in_one_step():
    job = watched(slots=8, idle_delay="5 min").watch(0, minutes=5, seen={"limits": bounds(2, 20)})
    assert job.path == [8]
    assert job.watch(0, minutes=1, seen={"limits": bounds(2, 20)}).path == [8, 2]


def test_rows_that_wait_while_none_come_in_keep_the_slots():
    job = watched(slots=8).watch(500, minutes=2).watch(0, minutes=8, backlog=1000.0)
    assert job.path == [8]


def test_fixed_cost_of_a_batch_is_not_taken_for_a_load():
    """DS2's rule divides by the rate of a small batch, which is mostly fixed cost."""
    policy = Watched(POLICY, slots=10)
    for poll in range(1, 120):
        rate = 100.0 + 20 * (poll % 6)
        seconds = 2 + rate * 10 / (100 * policy.slots)
        policy.poll(
            query_metrics=query_metrics(
                rate,
                policy.slots,
                poll,
                busy_rate=rate * 10 / seconds,
                batch_duration=seconds * 1000,
                busy=seconds / 10,
            )
        )
    assert policy.slots == 4  # 2 s and 200 rows/s on 4 slots: 7 s; on DS2's terms 200 rows/s in 2 s take 3 slots more


def test_parallelism_is_aligned_with_the_partitions_of_the_state():
    """Of 16 partitions on 12 slots, four would run alone: 8 slots take as long."""
    partitions = {"state_partitions": {QUERY: 16}}
    job = watched(slots=4).watch(600, minutes=5, partitions=16, seen=partitions)
    assert job.slots == 16
    assert watched(slots=4).watch(450, minutes=5, partitions=16, seen=partitions).slots == 8


def test_bounds_that_lie_within_a_wave_are_not_filled_up():
    partitions = {"state_partitions": {QUERY: 16}, "limits": bounds(1, 12)}
    assert watched(slots=4).watch(900, minutes=10, partitions=16, seen=partitions).slots == 8


def test_advice_never_raises_the_lower_bound():
    job = watched().watch(900, minutes=5)
    assert job.advice is not None
    assert job.advice.bounds[VERTEX].lower == 1
    assert job.advice.source == "load"


def test_vertices_of_no_query_keep_what_they_declare():
    limits = {**bounds(1, 20), "other": bounds(2, 5)[VERTEX]}
    job = watched().poll(280, seen={"limits": limits})
    assert job.advice is not None
    assert job.advice.bounds["other"] == ParallelismRange(2, 5)


def test_query_of_unknown_vertices_is_ignored_with_a_reason():
    job = watched().poll(280)
    job.poll(280, vertices=("gone",))
    assert "names no vertex" in job.reason


def test_rise_that_gains_nothing_is_taken_back_and_not_tried_again_for_a_while():
    """Each row waits for a service that does not scale: more slots are no faster."""
    job = watched(ineffective_memory="1 h")
    reasons = []
    for poll in range(1, 4 * 55):
        job.poll(
            query_metrics=query_metrics(
                100, job.slots, poll, busy_rate=100.0, batch_duration=10_000.0, busy=1.0, input_rate=100.0
            )
        )
        reasons.append(job.reason)
    assert job.path == [4, 6, 4]
    assert any("not faster than 4" in reason for reason in reasons)
    assert "and more slots had no effect" in job.reason
    for poll in range(220, 450):
        job.poll(query_metrics=query_metrics(100, job.slots, poll, busy_rate=100.0, batch_duration=10_000.0, busy=1.0))
    assert job.path[3:] == [6, 4]


def test_rise_is_not_judged_by_slots_that_were_active_before_it():
    job = watched(slots=3)
    job.follows = False
    job.watch(150, minutes=5, seen={"limits": bounds(1, 2)})
    assert job.upper == 2
    assert job.watch(400, minutes=5).upper == 6


def test_batch_that_began_on_other_slots_is_no_cost_of_the_new_ones():
    job = watched(slots=2).watch(140, minutes=3)
    cost = job.memory.queries[QUERY].cost
    job.follows = False
    job.slots = 4
    job.poll(query_metrics=query_metrics(140, 2, 100))
    job.poll(seconds=10, query_metrics=query_metrics(140, 2, 101, batch_duration=60_000.0))
    assert job.memory.queries[QUERY].cost == cost


def test_fall_that_saves_less_than_its_rescale_costs_is_not_done():
    slow = {"rescale_costs": {Tier.DRIVER: timedelta(minutes=5)}, "tier": Tier.DRIVER}
    job = watched(slots=8).watch(480, minutes=30, seen=slow)
    assert job.path == [8]
    assert "a rescale costs more than it saves" in job.reason
    assert watched(slots=8).watch(480, minutes=30).path == [8, 7]


def test_rise_that_does_not_make_up_for_its_pause_is_not_done():
    slow = {"rescale_costs": {Tier.DRIVER: timedelta(minutes=4)}, "tier": Tier.DRIVER}
    job = watched(slots=8).watch(720, minutes=5, seen=slow)
    assert job.path == [8]
    assert "slot(s) do not compensate the pause" in job.reason
    free = {"rescale_costs": {Tier.EXECUTORS: timedelta(minutes=4)}, "tier": Tier.EXECUTORS}
    assert watched(slots=8).watch(720, minutes=5, seen=free).slots == 11


def test_budget_of_the_day_keeps_its_last_quarter_for_rises_and_then_ends():
    job = watched(rescales_per_day=4, down_delay="1 min")
    for _ in range(8):
        job.watch(800, minutes=3).watch(100, minutes=10)
    assert len(job.path) - 1 == 4
    assert job.path[-1] > job.path[-2]
    job.watch(100, minutes=20)
    assert "the remaining daily rescales are reserved for scale-ups" in job.reason
    job.watch(1900, minutes=2)
    assert "limit rescales_per_day is reached" in job.reason
    job.watch(1900, minutes=6 * 61, seconds=60)
    assert job.slots == 20


def test_settings_that_make_no_sense_are_reported_all_at_once():
    with pytest.raises(RescalePolicyError) as caught:
        LoadPolicy(target=0.9, high=0.8, up_factor=1.0, down_factor=1.0, effectiveness=-0.1)
    assert len(caught.value.violations) == 4
    with pytest.raises(RescalePolicyError, match="rescales_per_day must be a whole number of at least 1, not 1.5"):
        LoadPolicy.of({"rescales_per_day": 1.5})
    with pytest.raises(RescalePolicyError, match="rescales_per_day must be a whole number of at least 1, not 0"):
        LoadPolicy(rescales_per_day=0)
    with pytest.raises(
        RescalePolicyError, match=r"target must be a number, not nan; up_delay must be a duration longer than zero"
    ):
        LoadPolicy(up_delay=timedelta(0), target=math.nan)


def test_settings_are_read_from_plain_values():
    assert LoadPolicy.of({"down_delay": "20 min", "target": 0.5}) == LoadPolicy(
        down_delay=timedelta(minutes=20), target=0.5
    )
    with pytest.raises(RescalePolicyError, match="no setting 'traget': did you mean 'target'"):
        LoadPolicy.of({"traget": 0.5, "down_delay": "soon"})


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
        ({"batch_duration": 0.0}, "without a duration"),
        ({"epoch": 0}, "the metrics are of epoch 0, and the newest epoch is 1"),
        ({"sequence": 3}, "the sequence number decreased"),
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
    epoch=st.integers(0, 3),
    sequence=st.integers(0, 50),
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
        json.dumps(codec.encode(memory), allow_nan=False)
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
