"""The simulation: nothing is lost, time is accounted for, and the scheduler's own rules hold in it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.autoscaling.simulation.baselines import Rule, StaticRule, ds2
from airflow_adaptive.autoscaling.simulation.environment import (
    EXECUTOR_START,
    PAUSES,
    Batches,
    QueryModel,
    Run,
    SimulatedJob,
    SimulationShape,
)
from airflow_adaptive.autoscaling.simulation.report import (
    SimulationMetrics,
    document,
    percentile,
    simulation_metrics,
    slots_for,
    table,
)
from airflow_adaptive.autoscaling.simulation.trace import Trace, read_trace
from tests.support.examples import examples

START = datetime(2030, 1, 1, tzinfo=UTC)
QUERY = QueryModel(slot_rate=100.0, fixed=0.5, trigger=10.0, most_rows=1e9)
HOUR = 3600.0


def trace(*rates: float, step: float = 600.0) -> Trace:
    return Trace.of([step * index for index in range(len(rates))], rates, START)


def shape(**changes: object) -> SimulationShape:
    return SimulationShape(**{"query": QUERY, "slots": 20, "first": 4} | changes)  # type: ignore[arg-type]


def of(run: Run, load: Trace, query: QueryModel = QUERY) -> SimulationMetrics:
    return simulation_metrics("it", run, query, load)


# ---- the model of the job -------------------------------------------------------------------------------------------


def test_batch_lasts_as_long_as_its_rows_take_on_its_slots():
    batches = Batches(QUERY, trace(200, 200))
    batches.work_on(4, 1)
    batches.run(100)
    assert batches.last is not None
    assert batches.last.rows == pytest.approx(2000)
    assert batches.last.seconds == pytest.approx(0.5 + 2000 / 400)
    assert batches.lags[-1] == pytest.approx(10 + 5.5)


def test_slots_that_come_speed_up_the_batch_that_runs():
    batches = Batches(QUERY, trace(200, 200))
    batches.work_on(1, 1)
    batches.run(11)
    assert batches.ends == pytest.approx(10 + 0.5 + 20)
    batches.work_on(2, 1)
    assert batches.ends == pytest.approx(11 + 19.5 / 2)
    batches.work_on(0, 1)
    batches.run(100)
    assert batches.runs
    batches.work_on(2, 1)
    assert batches.ends == pytest.approx(100 + 19.5 / 2)


def test_tasks_of_a_last_short_wave_cost_as_much_as_a_full_one():
    batches = Batches(QUERY, trace(200, 200))
    batches.work_on(3, 4)
    assert batches.working == 2
    assert slots_for(QueryModel(slot_rate=100, fixed=0, trigger=10, most_rows=1e9, partitions=4), 201) == 4


def test_batch_takes_no_more_rows_than_its_limit_and_their_age_is_reported():
    slow = QueryModel(slot_rate=100.0, fixed=0.0, trigger=10.0, most_rows=500.0)
    batches = Batches(slow, trace(100, 0))
    batches.work_on(1, 1)
    batches.run(1230)
    assert batches.taken == pytest.approx(60_000)
    assert max(batches.lags) == pytest.approx(601.9, abs=15)
    assert batches.waiting() == pytest.approx(0)


def test_job_without_rows_runs_no_batch():
    batches = Batches(QUERY, trace(0, 0))
    batches.work_on(2, 1)
    batches.run(1000)
    assert not batches.runs
    assert set(batches.lags) == {0.0}


@settings(max_examples=examples(25))
@given(
    rates=st.lists(st.floats(0, 2500), min_size=2, max_size=8).filter(lambda rates: max(rates) > 1),
    tier=st.sampled_from(list(Tier)),
    most=st.sampled_from([3000.0, 1e9]),
    partitions=st.sampled_from([1, 7, 20]),
)
def test_rows_that_came_in_were_processed_or_wait(rates: list[float], tier: Tier, most: float, partitions: int):
    query = QueryModel(slot_rate=100.0, fixed=0.5, trigger=10.0, most_rows=most, partitions=partitions)
    load = trace(*rates, step=300)
    run = SimulatedJob(shape(query=query, tier=tier), load, LoadPolicy()).run()
    reported = of(run, load, query)
    assert reported.rows_in == pytest.approx(load.totals[-1])
    assert reported.rows_processed + reported.rows_waiting == pytest.approx(reported.rows_in)
    assert reported.rows_waiting >= -1e-6
    assert run.batches.processed <= run.batches.taken + 1e-6
    assert all(lag >= 0 for lag in run.batches.lags)
    assert math.fsum(run.batches.spans) <= run.end + 1e-6
    assert all(0 <= slots <= 20 for _, slots in run.held)
    assert [at for at, _ in run.held] == sorted(at for at, _ in run.held)


# ---- the environment of the scheduler -------------------------------------------------------------------------------


def test_static_job_holds_its_slots_from_the_start_of_its_executors():
    load = trace(200, 200)
    run = SimulatedJob(shape(), load, StaticRule(slots=4)).run()
    assert run.held == [(0.0, 0), (EXECUTOR_START, 4)]
    assert run.rescales == 0
    assert of(run, load).slot_hours == pytest.approx(4 * (1200 - EXECUTOR_START) / HOUR)


def test_load_that_steps_up_and_down_is_followed_through_the_scheduler():
    load = trace(*[200] * 6, *[1000] * 6, *[200] * 12)
    world = SimulatedJob(shape(), load, LoadPolicy())
    run = world.run()
    most = max(slots for _, slots in run.held)
    assert 10 <= most <= 20
    assert run.held[-1][1] < most
    assert world.state.name == "Executing"
    assert 2 <= run.rescales <= 6
    assert run.reasons


@pytest.mark.parametrize("tier", list(Tier))
def test_a_rescale_takes_its_tier_and_the_query_pauses_for_it(tier: Tier):
    load = trace(*[200] * 2, *[1000] * 4)
    world = SimulatedJob(shape(tier=tier), load, LoadPolicy())
    seen: list[tuple[float, float]] = []
    restart = world._restart_query

    def watched(then, pause=None):
        restart(then, pause)
        seen.append((world.now, world.batches.resumes))

    world._restart_query = watched  # type: ignore[method-assign]
    run = world.run()
    assert run.rescales >= 1
    assert (world.state.epoch > 1) == (tier is Tier.DRIVER)
    assert (len(seen) == 1) == (tier is Tier.EXECUTORS)  # else only the first start
    assert all(resumes - at >= PAUSES[tier] for at, resumes in seen if tier < Tier.DRIVER)
    assert world.state.name == "Executing"


def test_cooldown_of_the_scheduler_holds_against_a_policy_that_changes_its_mind_every_minute():
    load = trace(*[200, 900] * 30, step=60)
    eager = SimulatedJob(shape(), load, Rule(ds2)).run()
    patient = SimulatedJob(shape(options=Options.of({"scaling_interval_min": "20 min"})), load, Rule(ds2)).run()
    assert patient.rescales <= 3 < eager.rescales


def test_slots_that_a_smaller_plan_leaves_over_are_held_until_the_idle_timeout():
    load = trace(*[800] * 2, *[100] * 8)
    run = SimulatedJob(shape(first=9), load, Rule(ds2)).run()
    given_back = [at for (at, slots), (_, before) in zip(run.held[1:], run.held, strict=False) if slots < before]
    assert given_back
    assert given_back[0] >= 1200 + Options().slot_idle_timeout.total_seconds()


def test_run_may_end_early():
    load = trace(200, 200)
    run = SimulatedJob(shape(), load, StaticRule(slots=4)).run(until=100)
    assert run.end == 100
    assert of(run, load).rows_in == pytest.approx(200 * 100)


# ---- metrics --------------------------------------------------------------------------------------------------------


def test_over_and_under_provision_are_shares_of_time_and_mean_sizes():
    load = trace(90, 570)  # 1 slot and 6 slots
    run = SimulatedJob(shape(first=3), load, StaticRule(slots=3)).run()
    reported = of(run, load)
    assert reported.over_share == pytest.approx((600 - EXECUTOR_START) / 1200)
    assert reported.over_slots == pytest.approx(2)
    assert reported.under_share == pytest.approx((600 + EXECUTOR_START) / 1200)
    assert reported.under_slots == pytest.approx((600 * 3 + EXECUTOR_START * 1) / 610)


def test_percentile_counts_by_weight():
    assert percentile([1, 5, 9], [98, 1, 1], 0.99) == 5
    assert percentile([1, 5, 9], [98, 1, 1], 1.0) == 9
    assert percentile([], [], 0.99) == math.inf


def test_table_reports_whether_another_rule_is_better():
    load = trace(*[200] * 20)
    fine = of(SimulatedJob(shape(), load, StaticRule(slots=4)).run(), load)
    dear = of(SimulatedJob(shape(), load, StaticRule(slots=12)).run(), load)
    assert not dear.is_better_than(fine)
    assert not fine.is_better_than(dear)  # it lags a little more
    assert "no baseline uses fewer slot-hours than it with the same or a smaller p99 lag" in table([fine, dear])
    worse = of(
        SimulatedJob(
            shape(query=QueryModel(slot_rate=80, fixed=1, trigger=10, most_rows=1e9)), load, StaticRule(slots=5)
        ).run(),
        load,
    )
    assert "the same or a smaller p99 lag than it: it" in table([worse, fine])
    assert document([fine], trace="x")["runs"][0]["rescales"] == 0


# ---- traces ---------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    (path / "trace.csv").write_text(text, encoding="utf-8")
    return path / "trace.csv"


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,value\n2030-01-01 00:00:00,1\n2030-01-01 00:05:00,3.5\n",
        "2030-01-01T00:00:00Z,1\n\n2030-01-01T01:05:00+01:00,3.5\n",
        "time,load\n1893456000,1\n1893456300,3.5\n",
    ],
)
def test_trace_is_read_with_or_without_a_header_and_in_any_notation_of_time(tmp_path: Path, text: str):
    load = read_trace(write(tmp_path, text))
    assert (load.start, load.times, load.rates) == (START, (0.0, 300.0, 600.0), (1.0, 3.5))
    assert load.totals[-1] == pytest.approx(1350)
    assert (load.peak, load.mean) == (3.5, 2.25)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", r"has 0 point\(s\)"),
        ("time,value\n2030-01-01,1\n", r"has 1 point\(s\)"),
        (
            "2030-01-01,1\n2030-01-02,nan\n2030-01-03,-1\nx,4\n2030-01-05\n",
            "line 2: 'nan'.*line 3: '-1'.*line 4: 'x'.*line 5",
        ),
        ("2030-01-01,1\n2030-01-01,2\n", "line 2: .* is not after"),
        ("2030-01-01,0\n2030-01-02,0\n", "the trace has no load"),
        ("x,y\n" + "a,b\n" * 30, "and 20 more"),
        ("2030-01-01,1\n1e400,2\n", "line 2: '1e400' is not a time"),
    ],
)
def test_trace_that_can_t_be_used_is_refused_with_every_line_that_is_wrong(tmp_path: Path, text: str, reported: str):
    with pytest.raises(RescalePolicyError, match=reported):
        read_trace(write(tmp_path, text))


def test_trace_that_can_t_be_read_is_reported(tmp_path: Path):
    with pytest.raises(RescalePolicyError, match="cannot be parsed"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RescalePolicyError, match="cannot be parsed"):
        read_trace(tmp_path / "binary")


def test_part_of_a_trace_begins_at_zero():
    part = trace(1, 2, 3, 4).part(600, 1800)
    assert (part.times, part.rates) == ((0.0, 600.0, 1200.0), (2, 3))
    assert part.start == START + timedelta(seconds=600)
    assert trace(1, 2, 3, 4).part(500, 1800) == part, "a part begins with a point"
    with pytest.raises(RescalePolicyError, match="use a longer part"):
        trace(1, 2).part(600, 700)
