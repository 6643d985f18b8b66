"""One cycle of the resolver: when the policy of a job is consulted, and the limits that the driver reports."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import (
    Decommission,
    DriverState,
    DriverStatus,
    QueryReport,
)
from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.advice import (
    Advice,
    Advisor,
    PolicyInput,
    PolicyMemory,
    PublishedAdvice,
    PublishedPolicy,
)
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState, Requester
from airflow_adaptive._core.requirements.resolution import Resolution, latest_requirements
from airflow_adaptive._core.requirements.resolver import (
    RequirementsResolver,
    ResolverInput,
    ResolverMemory,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Current,
    Failing,
    Finished,
    Outcome,
    Plan,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.journal.step_document import created
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive.autoscaling.calendar.declaration import window
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario
from tests.lab.simulation.one_job import small_job
from tests.support.runtime.policy_simulation import (
    Load,
    by,
    calendar,
    following,
    loaded,
    policy_of,
    reasons,
    request_bounds,
    roomy,
    running_on,
    until,
)

LATER = START + timedelta(minutes=1)
PLAN = Plan(version=1, parallelism={"job": 1}, slots=1, retained_slots=1)
NO_MEMORY = ResolverMemory()
FAILURE = Failure(error_class="TEST", message="failed")


class FixedAdvisor:
    """A policy that always gives the same advice.

    Attributes:
        bounds: advised bounds of the vertices.
        inputs: inputs of all consultations.
    """

    kind = "FixedPolicy"
    dry_run = False

    def __init__(self, **bounds: tuple[int, int]) -> None:
        self.bounds = {name: ParallelismRange(*pair) for name, pair in bounds.items()}
        self.inputs: list[PolicyInput] = []

    def recall(self, memory: PolicyMemory) -> PolicyMemory:
        return memory

    def advise(self, memory: PolicyMemory | None, policy_input: PolicyInput) -> tuple[PolicyMemory | None, Advice]:
        self.inputs.append(policy_input)
        return memory, Advice(bounds=self.bounds, reason="fixed")


class RunningResolver(RequirementsResolver):
    """The resolver of a loop, with what the loop remembers."""

    def __init__(self, advisor: Advisor | None = None, memory: ResolverMemory = NO_MEMORY) -> None:
        super().__init__(advisor)
        self.memory = memory

    def run(self, given: ResolverInput) -> Resolution:
        resolved, self.memory = self.resolve(replace(given, memory=self.memory))
        return resolved


def cycle(current: Current | None = None) -> ResolverInput:
    state = created(small_job("job", (1, 4), {}))
    state = state if current is None else replace(state, current=current)
    return ResolverInput(state=state, control_requests=ControlRequests(), status=None, costs={}, at=START)


def test_advice_that_the_job_can_have_is_followed() -> None:
    resolver = RunningResolver(FixedAdvisor(job=(2, 3)))
    resolver.run(cycle())
    advice = PublishedAdvice(bounds={"job": ParallelismRange(2, 3)}, reason="fixed", at=START, since=START)
    assert resolver.policy == PublishedPolicy(kind="FixedPolicy", advice=advice)


@pytest.mark.parametrize(
    "bounds", [{"job": (1, 5)}, {"job": (3, 2)}, {"job": (1, -1)}, {}, {"job": (1, 4), "no": (1, 1)}]
)
def test_advice_that_the_job_cannot_have_is_not_followed_and_is_reported(bounds: dict[str, tuple[int, int]]) -> None:
    resolver = RunningResolver(FixedAdvisor(**bounds))
    resolver.run(cycle())
    assert result_of(resolver).advice is None
    assert "the job cannot have the advised bounds" in str(result_of(resolver).problem)
    assert [entry.code for entry in resolver.take_log_entries()] == [ReasonCode.POLICY_FAILED]


@pytest.mark.parametrize(
    "current",
    [
        StopWithSavepoint(since=START, plan=PLAN, stop_deadline=LATER),
        Canceling(since=START, stop_deadline=LATER),
        Failing(since=START, stop_deadline=LATER, cause=FAILURE),
        Finished(since=START, outcome=Outcome.SUSPENDED, cause=None, stop_deadline=LATER),
    ],
)
def test_policy_is_not_consulted_while_the_job_ends(current: Current) -> None:
    advisor = FixedAdvisor(job=(2, 3))
    RunningResolver(advisor).run(cycle(current))
    assert advisor.inputs == []


def test_policy_is_not_consulted_while_an_override_holds_and_is_consulted_when_it_ends() -> None:
    advisor = FixedAdvisor(job=(2, 3))
    resolver = RunningResolver(advisor)
    until = Requester(requested_by="alice", expires_at=LATER)
    held = ControlRequests(requirements={"job": ParallelismRange(1, 1)}, requester=until)
    overridden = replace(cycle(), control_requests=held, at=START)
    assert [resolver.run(overridden).source.name for _ in range(3)] == ["alice"] * 3
    assert advisor.inputs == []
    assert resolver.policy == PublishedPolicy(kind="FixedPolicy")
    resolved = resolver.run(replace(overridden, at=LATER, consult_policy=False))
    assert ([it.at for it in advisor.inputs], resolved.source.name) == ([LATER], "FixedPolicy")


def result_of(resolver: RequirementsResolver) -> PublishedPolicy:
    assert resolver.policy is not None
    return resolver.policy


def test_policy_pauses_while_executors_are_decommissioned() -> None:
    policy = FixedAdvisor(job=(2, 3))
    resolver = RunningResolver(policy)
    leaving = DriverStatus(
        job="job",
        epoch=1,
        nonce="n",
        sequence=1,
        at="",
        state=DriverState.RUNNING,
        decommission=Decommission(workers=("w1",)),
    )
    resolver.run(replace(cycle(), status=leaving))
    assert (result_of(resolver).advice, policy.inputs) == (None, [])
    assert (
        result_of(resolver).problem
        == "the policy pauses: executors are being decommissioned, and their slots leave: w1"
    )
    resolver.run(cycle())
    assert result_of(resolver).problem is None
    assert result_of(resolver).advice is not None


# ---- limits that the driver reports ---------------------------------------------------------------------------------


def status(limit: int) -> DriverStatus:
    source = SourceReport(kind="KafkaV2", input_limit=limit)
    query = QueryReport(name="job", active=True, sources=(source,), shuffle=Shuffle.NONE)
    return DriverStatus(job="job", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, queries=(query,))


def executing() -> SchedulerState:
    job = Scenario()
    job.given_executing(2)
    return job.state


def resolve(
    resolver: RunningResolver, state: SchedulerState, limit: int | None, upper: int | None = None
) -> Resolution:
    override = {} if upper is None else dict.fromkeys(state.requirements, ParallelismRange(1, upper))
    return resolver.run(
        ResolverInput(
            state=state,
            control_requests=ControlRequests(requirements=override, is_read=True),
            status=None if limit is None else status(limit),
            costs={},
            at=START,
        )
    )


def bounded(state: SchedulerState, resolved: Resolution) -> SchedulerState:
    return replace(state, requirements=resolved.requirements)


def is_unchanged(state: SchedulerState, resolved: Resolution) -> bool:
    return resolved.requirements == latest_requirements(state)


def uppers(state: SchedulerState) -> set[int]:
    return {bounds.upper for bounds in state.requirements.values()}


def test_declared_bounds_come_down_to_the_limit_and_rise_with_new_partitions():
    resolver, state = RunningResolver(), executing()
    declared = uppers(state)
    assert is_unchanged(state, resolve(resolver, state, None))
    limited = bounded(state, resolve(resolver, state, 2))
    assert uppers(limited) == {2}
    assert is_unchanged(limited, resolve(resolver, limited, 2))
    assert is_unchanged(limited, resolve(resolver, limited, None))
    grown = bounded(limited, resolve(resolver, limited, 3))
    assert uppers(grown) == {3}
    assert uppers(bounded(grown, resolve(resolver, grown, 100))) == declared


def test_reason_of_the_change_names_the_limit():
    limited = resolve(RunningResolver(), executing(), 1).limited
    assert limited == "the sources of vertex job feed 1 task: more than 1 slot would idle"


def test_bounds_of_a_canceled_job_do_not_come_down_to_the_limit():
    canceling = Canceling(since=START, stop_deadline=START + timedelta(minutes=1))
    state = replace(executing(), current=canceling)
    assert is_unchanged(state, resolve(RunningResolver(), state, 2))


def test_bounds_of_a_user_are_limited_while_a_job_is_being_canceled():
    canceling = Canceling(since=START, stop_deadline=START + timedelta(minutes=1))
    state = replace(executing(), current=canceling)
    assert uppers(bounded(state, resolve(RunningResolver(), state, 2, upper=3))) == {2}


def test_next_loop_keeps_the_limit_before_it_reads_a_status():
    resolver, state = RunningResolver(), executing()
    limited = bounded(state, resolve(resolver, state, 2))
    following = RunningResolver(memory=resolver.memory)
    assert is_unchanged(limited, resolve(following, limited, None))
    forgetful = RunningResolver()
    assert uppers(bounded(limited, resolve(forgetful, limited, None))) == uppers(state)


def test_advice_is_aligned_with_the_sources_within_the_declared_bounds():
    """Each of four partitions has a task of its own in four slots, and two tasks wait in three slots."""
    state = executing()
    assert uppers(state) == {4}
    resolver = RunningResolver(FixedAdvisor(**dict.fromkeys(state.requirements, (1, 3))))
    assert uppers(bounded(state, resolve(resolver, state, 4))) == {4}


MINUTES = 60.0


def test_policy_that_raises_leaves_the_job_as_it_is_and_reports_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    job = following(calendar(look_ahead=None))
    until(job, 10 * MINUTES)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a calendar of no days")

    monkeypatch.setattr(ScheduledPolicy, "advise_at", broken)
    with caplog.at_level(logging.WARNING):
        assert running_on(until(job, 80 * MINUTES)) == 2
    assert caplog.text.count("The rescale policy is not followed: ZeroDivisionError: a calendar of no days") == 1
    assert sum("is not followed" in text for text in reasons(job)) == 1
    assert policy_of(job)["problem"] == "ZeroDivisionError: a calendar of no days"


def test_bounds_that_expire_leave_a_job_whose_policy_fails_to_its_dag():
    job = roomy()
    job.spec = replace(job.spec, rescale_policy='{"type": "PolicyOfTheFuture"}')
    request_bounds(job, (1, 1), expires=10 * MINUTES)
    assert running_on(until(job, 9 * MINUTES)) == 1
    assert running_on(until(job, 11 * MINUTES)) == 4
    assert by(job) == ("DAG", "dag")


def test_bounds_that_expire_stay_until_the_load_policy_knows_the_load():
    job = following(LoadPolicy(), (1, 8))
    request_bounds(job, (2, 2), expires=5 * MINUTES)
    assert running_on(until(job, 10 * MINUTES)) == 2
    assert by(job) == ("POLICY", "LoadPolicy")
    load = Load(job, rate=700.0)
    job.drivers.measures, job.drivers.commits = load, False
    assert running_on(until(job, 20 * MINUTES)) == 8


def test_new_bounds_of_the_dag_wait_for_the_evaluation_of_the_policy():
    job = following(calendar(window("always", (1, 2), start="00:00", end="24:00")), (1, 2))
    until(job, 10 * MINUTES)
    job.spec = replace(job.spec, graph=roomy((1, 8)).spec.graph)
    assert running_on(until(job, 20 * MINUTES)) == 2
    assert not any("by the DAG" in text for text in reasons(job))


def test_policy_that_this_version_can_not_read_costs_the_job_nothing():
    job = roomy()
    job.spec = replace(job.spec, rescale_policy='{"type": "PolicyOfTheFuture"}')
    assert running_on(until(job, 10 * MINUTES)) == 4
    assert "this version cannot read the policy" in policy_of(job)["problem"]


def test_unreadable_memory_is_begun_again_with_a_note_in_the_timeline():
    job, load = loaded(LoadPolicy(), (1, 8))
    load.rate = 300.0
    before = running_on(until(job, 10 * MINUTES))
    newest = max(job.directory.journal)
    document = json.loads(job.directory.journal[newest])
    document["memory"]["resolver"]["policy"]["content"] = {"queries": "of another version"}
    job.directory.journal[newest] = json.dumps(document).encode()
    assert running_on(until(job, 20 * MINUTES)) == before
    assert sum("memory of the policy is invalid and is discarded" in text for text in reasons(job)) == 1


def test_advice_of_a_loop_that_is_killed_is_carried_out_by_the_next_loop():
    job = following(calendar(look_ahead=None))
    until(job, 59 * MINUTES)
    write = job.directory.create

    async def killed(document: Any) -> bool:
        if any("morning" in decision["reason"] for decision in document.decisions):
            raise KeyboardInterrupt
        return await write(document)

    job.directory.create = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        until(job, 62 * MINUTES)
    job.directory.create = write  # type: ignore[method-assign]
    assert running_on(until(job, 63 * MINUTES)) == 4


def test_another_policy_takes_effect_when_the_job_is_taken_up_with_new_code():
    job = following(calendar(look_ahead=None))
    assert running_on(until(job, 10 * MINUTES)) == 2
    job.follow(calendar(window("always", 3, start="00:00", end="24:00")))
    assert running_on(until(job, 20 * MINUTES)) == 3
    job.follow(None)
    assert running_on(until(job, 30 * MINUTES)) == 4, "what its DAG declares"
    assert by(job) == ("DAG", "dag")


def test_polls_that_change_nothing_write_nothing():
    job, _ = loaded(LoadPolicy(), (1, 2))
    until(job, 20 * MINUTES)
    before = len(job.directory.journal)
    until(job, 20 * MINUTES + 25 * MINUTES)
    assert len(job.directory.journal) - before <= 3, "the next loop's claim, and what keeps the memory young"


def test_clock_that_was_set_between_two_loops_leads_to_no_rescale_by_load():
    for hours in (-5, 5):
        job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
        load.rate = 300.0
        before = running_on(until(job, 10 * MINUTES))
        load.rate, known = 290.0, len(job.drivers.started)
        job.clock.ahead += timedelta(hours=hours)
        state = job.run(RunLimits(recycle_at=job.clock.now() + timedelta(minutes=20)))
        assert (running_on(state), len(job.drivers.started)) == (before, known)


def test_suspended_job_is_resumed_within_what_the_policy_requests():
    job = following(calendar(look_ahead=None))
    job.clock.at(
        10 * MINUTES, lambda: setattr(job.store, "requests", ControlRequests(desired_state=DesiredState.SUSPENDED))
    )
    job.run_to_end()
    job.store.requests, job.spec = ControlRequests(), replace(job.spec, attempt="attempt-2")
    job.clock._now = START + timedelta(minutes=70)
    assert running_on(job.run(RunLimits(recycle_at=START + timedelta(minutes=75)))) == 4


def test_other_source_of_the_same_bounds_is_active_from_its_own_time_on():
    state, memory, times = executing(), ResolverMemory(), []
    override = ControlRequests(requirements=state.requirements, requester=Requester(requested_by="ann"))
    for minute, requests in enumerate((ControlRequests(), override, override)):
        at = START + timedelta(minutes=minute)
        given = ResolverInput(state=state, control_requests=requests, status=None, costs={}, at=at, memory=memory)
        resolved, memory = RequirementsResolver().resolve(given)
        times.append(resolved.source.since)
    assert times == [None, START + timedelta(minutes=1), START + timedelta(minutes=1)]
