"""Reasons for no transition: between two transitions, the scheduler reports each reason once."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.state_transitions.steps import Step

MAX_REPORTED = 16
"""Number of reasons that are reported between two transitions, because each is a journal document."""

MAX_REASON_CHARACTERS = 80


def record_step(before: SchedulerState, step: Step) -> Step:
    """Return the step without a reason that was already reported, and with the reasons that are reported now.

    Args:
        before: state before the event.
        step: result of an event that is not outdated.
    """
    step = _without_repetition(before, step)
    reported = _reported(before, step)
    if reported == before.timeline.reported:
        return step
    return replace(step, state=replace(step.state, timeline=replace(step.state.timeline, reported=reported)))


def _without_repetition(before: SchedulerState, step: Step) -> Step:
    if step.transition is not None or step.decision is None:
        return step
    return replace(step, decision=None) if _abbreviated(step.decision.reason) in before.timeline.reported else step


def _reported(before: SchedulerState, step: Step) -> tuple[str, ...]:
    """Return the reported reasons, up to the limit, so that slots that come and go do not fill the journal."""
    reported = before.timeline.reported
    if step.transition is not None:
        return ()
    if step.decision is None or len(reported) >= MAX_REPORTED:
        return reported
    return (*reported, _abbreviated(step.decision.reason))


def _abbreviated(reason: str) -> str:
    """Return the reason, or the beginning and the end of a long reason, because every snapshot contains it."""
    if len(reason) <= 2 * MAX_REASON_CHARACTERS:
        return reason
    return f"{reason[:MAX_REASON_CHARACTERS]}...{reason[-MAX_REASON_CHARACTERS:]}"
