"""Bodies of FLIP-487, made from rescales without a server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler.timeline import Rescale
from airflow_adaptive._web.api import flink_rescales
from tests.lab.scenario import Scenario
from tests.support.airflow.published_documents import executing, scenario

GROUPS = {"job": "default"}


@pytest.fixture
def job() -> Scenario:
    """A job that was rescaled once after its initial rescale."""
    job = executing(slots=2, scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    return job.when_slots(held=2, free=1).when_slots(held=3).when_plan_activated()


def rescales(job: Scenario) -> list[Rescale]:
    """The last record of each rescale."""
    return [*{step.rescale.number: step.rescale for step in job.steps if step.rescale is not None}.values()]


def test_history_lists_the_newest_rescale_first_without_states(job: Scenario) -> None:
    newest, first = flink_rescales.history("departures", rescales(job), GROUPS)
    assert (newest.number, first.number, newest.schedulerStates) == (2, 1, None)
    assert newest.vertices["job"].slotSharingGroupName == "default"
    assert (newest.vertices["job"].preRescaleParallelism, newest.vertices["job"].postRescaleParallelism) == (2, 3)


def test_vertex_of_an_unknown_group_has_an_empty_group(job: Scenario) -> None:
    assert flink_rescales.details("departures", rescales(job)[0], {}).vertices["job"].slotSharingGroupId == ""


def test_details_contain_the_states_of_the_scheduler(job: Scenario) -> None:
    states = flink_rescales.details("departures", rescales(job)[-1], GROUPS).schedulerStates
    assert states is not None
    assert all(span.durationInMillis == span.leaveTimestampInMillis - span.enterTimestampInMillis for span in states)


def test_rescale_is_found_by_its_number_and_by_its_uuid(job: Scenario) -> None:
    found = rescales(job)
    uuid = str(flink_rescales.rescale_uuid("departures", 2))
    assert flink_rescales.find("departures", found, "2") is flink_rescales.find("departures", found, uuid)
    assert flink_rescales.find("arrivals", found, uuid) is None
    assert flink_rescales.find("departures", found, "3") is None


def test_requirements_of_two_rescales_have_the_same_uuid_if_they_are_the_same(job: Scenario) -> None:
    first, second = (flink_rescales.details("departures", one, GROUPS) for one in rescales(job))
    assert first.resourceRequirementsUuid == second.resourceRequirementsUuid
    assert first.rescaleUuid != second.rescaleUuid


def test_overview_of_a_job_without_rescales_has_no_latest_rescale() -> None:
    overview = flink_rescales.overview("departures", [], {})
    assert overview.rescalesCounts.completed == 0
    assert (overview.latest.completed, overview.latest.failed, overview.latest.ignored) == (None, None, None)


def test_summary_has_no_statistics_of_rescales_that_did_not_occur(job: Scenario) -> None:
    summary = flink_rescales.summary(rescales(job))
    assert summary.rescalesCounts.completed == 2
    assert summary.failedRescalesDurationStatsInMillis is None
    assert flink_rescales.summary([]).rescalesDurationStatsInMillis is None


def test_configuration_has_durations_in_milliseconds() -> None:
    config = flink_rescales.config(scenario(scaling_interval_min=1.5, scaling_interval_max=60).state)
    assert config.executingCooldownTimeoutInMillis == timedelta(seconds=1.5) // timedelta(milliseconds=1)
    assert config.scalingIntervalMaxInMillis == 60_000
