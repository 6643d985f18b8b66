"""The rescale history: which records there are, when they begin and end, what they contain, and their statistics."""

import json
import statistics
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.events import CancelRequested, PlanActivated
from airflow_adaptive._core.scheduler.history.rescales import (
    MAX_STATES,
    Durations,
    RescaleSummary,
    summarize,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.timeline import (
    MAX_FAILURE_CHARACTERS,
    Amounts,
    Rescale,
    TerminalState,
    TerminatedReason,
    Timeline,
    TriggerCause,
)
from tests.lab.scenario import START, TRANSIENT, Scenario
from tests.support.scheduler.rescale_scenarios import (
    ENDS,
    ScenarioBuilder,
    failed_over,
    history,
    idle,
    newest,
    offered,
    redeploying,
    required,
    scheduled,
)

SECOND = timedelta(seconds=1)


def causes_and_ends(job: Scenario) -> list[tuple[str, str | None]]:
    """Causes and reasons."""
    return [(record.trigger_cause.value, record.terminated_reason) for record in history(job)]


def states(rescale: Rescale) -> list[str]:
    return [span.state for span in rescale.states]


NO_CHANGE = TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE


def test_job_that_has_not_been_started_has_no_record():
    job = Scenario().when_requirements(1, 2).when_canceled()
    assert history(job) == []


def test_requirements_that_cannot_be_met_now_wait_for_slots_in_an_idle_job():
    job = required().after(10_000)
    assert newest(job).end is None
    job.when_slots(held=2, free=2).after(70).when_slots(held=4).when_plan_activated()
    assert causes_and_ends(job)[1] == ("UPDATE_REQUIREMENT", "SUCCEEDED")


@pytest.mark.parametrize("vertices_read", [(), ("job",)], ids=["other executors", "other queries"])
@pytest.mark.parametrize("held", [4, 2], ids=["surplus slots are held", "surplus slots are released"])
def test_rescale_to_fewer_slots_completes_its_record(vertices_read: tuple[str, ...], held: int):
    job = Scenario(upper=4).given_script(*vertices_read).given_executing(4).after(100)
    job.when_requirements(1, 2).after(100).when_slots(held=held).when_plan_activated().then(
        "Executing", reason="activated"
    )
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", "SUCCEEDED")]
    assert (newest(job).groups.before, newest(job).groups.after) == ({"default": 4}, {"default": 2})


def test_requirements_that_come_as_the_cooldown_ends_are_not_dropped_with_it():
    job = Scenario(upper=2).given_executing(2)
    job.now += 30 * SECOND
    job.when_requirements(1, 8)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", None)]


def test_requirements_that_change_nothing_are_no_rescale():
    job = idle().when_requirements(1, 2)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_requirements_of_a_job_that_is_ending_are_no_rescale():
    assert len(history(idle().when_canceled().when_requirements(1, 8))) == 1


def test_slots_that_arrive_while_requirements_wait_are_the_same_rescale():
    job = required().when_slots(held=2, free=2)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", None)]


def test_slots_that_were_there_when_the_plan_was_activated_are_the_next_rescale():
    job = Scenario(lower=1, upper=8).given_deploying(2).when_slots(held=2, free=4).when_plan_activated()
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("NEW_RESOURCE_AVAILABLE", None)]


def test_forced_rescale_has_a_record_too():
    job = Scenario(upper=8, min_parallelism_increase=4, scaling_interval_min=0, scaling_interval_max=60)
    job.given_executing(2).when_slots(held=2, free=1)
    assert len(history(job)) == 1
    job.after(61)
    assert newest(job).trigger_cause is TriggerCause.NEW_RESOURCE_AVAILABLE


def test_bound_raised_while_deploying_stops_the_job_in_a_record_of_its_own():
    job = Scenario().given_deploying(2).when_requirements(3, 4).when_slots(held=2).when_plan_activated()
    assert causes_and_ends(job) == [
        ("INITIAL_SCHEDULE", "RESOURCE_REQUIREMENTS_UPDATED"),
        ("UPDATE_REQUIREMENT", "SUCCEEDED"),
        ("UPDATE_REQUIREMENT", None),
    ]
    assert (newest(job).requirements, newest(job).attempt) == (2, 2)


def test_failover_takes_over_the_rescale_that_it_meets():
    job = required().after(5).when_query_failed()
    merged = newest(job)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("RECOVERABLE_FAILOVER", None)]
    assert (merged.number, merged.requirements, merged.attempt) == (2, 2, 1)
    assert (merged.start, states(merged)) == (job.now, ["Executing"])
    assert merged.failure == TRANSIENT.summary


def test_each_failed_deployment_begins_the_failover_again():
    job = Scenario(resource_stabilization_timeout=0).given_executing(2)
    for _ in range(3):
        job.when_query_failed().after(100)
    assert states(newest(job)) == ["Deploying", "Restarting", "WaitingForResources"]
    assert len(history(job)) == 2


def test_failed_stop_with_savepoint_is_no_rescale():
    job = idle().when_suspended().when_savepoint_failed()
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_failed_stop_with_savepoint_does_not_end_a_rescale():
    job = required().when_suspended().when_savepoint_failed()
    assert (newest(job).end, states(newest(job))) == (None, ["Executing", "StopWithSavepoint"])
    assert newest(job.after(31)).terminated_reason is NO_CHANGE


def test_local_recovery_is_a_failover_without_downtime():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=2).after(5).when_slots(held=4)
    recovered = newest(job)
    assert (recovered.trigger_cause, recovered.terminated_reason) == ("RECOVERABLE_FAILOVER", "SUCCEEDED")
    assert (recovered.tier, recovered.downtime) == (Tier.EXECUTORS, timedelta(0))
    assert recovered.vertices.before == recovered.vertices.after == {"job": 4}
    assert recovered.failure == "2 of 4 slot(s) lost"
    assert states(recovered) == ["Executing", "RestartingLocally", "Executing"]


def test_smaller_plan_after_a_loss_is_the_same_failover():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=0).when_plan_activated()
    shrunk = newest(job)
    assert (shrunk.trigger_cause, shrunk.terminated_reason) == ("RECOVERABLE_FAILOVER", "SUCCEEDED")
    assert (shrunk.vertices.before, shrunk.vertices.after) == ({"job": 4}, {"job": 2})
    assert states(shrunk) == ["Executing", "RestartingLocally", "Restarting", "Deploying", "Executing"]


def test_query_that_fails_while_slots_are_replaced_goes_on_with_the_failover():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=2)
    began = newest(job)
    job.after(5).when_query_failed()
    assert (newest(job).number, newest(job).start) == (began.number, began.start)
    assert newest(job).failure == TRANSIENT.summary


def test_job_without_any_slots_waits_in_an_open_record():
    job = idle().when_slots().when_driver_ended().after(10_000)
    assert job.state.name == "WaitingForResources"
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("RECOVERABLE_FAILOVER", None)]


CAUSES: dict[TriggerCause, ScenarioBuilder] = {
    TriggerCause.INITIAL_SCHEDULE: scheduled,
    TriggerCause.UPDATE_REQUIREMENT: required,
    TriggerCause.NEW_RESOURCE_AVAILABLE: offered,
    TriggerCause.RECOVERABLE_FAILOVER: failed_over,
}


@pytest.mark.parametrize("cause", CAUSES)
def test_record_is_open_while_a_rescale_is_under_way(cause: TriggerCause):
    rescale = CAUSES[cause]().state.timeline.rescale
    assert rescale is not None
    assert (rescale.trigger_cause, rescale.end, rescale.terminated_reason, rescale.terminal_state) == (
        cause,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("end", ENDS)
def test_rescale_ends_as_it_should(end: str):
    life, cause, reason = ENDS[end]
    ended = next(record for record in reversed(history(life())) if record.end is not None)
    assert (ended.trigger_cause, ended.terminated_reason) == (cause, reason)
    assert ended.terminal_state is reason.terminal_state


def test_every_cause_and_every_end_is_in_the_table():
    assert {cause for _, cause, _ in ENDS.values()} == set(TriggerCause)
    ends = {reason for _, _, reason in ENDS.values()}
    assert ends == set(TerminatedReason) - {TerminatedReason.JOB_FAILOVER_RESTARTING}


@pytest.mark.parametrize("reason", TerminatedReason)
def test_terminated_reason_states_the_result_of_a_rescale(reason: TerminatedReason):
    results = {"SUCCEEDED": TerminalState.COMPLETED, "EXCEPTION_OCCURRED": TerminalState.FAILED}
    assert reason.terminal_state is results.get(reason, TerminalState.IGNORED)


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


AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}


def test_initial_schedule_reports_states_from_creation_to_execution():
    job = Scenario(lower=1, upper=4).given_executing(2)
    initial = newest(job)
    began = initial.start
    assert [(span.state, (span.left - began).total_seconds()) for span in initial.states] == [
        ("Created", 0),
        ("WaitingForResources", 10),
        ("Deploying", 10),
        ("Executing", 10),
    ]
    assert initial.end == began + 10 * SECOND
    assert (initial.tier, initial.downtime, initial.failure) == (Tier.DRIVER, None, None)


def test_record_reports_what_was_desired_what_sufficed_and_what_came_of_it():
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 2), slot_sharing_group="in"),
        JobVertex(name="count", parallelism=ParallelismRange(2, 6), slot_sharing_group="out"),
        JobVertex(name="write", parallelism=ParallelismRange(1, 3), slot_sharing_group="out"),
    )
    graph = JobGraph(job="flights", vertices=vertices)
    job = Scenario(graph=graph, **AT_ONCE).given_executing(4).when_slots(held=4, free=4).when_slots(held=8)
    job.when_plan_activated()
    assert newest(job).vertices == Amounts(
        desired={"read": 2, "count": 6, "write": 3},
        sufficient={"read": 1, "count": 2, "write": 1},
        before={"read": 1, "count": 3, "write": 3},
        after={"read": 2, "count": 6, "write": 3},
    )
    assert newest(job).groups == Amounts(
        desired={"in": 2, "out": 6},
        sufficient={"in": 1, "out": 2},
        before={"in": 1, "out": 3},
        after={"in": 2, "out": 6},
    )


def test_numbers_count_records_requirements_and_attempts():
    job = (
        idle()
        .when_query_failed()
        .after(1)
        .when_plan_activated()
        .after(40)
        .when_requirements(1, 4)
        .when_requirements(1, 5)
    )
    job.when_slots(held=2, free=2)
    numbers = [(record.number, record.requirements, record.attempt) for record in history(job)]
    assert numbers == [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 3, 1)]


def test_rescale_on_the_living_driver_takes_the_query_tier():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    assert newest(job).tier is Tier.QUERY


def test_tier_is_the_highest_that_was_taken():
    job = Scenario().given_executing(4).when_slots(held=2, free=2).after(5)
    assert newest(job).tier is Tier.EXECUTORS
    job.when_driver_ended().after(1).when_slots(free=4)
    assert newest(job).tier is Tier.DRIVER


def test_failure_is_cut_short():
    job = idle().when_query_failed(Failure(error_class="E", message="x" * 5000))
    assert len(newest(job).failure or "") == MAX_FAILURE_CHARACTERS


@pytest.mark.parametrize("end", ["failure without a way on", "no slots for the start", "first plan not deployed"])
def test_rescale_that_ended_with_a_failure_reports_it(end: str):
    life, _, _ = ENDS[end]
    assert newest(life()).failure


def test_states_of_a_record_are_bounded():
    job = Scenario(lower=1, upper=40).given_executing(40).after(40)
    for left in range(39, 9, -1):
        job.now += SECOND
        job.when_slots(held=left)
    rescale = newest(job)
    assert len(rescale.states) == MAX_STATES
    assert rescale.start == job.now - 29 * SECOND
    assert rescale.states[-1].left == job.now


def test_record_survives_json():
    for life, _, _ in ENDS.values():
        for rescale in history(life()):
            assert decode(Rescale, json.loads(json.dumps(encode(rescale)))) == rescale


def reported(job: Scenario, downtime: timedelta | None) -> Scenario:
    event = job.plan_activated()
    return job.when(replace(event, downtime=downtime))


def test_downtime_lasts_from_the_end_of_one_plan_to_the_start_of_the_next():
    job = idle().when_query_failed().after(1)
    job.now += 4 * SECOND
    assert newest(job.when_plan_activated()).downtime == 5 * SECOND


def test_downtime_that_the_driver_measured_is_believed():
    job = idle().when_query_failed().after(4)
    assert newest(reported(job, timedelta(milliseconds=1500))).downtime == timedelta(milliseconds=1500)


def test_downtime_ends_when_the_plan_is_active_on_fewer_slots_than_it_will_have():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_plan_activated().after(10).when_slots(held=4)
    assert (newest(job).terminated_reason, newest(job).downtime) == ("SUCCEEDED", 3 * SECOND)


def test_downtimes_of_one_rescale_add_up():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_plan_activated().when_slots(held=3)
    job.now += 2 * SECOND
    job.when_plan_activated()
    assert (newest(job).terminated_reason, newest(job).downtime) == ("SUCCEEDED", 5 * SECOND)


def test_downtime_goes_on_through_other_requirements_and_failures():
    job = Scenario(lower=1, upper=2).given_executing(2).when_query_failed()
    job.now += 2 * SECOND
    job.fire_due_timers().when_requirements(1, 3)
    job.now += 2 * SECOND
    job.when_driver_ended().when_slots().after(1000).when_slots(free=2).after(10).when_slots(held=2)
    waited = job.now - history(job)[1].start
    assert newest(job.when_plan_activated()).downtime == waited > 1000 * SECOND


def test_rescale_of_an_update_keeps_what_the_job_went_through_before():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_plan_activated().when_requirements(1, 3)
    assert (newest(job).trigger_cause, newest(job).tier, newest(job).downtime) == (
        "UPDATE_REQUIREMENT",
        Tier.QUERY,
        3 * SECOND,
    )


def test_report_of_another_plan_ends_no_downtime():
    job = redeploying()
    job.when(PlanActivated(at=job.now, epoch=job.state.epoch, version=1))
    assert newest(job).downtime is None
    assert job.state.timeline.stopped is not None


NOTHING = Amounts(desired={}, sufficient={})


def rescale(reason: TerminatedReason | None, seconds: float = 0, downtime: float | None = None) -> Rescale:
    return Rescale(
        number=1,
        requirements=1,
        attempt=1,
        trigger_cause=TriggerCause.INITIAL_SCHEDULE,
        start=START,
        vertices=NOTHING,
        groups=NOTHING,
        downtime=None if downtime is None else timedelta(seconds=downtime),
        end=None if reason is None else START + timedelta(seconds=seconds),
        terminated_reason=reason,
        terminal_state=None if reason is None else reason.terminal_state,
    )


def completed(seconds: float, downtime: float | None = None) -> Rescale:
    return rescale(TerminatedReason.SUCCEEDED, seconds, downtime)


def measured(durations: Durations | None) -> Durations:
    assert durations is not None
    return durations


def test_nothing_is_summed_up_as_nothing():
    assert summarize([]) == RescaleSummary(
        total=0,
        completed=0,
        ignored=0,
        failed=0,
        in_progress=0,
        duration=None,
        completed_duration=None,
        ignored_duration=None,
        failed_duration=None,
        downtime=None,
    )


def test_rescales_are_counted_by_their_result():
    summary = summarize(
        [
            completed(2),
            completed(4),
            rescale(TerminatedReason.JOB_CANCELED, 8),
            rescale(TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED, 16),
            rescale(TerminatedReason.EXCEPTION_OCCURRED, 32),
            rescale(None),
        ]
    )
    counts = (summary.total, summary.completed, summary.ignored, summary.failed, summary.in_progress)
    assert counts == (6, 2, 2, 1, 1)
    longest = [summary.duration, summary.completed_duration, summary.ignored_duration, summary.failed_duration]
    assert [measured(durations).max.total_seconds() for durations in longest] == [32, 4, 16, 32]


def test_downtime_is_that_of_completed_rescales_with_any():
    summary = summarize([completed(9, 2), completed(9), rescale(TerminatedReason.JOB_FINISHED, 9, downtime=7)])
    assert measured(summary.downtime).max == measured(summary.downtime).min == timedelta(seconds=2)


def test_one_duration_is_every_percentile():
    durations = measured(summarize([completed(3)]).duration)
    assert {getattr(durations, name) for name in Durations.__dataclass_fields__} == {timedelta(seconds=3)}


def test_percentiles_lie_between_neighbours():
    durations = measured(summarize(completed(seconds) for seconds in (4, 1, 3, 2)).duration)
    assert (durations.p50, durations.avg) == (timedelta(seconds=2.5), timedelta(seconds=2.5))
    assert (durations.min, durations.p90, durations.p999) == (
        timedelta(seconds=1), timedelta(seconds=4), timedelta(seconds=4),
    )  # fmt: skip


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=2000))
def test_percentiles_are_those_of_the_standard_library(milliseconds: list[int]):
    durations = measured(summarize(completed(ms / 1000) for ms in milliseconds).duration)
    expected = statistics.quantiles(milliseconds, n=1000, method="exclusive")
    for name, share in (("p50", 500), ("p90", 900), ("p95", 950), ("p99", 990), ("p999", 999)):
        inside = min(max(expected[share - 1], min(milliseconds)), max(milliseconds))  # the library extrapolates
        assert getattr(durations, name) / timedelta(milliseconds=1) == pytest.approx(inside, abs=0.01)
