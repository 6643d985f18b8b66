"""Rescales when clocks go back, when events are outdated, and in jobs without a timeline."""

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.events import CancelRequested
from airflow_adaptive._core.scheduler.timeline import (
    Timeline,
)
from tests.support.scheduler.rescale_scenarios import (
    ScenarioBuilder,
    failed_over,
    history,
    idle,
    newest,
    offered,
    redeploying,
)

SECOND = timedelta(seconds=1)


def test_clock_that_goes_back_makes_no_negative_times():
    job = idle().when_query_failed().after(1)
    job.now -= 100 * SECOND
    job.when_plan_activated()
    rescale = newest(job)
    assert rescale.end is not None
    assert rescale.start <= rescale.end
    assert rescale.downtime == timedelta(0)


@pytest.mark.parametrize("life", [redeploying, offered, failed_over, idle])
def test_job_of_a_version_without_a_timeline_continues(life: ScenarioBuilder):
    job = life()
    job.steps.clear()
    job.state = replace(job.state, timeline=Timeline())
    job.after(200).when_slots(held=4).when_plan_activated().when_canceled()
    assert job.state.timeline.rescale is None
    assert all(record.number == number for number, record in enumerate(history(job), start=1))


def test_stale_events_leave_the_timeline_alone():
    job = idle().when_canceled()
    again = machine.step(job.state, CancelRequested(at=job.now))
    assert again.rescale is None
