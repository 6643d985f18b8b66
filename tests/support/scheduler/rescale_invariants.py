"""What holds of the rescale history after every step."""

from itertools import pairwise

from airflow_adaptive._core.scheduler.history.rescales import MAX_STATES
from airflow_adaptive._core.scheduler.machine import MAX_REPORTED
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Created,
    Deploying,
    Failing,
    Finished,
    Restarting,
    RestartingLocally,
    SchedulerState,
    WaitingForResources,
)
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Rescale, TriggerCause

UNDER_WAY = WaitingForResources | Deploying | Restarting | RestartingLocally
"""States of a job that is on its way to a plan."""


def check_rescales(before: SchedulerState, step: Step) -> None:
    """One step."""
    old, new, closed = before.timeline, step.state.timeline, step.rescale
    assert new.number - old.number in (0, 1)
    assert len(new.reported) <= MAX_REPORTED
    check_decision(before, step)
    if new.rescale is not None:
        check_open(new.rescale)
        assert (new.rescale.number, new.rescale.requirements) == (new.number, new.requirements)
        assert new.rescale.attempt == new.attempt
    if closed is None:
        assert old.rescale is None or new.rescale is not None
        assert old.rescale is None or new.number == old.number
    else:
        check_closed(closed)
        assert new.rescale is None or new.rescale.number == closed.number + 1
    check_presence(step.state)


def check_presence(state: SchedulerState) -> None:
    """A job on its way to a plan has an open record, one that has not begun or is to end has none."""
    if isinstance(state.current, UNDER_WAY):
        assert state.timeline.rescale is not None
    if isinstance(state.current, Created | Canceling | Failing | Finished):
        assert state.timeline.rescale is None


def check_decision(before: SchedulerState, step: Step) -> None:
    """A reason not to rescale is reported once."""
    if step.transition is not None:
        assert step.state.timeline.reported == ()
    elif step.decision is not None and step.state != before:
        assert step.decision.reason not in before.timeline.reported


def check_open(rescale: Rescale) -> None:
    assert (rescale.end, rescale.terminated_reason, rescale.terminal_state) == (None, None, None)
    check_states(rescale)


def check_closed(rescale: Rescale) -> None:
    assert rescale.end is not None
    assert rescale.end >= rescale.start
    assert rescale.terminated_reason is not None
    assert rescale.terminal_state is rescale.terminated_reason.terminal_state
    assert rescale.states
    assert rescale.states[-1].left == rescale.end
    assert rescale.downtime is None or rescale.downtime.total_seconds() >= 0
    check_states(rescale)


def check_states(rescale: Rescale) -> None:
    """They follow each other without gaps, from the start on unless there were too many."""
    assert len(rescale.states) <= MAX_STATES
    assert all(after.entered == before.left for before, after in pairwise(rescale.states))
    assert len(rescale.states) in (0, MAX_STATES) or rescale.states[0].entered == rescale.start
    assert all(span.entered <= span.left for span in rescale.states)
    if rescale.trigger_cause is TriggerCause.INITIAL_SCHEDULE:
        assert rescale.attempt == 1
        assert len(rescale.states) == MAX_STATES or rescale.states[0].state == "Created"
