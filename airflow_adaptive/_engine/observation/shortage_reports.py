"""Reports which limit of the cluster keeps a job from more slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_adaptive._core.ports import LimitKind
from airflow_adaptive._core.scheduler.history.failures import bounded
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.state import Finished
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.states.waiting_for_resources import FIX, NOT_ENOUGH_RESOURCES
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._engine.cluster.open_limits import Shortage

REMEDIES: Final[Mapping[LimitKind, str]] = {
    LimitKind.WORKERS: "add workers",
    LimitKind.QUOTA: "raise the quota",
    LimitKind.QUEUE: "raise the share of the queue",
    LimitKind.CAP: "raise the cap",
}


class ShortageReports:
    """Reports each change of the limit or of the slots once. The amounts that a limit allows change with each poll."""

    def __init__(self) -> None:
        self._reported: tuple[Shortage, int] | None = None

    def reason(self, shortage: Shortage | None, slots: int) -> Reason | None:
        """Return the reason to report, None if there is no shortage or the shortage is reported.

        Args:
            shortage: why the job gets no more executors, None if it gets all that it can use.
            slots: slots that the job holds or can have.
        """
        current = None if shortage is None else (shortage, slots)
        is_reported, self._reported = current == self._reported, current
        if shortage is None or is_reported:
            return None
        return Reason(ReasonCode.SLOTS_PENDING, describe(shortage, slots))


def describe(shortage: Shortage, slots: int) -> str:
    """Return the slots of a job, and why the job gets no more."""
    return f"{slots} slot{'' if slots == 1 else 's'}: {shortage.text}"


def name_limit(step: Step, shortage: Shortage | None) -> Step:
    """Return a step. If the job fails because its resources never came, the failure names the limit and its remedy.

    Args:
        step: step of the scheduler, which knows slots and no limits.
        shortage: why the job gets no more executors, None if the cluster has no limits.
    """
    ended, transition, decision = step.state.current, step.transition, step.decision
    if shortage is None or not isinstance(ended, Finished):
        return step
    cause = ended.cause
    if cause is None or cause.error_class != NOT_ENOUGH_RESOURCES:
        return step
    message = cause.message.replace(FIX, remedy(shortage))
    failure = Failure(error_class=cause.error_class, message=message, causes=cause.causes)
    failures = step.state.failures
    if failures and failures[-1].failure.error_class == NOT_ENOUGH_RESOURCES:
        failures = (*failures[:-1], replace(failures[-1], failure=bounded(failure)))
    return replace(
        step,
        state=replace(step.state, current=replace(ended, cause=failure), failures=failures),
        transition=None if transition is None else replace(transition, reason=message),
        decision=None if decision is None else replace(decision, reason=message),
    )


def remedy(shortage: Shortage) -> str:
    """Return why a job gets no more slots, and what to do."""
    if shortage.is_of_placement:
        return f"{shortage.text}: correct them, or let workers have the labels that they require and no other taints"
    other = "a smaller driver" if shortage.is_of_driver else "lower bounds or smaller executors"
    return f"{shortage.text}: {REMEDIES[shortage.kind]}, or declare {other}"
