"""Every state x every event against the table, both ways: nothing else happens, and all of it can."""

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import get_args

import pytest

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.config.options import OPTIONS
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverPrepared,
    DriverSubmitted,
    Event,
    JobCompleted,
    JobRedeployed,
    MoveAnnounced,
    QueryFailed,
    RequirementsChanged,
    SavepointCompleted,
    SchedulingStarted,
    SubmissionUnanswered,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import TRAITS, Current, Finished
from airflow_adaptive._core.scheduler.transition_table import EVENTS, STATES, TRANSITIONS
from tests.lab.scenario import HOPELESS, TRANSIENT, Scenario
from tests.support.repository import ROOT
from tests.support.scheduler.scenarios_by_state import SCENARIOS


def events(job: Scenario) -> Iterator[Event]:
    """Every kind of event, in the variants that matter."""
    now, epoch = job.now, job.state.epoch
    yield SchedulingStarted(at=now)
    for held in (0, 1, 2, 4):
        for free in (0, 1, 4):
            yield job.slots(held, free)
    for lower, upper in ((1, 1), (1, 2), (2, 4), (1, 8), (7, 8)):
        bounds = dict.fromkeys(job.state.requirements, ParallelismRange(lower, upper))
        yield RequirementsChanged(at=now, requirements=bounds)
    for name in TimerName:
        yield TimerFired(at=now + timedelta(days=1), timer=name, version=job.state.version)
    yield DriverSubmitted(at=now, epoch=epoch, submission_id="driver-1")
    yield SubmissionUnanswered(at=now, epoch=epoch, reason="no answer")
    yield MoveAnnounced(at=now, epoch=epoch, reason="its node was cordoned")
    for failure in (TRANSIENT, HOPELESS):
        yield DriverEnded(at=now, epoch=epoch, failure=failure)
        yield DriverEnded(at=now, epoch=epoch, failure=failure, in_order=True)
        yield DriverHeartbeatTimedOut(at=now, epoch=epoch, failure=failure)
        yield QueryFailed(at=now, epoch=epoch, failure=failure)
    if job.state.standby.driver is not None:
        yield DriverPrepared(at=now, epoch=job.standby_epoch)
        yield DriverEnded(at=now, epoch=job.standby_epoch, failure=TRANSIENT)
        yield DriverHeartbeatTimedOut(at=now, epoch=job.standby_epoch, failure=HOPELESS)
    yield job.plan_activated()
    yield job.plan_rejected()
    for deployment in ("", "new"):
        yield JobRedeployed(at=now, deployment=deployment)
    yield BatchCommitted(at=now, epoch=epoch)
    yield SavepointCompleted(at=now, epoch=epoch)
    yield job.savepoint_failed()
    yield JobCompleted(at=now, epoch=epoch)
    yield CancelRequested(at=now)
    yield SuspendRequested(at=now)


@pytest.mark.parametrize("life", SCENARIOS)
def test_step_leads_only_where_the_table_states(life: str):
    job = SCENARIOS[life]()
    for event in events(job):
        before, step = job.state, machine.step(job.state, event)
        allowed = TRANSITIONS[type(before.current)][type(event)]
        if step.transition is None:
            assert type(step.state.current) is type(before.current)
            assert step.state.version == before.version
        else:
            assert type(step.state.current) in allowed
            assert (step.transition.source, step.transition.target) == (before.name, step.state.name)
            assert step.transition.version == step.state.version == before.version + 1
            assert step.decision is not None
            assert step.decision.reason == step.transition.reason != ""


def test_every_transition_of_the_table_is_possible():
    seen: dict[type, dict[type, set[type]]] = defaultdict(lambda: defaultdict(set))
    for live in SCENARIOS.values():
        job = live()
        for event in events(job):
            step = machine.step(job.state, event)
            if step.transition is not None:
                seen[type(job.state.current)][type(event)].add(type(step.state.current))
    missing = {
        (state.__name__, event.__name__, target.__name__)
        for state, row in TRANSITIONS.items()
        for event, targets in row.items()
        for target in targets - seen[state][event]
    }
    assert not missing


def test_table_is_total_and_finished_is_the_end():
    assert set(TRANSITIONS) == set(STATES) == set(machine.STATE_HANDLERS)
    assert all(set(row) == set(EVENTS) for row in TRANSITIONS.values())
    assert not any(TRANSITIONS[Finished].values())
    assert {type(live().state.current) for live in SCENARIOS.values()} == set(STATES)


def test_every_state_has_traits_in_the_order_of_the_union():
    assert (*TRAITS,) == get_args(Current)


@pytest.mark.parametrize("life", SCENARIOS)
def test_job_that_stops_or_has_ended_demands_no_slots(life: str):
    traits = SCENARIOS[life]().state.traits
    assert not (traits.ends and traits.demands_slots)


def test_no_state_leads_to_itself():
    assert not [state for state, row in TRANSITIONS.items() for targets in row.values() if state in targets]


PAGE = (ROOT / "docs" / "concepts" / "states.md").read_text()


def as_mermaid() -> str:
    """The table as a Mermaid state diagram, an edge per pair of states with the events that may lead along it."""
    lines = ["stateDiagram-v2", "    [*] --> Created"]
    for source in STATES:
        for target in STATES:
            labels = [event.__name__ for event, leads_to in TRANSITIONS[source].items() if target in leads_to]
            if labels:
                lines.append(f"    {source.__name__} --> {target.__name__}: {'<br/>'.join(labels)}")
    return "\n".join([*lines, "    Finished --> [*]"])


def test_diagram_is_the_tables():
    drawn = re.search(r"<!-- transitions.*?-->\n```mermaid\n(.*?)\n```\n<!-- /transitions -->", PAGE, re.DOTALL)
    assert drawn is not None
    assert drawn[1] == as_mermaid()


def test_every_state_is_explained_in_the_order_of_a_jobs_life():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [state.__name__ for state in STATES]


def test_options_that_are_named_exist():
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", PAGE)) <= set(OPTIONS)


def test_job_survives_the_loss_of_a_worker_as_documented():
    job = Scenario(lower=1, upper=4).given_executing(4).when_slots(held=2, free=1)
    assert job.path[-3:] == ["RestartingLocally", "Restarting", "Deploying"]
    job.after(3).when_plan_activated().then("Deploying", reason="2 of 3 slot(s)").then_parallelism(3)
    job.after(2).when_slots(held=3).then("Executing")
    job.after(114).when_slots(held=3, free=2).then("Executing").when_committed().then("Deploying").then_parallelism(4)
    assert job.state.restarts.attempts == 0


def documented_transitions(state: type) -> dict[str, list[str]]:
    """Return the section "Transitions" of the docstring of a state: the events for each state that they may lead to."""
    section = (inspect.getdoc(state) or "").partition("Transitions:\n")[2].partition("\n\n")[0]
    lines = re.sub(r"\n {8,}", " ", section).splitlines()
    rows = (line.strip().split(": ") for line in lines)
    return {target: events.split(", ") for target, events in rows}


@pytest.mark.parametrize("state", STATES)
def test_docstring_of_a_state_lists_its_outgoing_transitions(state: type):
    expected = {
        target.__name__: [event.__name__ for event in EVENTS if target in TRANSITIONS[state][event]]
        for target in STATES
    }
    assert documented_transitions(state) == {target: events for target, events in expected.items() if events}
