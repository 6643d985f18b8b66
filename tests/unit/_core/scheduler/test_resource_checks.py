"""The texts about slots and plans, and the values derived from the trigger intervals of the queries."""

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler import resource_checks
from airflow_adaptive._core.scheduler.events import PlanActivated
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.scenario import Scenario


def wide(vertices: int) -> Scenario:
    bounds = ParallelismRange(2, 4)
    return Scenario(
        graph=JobGraph(job="wide", vertices=tuple(JobVertex(name=f"v{n}", parallelism=bounds) for n in range(vertices)))
    )


def test_reason_names_what_differs_only():
    assert resource_checks.describe_change({"a": 1, "b": 2}, {"a": 1, "b": 4}) == "{'b': 2} -> {'b': 4}"


def test_reason_stays_short_for_a_wide_job():
    before, after = ({f"v{n}": count for n in range(100)} for count in (1, 2))
    assert resource_checks.describe_change(before, after).endswith("'v4': 2} and 95 more")
    assert resource_checks.describe_shortage(wide(100).state).endswith("vertex 'v4' at least 2, 95 more)")


def test_shortage_names_every_vertex_of_a_small_job():
    message = resource_checks.describe_shortage(wide(2).state)
    assert message == "have 0 slot(s), need at least 2 (vertex 'v0' at least 2, vertex 'v1' at least 2)"


@pytest.mark.parametrize(
    ("interval_s", "failed_batches", "delay_s"),
    [(None, 2, 10), (0, 2, 10), (2, 2, 10), (60, 2, 180), (60, 4, 300)],
    ids=["unknown", "as fast as possible", "often", "each minute", "each minute, more failed batches"],
)
def test_rescale_waits_for_one_more_batch_than_may_fail(interval_s: int | None, failed_batches: int, delay_s: int):
    scenario = Scenario(max_failed_batches=failed_batches).given_deploying(4).when_slots(held=4)
    interval = None if interval_s is None else timedelta(seconds=interval_s)
    plan = scenario.state.plan
    assert plan is not None
    scenario.when(PlanActivated(at=scenario.now, epoch=1, version=plan.version, trigger_interval=interval))
    assert resource_checks.max_trigger_delay(scenario.state) == timedelta(seconds=delay_s)


def test_delay_that_is_set_is_kept():
    assert resource_checks.max_trigger_delay(Scenario(max_trigger_delay="7 s").state) == timedelta(seconds=7)
