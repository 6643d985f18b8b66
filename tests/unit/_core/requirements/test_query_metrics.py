"""What a rescale policy learns of queries from the driver's reports, and of rescales from the job's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.requirements.advice import (
    MAX_WAIT,
    QueryGauge,
    QueryMetrics,
    rescale_costs,
    state_partitions,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.timeline import Amounts, Rescale, StateSpan, TerminatedReason, TriggerCause
from tests.lab.scenario import START

BOUNDS = ParallelismRange(1, 4)
SINGLE = JobGraph.single("departures", BOUNDS)
TWO = JobGraph(
    job="departures",
    vertices=(
        JobVertex(name="read", parallelism=BOUNDS, stateful=False, slot_sharing_group="raw"),
        JobVertex(name="count", parallelism=BOUNDS, max_parallelism=12, slot_sharing_group="counts"),
    ),
)
BATCH = QueryReport(
    name="q",
    active=True,
    committed=7,
    batch_rows=3000,
    batch_duration_ms=1500,
    input_rate=300.0,
    backlog=40,
    idle=True,
    trigger_interval_ms=10_000,
)


class Driver:
    """Reports, look by look."""

    def __init__(self, graph: JobGraph = SINGLE) -> None:
        self.gauge, self.graph, self.sequence, self.at = QueryGauge(), graph, 0, START

    def metrics_of(
        self, *queries: QueryReport, after: float = 1.0, gangs: Mapping[str, int] | None = None
    ) -> dict[str, QueryMetrics]:
        self.at += timedelta(seconds=after)
        self.sequence += 1
        report = DriverStatus(
            job="departures",
            epoch=3,
            nonce="n",
            sequence=self.sequence,
            at="",
            state=DriverState.RUNNING,
            queries=queries,
            gangs=gangs or {},
        )
        return dict(self.gauge.read(self.graph, report, self.at))


def test_batch_reports_what_came_in_what_it_cost_and_what_waits():
    assert Driver().metrics_of(BATCH)["q"] == QueryMetrics(
        vertices=("job",),
        input_rate=300.0,
        busy_rate=2000.0,
        backlog=40,
        unread=40,
        busy=0.15,
        batch_duration=1500,
        trigger_interval=10_000,
        epoch=3,
        sequence=1,
    )


def test_query_between_two_triggers_is_judged_by_its_last_batch():
    driver = Driver()
    driver.metrics_of(BATCH)
    assert driver.metrics_of(BATCH, after=10)["q"].input_rate == 300.0


def test_query_that_no_row_reaches_any_more_is_quiet_until_its_next_batch():
    driver = Driver()
    driver.metrics_of(BATCH)
    quiet = driver.metrics_of(BATCH, after=20)["q"]
    assert (quiet.input_rate, quiet.busy_rate, quiet.backlog, quiet.busy, quiet.batch_duration) == (0, 0, 0, 0, 0)
    asking = driver.metrics_of(replace(BATCH, idle=False))["q"]
    assert asking.input_rate == 0, "it only asks its sources for rows"
    assert driver.metrics_of(replace(BATCH, committed=8))["q"].input_rate == 300.0


def test_quiet_query_whose_sources_do_not_report_what_waits_does_not_either():
    driver = Driver()
    driver.metrics_of(replace(BATCH, backlog=None))
    assert driver.metrics_of(replace(BATCH, backlog=None), after=60)["q"].backlog is None


def test_age_of_a_running_batch_counts_from_its_first_report():
    driver = Driver()
    driver.metrics_of(BATCH)
    running = replace(BATCH, idle=False)
    assert [driver.metrics_of(running)["q"].running, driver.metrics_of(running, after=30)["q"].running] == [0, 30_000]
    assert driver.metrics_of(replace(running, committed=8))["q"].running == 0, "another batch runs"
    assert driver.metrics_of(replace(BATCH, committed=8))["q"].running is None


def test_query_that_is_triggered_as_fast_as_possible_is_busy_all_the_time():
    assert Driver().metrics_of(replace(BATCH, trigger_interval_ms=0))["q"].busy == 1.0


def test_query_in_real_time_mode_has_no_busy_share():
    (metrics,) = Driver().metrics_of(BATCH, gangs={"q": 3}).values()
    assert (metrics.is_real_time, metrics.busy, metrics.busy_rate, metrics.input_rate) == (True, None, None, 300.0)


def test_query_without_a_batch_has_no_metrics_yet():
    metrics = Driver().metrics_of(QueryReport(name="q", active=True))["q"]
    assert (metrics.input_rate, metrics.busy_rate, metrics.busy, metrics.batch_duration) == (None, None, None, None)


def test_status_read_twice_has_no_changes_and_a_missing_status_no_metrics():
    driver = Driver()
    first = driver.metrics_of(BATCH)
    report = DriverStatus(
        job="departures", epoch=3, nonce="n", sequence=1, at="", state=DriverState.RUNNING, queries=(BATCH,)
    )
    assert driver.gauge.read(SINGLE, report, driver.at + timedelta(seconds=50)) == first
    assert driver.gauge.read(SINGLE, None, driver.at) == {}


def test_query_that_has_ended_is_left_out():
    assert Driver().metrics_of(replace(BATCH, active=False)) == {}


@pytest.mark.parametrize(
    ("names", "vertices"),
    [
        (("raw", "counts"), [("read",), ("count",)]),
        (("read", "count"), [("read",), ("count",)]),
        (("other",), [("read", "count")]),
        (("other", "another"), [(), ()]),
    ],
)
def test_query_is_its_slot_sharing_group_or_its_vertex_or_the_whole_job(
    names: tuple[str, ...], vertices: list[tuple[str, ...]]
):
    metrics = Driver(TWO).metrics_of(*(replace(BATCH, name=name) for name in names))
    assert [metrics[name].vertices for name in names] == vertices


def test_partitions_of_a_query_are_those_of_its_state():
    metrics = Driver(TWO).metrics_of(*(replace(BATCH, name=name) for name in ("raw", "counts")))
    assert state_partitions(TWO, metrics) == {"raw": 1, "counts": 12}


# ---- what rescales cost ---------------------------------------------------------------------------------------------


def rescale(*states: tuple[str, float], **changes: Any) -> Rescale:
    """One that went from 2 to 4 subtasks through these states, each for so many seconds."""
    spans, at = [], START
    for state, seconds in states:
        spans.append(StateSpan(state=state, entered=at, left=at + timedelta(seconds=seconds)))
        at = spans[-1].left
    amounts = Amounts(desired={"job": 4}, sufficient={"job": 1}, before={"job": 2}, after={"job": 4})
    fields: dict[str, Any] = {
        "number": 1,
        "requirements": 1,
        "attempt": 1,
        "trigger_cause": TriggerCause.UPDATE_REQUIREMENT,
        "start": START,
        "vertices": amounts,
        "groups": amounts,
        "states": tuple(spans),
        "tier": Tier.QUERY,
        "terminated_reason": TerminatedReason.SUCCEEDED,
    }
    return Rescale(**(fields | changes))


def test_rescale_costs_what_it_took_and_no_long_wait_for_its_time():
    short = rescale(("Executing", 5), ("Restarting", 1), ("Deploying", 11))
    waited = rescale(("Executing", 3600), ("Deploying", 8))
    assert rescale_costs([short]) == {Tier.QUERY: timedelta(seconds=17)}
    assert rescale_costs([waited]) == {Tier.QUERY: MAX_WAIT + timedelta(seconds=8)}


def test_the_longest_of_the_newest_of_each_tier_counts():
    old = [rescale(("Deploying", 500))]
    newest = [rescale(("Deploying", seconds)) for seconds in range(10, 20)]
    executors = [rescale(("Deploying", 3), tier=Tier.EXECUTORS)]
    costs = rescale_costs([*old, *newest, *executors])
    assert costs == {Tier.QUERY: timedelta(seconds=19), Tier.EXECUTORS: timedelta(seconds=3)}


@pytest.mark.parametrize(
    "changes",
    [
        {"tier": None},
        {"trigger_cause": TriggerCause.RECOVERABLE_FAILOVER},
        {"trigger_cause": TriggerCause.INITIAL_SCHEDULE},
        {"terminated_reason": TerminatedReason.EXCEPTION_OCCURRED},
        {"vertices": Amounts(desired={"job": 4}, sufficient={"job": 1}, after={"job": 4})},
    ],
    ids=str,
)
def test_what_was_no_rescale_of_a_job_that_ran_does_not_count(changes: dict[str, Any]):
    assert rescale_costs([rescale(("Deploying", 10), **changes)]) == {}
