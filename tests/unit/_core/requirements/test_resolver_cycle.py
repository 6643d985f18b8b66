"""One cycle of the resolver: when the policy of a job is consulted, and the limits that the driver reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive._core.protocol.documents import Decommission, DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import Shuffle, SourceReport
from airflow_adaptive._core.requirements.advice import Advice, Advisor, PolicyAdvice, PolicyInput, PolicyMemory
from airflow_adaptive._core.requirements.control_requests import ControlRequests, Requester
from airflow_adaptive._core.requirements.resolution import Resolution
from airflow_adaptive._core.requirements.resolver import (
    AdviceTracker,
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
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario
from tests.lab.simulation.one_job import small_job

DECLARED = {"job": ParallelismRange(1, 4)}
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


def given(current: Current | None = None) -> ResolverInput:
    state = created(small_job("job", (1, 4), {}))
    state = state if current is None else replace(state, current=current)
    return ResolverInput(state=state, control_requests=ControlRequests(), status=None, costs={}, at=START)


def test_advice_that_the_job_can_have_is_followed() -> None:
    tracker = AdviceTracker(FixedAdvisor(job=(2, 3)))
    tracker.consult(given(), DECLARED, required=True)
    assert tracker.result is not None
    assert tracker.result.advice == Advice(bounds={"job": ParallelismRange(2, 3)}, reason="fixed")
    assert tracker.result.problem is None


@pytest.mark.parametrize(
    "bounds", [{"job": (1, 5)}, {"job": (3, 2)}, {"job": (1, -1)}, {}, {"job": (1, 4), "no": (1, 1)}]
)
def test_advice_that_the_job_cannot_have_is_not_followed_and_is_reported(bounds: dict[str, tuple[int, int]]) -> None:
    tracker = AdviceTracker(FixedAdvisor(**bounds))
    tracker.consult(given(), DECLARED, required=True)
    assert tracker.result is not None
    assert tracker.result.advice is None
    assert "the job cannot have the advised bounds" in str(tracker.result.problem)
    assert [entry.code for entry in tracker.take_log_entries()] == [ReasonCode.POLICY_FAILED]


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
    RunningResolver(advisor).run(given(current))
    assert advisor.inputs == []


def test_policy_is_consulted_before_the_job_ends() -> None:
    advisor = FixedAdvisor(job=(2, 3))
    resolved = RunningResolver(advisor).run(given())
    assert [it.at for it in advisor.inputs] == [START]
    assert resolved.requirements == {"job": ParallelismRange(2, 3)}


def test_policy_is_not_consulted_while_an_override_holds_and_is_consulted_when_it_ends() -> None:
    advisor = FixedAdvisor(job=(2, 3))
    resolver = RunningResolver(advisor)
    until = Requester(requested_by="alice", expires_at=LATER)
    held = ControlRequests(requirements={"job": ParallelismRange(1, 1)}, requester=until)
    overridden = replace(given(), control_requests=held, at=START)
    assert [resolver.run(overridden).source.name for _ in range(3)] == ["alice"] * 3
    assert advisor.inputs == []
    assert resolver.policy == PolicyAdvice(policy="FixedPolicy")
    resolved = resolver.run(replace(overridden, at=LATER, consult_policy=False))
    assert ([it.at for it in advisor.inputs], resolved.source.name) == ([LATER], "FixedPolicy")


def result_of(tracker: AdviceTracker) -> PolicyAdvice:
    assert tracker.result is not None
    return tracker.result


def test_policy_pauses_while_executors_are_decommissioned() -> None:
    policy = FixedAdvisor(job=(2, 3))
    tracker = AdviceTracker(policy)
    leaving = DriverStatus(
        job="job",
        epoch=1,
        nonce="n",
        sequence=1,
        at="",
        state=DriverState.RUNNING,
        decommission=Decommission(workers=("w1",)),
    )
    tracker.consult(replace(given(), status=leaving), DECLARED, required=True)
    assert (result_of(tracker).advice, policy.inputs) == (None, [])
    assert (
        result_of(tracker).problem == "the policy pauses: executors are being decommissioned, and their slots leave: w1"
    )
    tracker.consult(given(), DECLARED, required=False)
    assert result_of(tracker).problem is None
    assert result_of(tracker).advice is not None


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


def uppers(state: SchedulerState) -> set[int]:
    return {bounds.upper for bounds in state.requirements.values()}


def test_declared_bounds_come_down_to_the_limit_and_rise_with_new_partitions():
    resolver, state = RunningResolver(), executing()
    declared = uppers(state)
    assert resolve(resolver, state, None).event(state, START) is None
    limited = bounded(state, resolve(resolver, state, 2))
    assert uppers(limited) == {2}
    assert resolve(resolver, limited, 2).event(limited, START) is None
    assert resolve(resolver, limited, None).event(limited, START) is None
    grown = bounded(limited, resolve(resolver, limited, 3))
    assert uppers(grown) == {3}
    assert uppers(bounded(grown, resolve(resolver, grown, 100))) == declared


def test_reason_of_the_change_names_the_limit():
    state = executing()
    resolved = resolve(RunningResolver(), state, 1)
    event = resolved.event(state, START)
    assert event is not None
    assert event.by == "the DAG; the sources of vertex job feed 1 task: more than 1 slot would idle"


def test_bounds_of_a_job_that_is_being_canceled_do_not_come_down_to_the_limit():
    canceling = Canceling(since=START, stop_deadline=START + timedelta(minutes=1))
    state = replace(executing(), current=canceling)
    assert resolve(RunningResolver(), state, 2).event(state, START) is None


def test_bounds_that_a_user_sets_for_a_job_that_is_being_canceled_are_active_within_the_limit():
    canceling = Canceling(since=START, stop_deadline=START + timedelta(minutes=1))
    state = replace(executing(), current=canceling)
    assert uppers(bounded(state, resolve(RunningResolver(), state, 2, upper=3))) == {2}


def test_next_loop_keeps_the_limit_before_it_reads_a_status():
    resolver, state = RunningResolver(), executing()
    limited = bounded(state, resolve(resolver, state, 2))
    following = RunningResolver(memory=resolver.memory)
    assert resolve(following, limited, None).event(limited, START) is None
    forgetful = RunningResolver()
    assert uppers(bounded(limited, resolve(forgetful, limited, None))) == uppers(state)


def test_advice_is_aligned_with_the_sources_within_the_declared_bounds():
    """Each of four partitions has a task of its own in four slots, and two tasks wait in three slots."""
    state = executing()
    assert uppers(state) == {4}
    resolver = RunningResolver(FixedAdvisor(**dict.fromkeys(state.requirements, (1, 3))))
    assert uppers(bounded(state, resolve(resolver, state, 4))) == {4}
