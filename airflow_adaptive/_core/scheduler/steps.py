"""Steps: the result of one event with its commands, how to stay in a state, and how to enter another state.

A command to the cluster is idempotent within its epoch. A running driver needs no command: the driver reads its directive from the journal
(`_engine.directive`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    Event,
    JobRedeployed,
    PlanActivated,
    RequirementsChanged,
    SlotsChanged,
    TimerFired,
)
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import Current, Plan, SchedulerState
from airflow_adaptive._core.scheduler.timeline import Decision, Reason, ReasonCode, Rescale, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitDriver:
    """Start the driver of this epoch.

    Attributes:
        epoch: epoch of the driver; the driver may run queries only while the journal names this epoch.
        slots: number of executor cores that the driver starts with; a standby may start without any.
        cause: name of the event that led to the command.
        is_standby: whether the driver waits until the journal names its epoch.
        deployment: fingerprint of the deployment to start.
    """

    epoch: int
    slots: int
    cause: str
    is_standby: bool = False
    deployment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDriver:
    """Kill the driver of this epoch.

    Attributes:
        epoch: epoch of the driver.
        submission_id: id of the submission, None if the cluster manager never reported the id.
        cause: name of the event that led to the command.
    """

    epoch: int
    submission_id: str | None
    cause: str


Command = SubmitDriver | KillDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event led to.

    Attributes:
        state: new state of the scheduler.
        commands: commands to the cluster, in order.
        transition: change of the state, None if the state stays.
        decision: reason of the transition, or of no transition; None if the event needs no explanation.
        rescale: rescale that ended with this step, None otherwise.
    """

    state: SchedulerState
    commands: tuple[Command, ...] = ()
    transition: Transition | None = None
    decision: Decision | None = None
    rescale: Rescale | None = None


def stay(state: SchedulerState, event: Event, reason: Reason | None = None) -> Step:
    """Stay in the state, with a reason if the event needs an explanation."""
    return Step(state=state, decision=None if reason is None else _decision(state, event, reason))


def ignore(state: SchedulerState, event: Event) -> Step:
    """Stay in the state, because the event has no meaning in this state."""
    match event:
        case SlotsChanged() | BatchCommitted() | PlanActivated():
            return stay(state, event)
        case RequirementsChanged():
            text = f"the requirements are recorded, and nothing changes in the state {state.name}"
            return stay(state, event, Reason(ReasonCode.REQUIREMENTS_CHANGED, text))
        case JobRedeployed():
            text = f"the new deployment is recorded, and nothing changes in the state {state.name}"
            return stay(state, event, Reason(ReasonCode.JOB_REDEPLOYED, text))
        case _:
            text = f"{type(event).__name__} ignored in the state {state.name}"
            return stay(state, event, Reason(ReasonCode.EVENT_IGNORED, text))


def with_current(state: SchedulerState, **changes: Any) -> SchedulerState:
    """Return the state with other data of the current state, without a transition."""
    return replace(state, current=replace(state.current, **changes))


def enter(
    state: SchedulerState,
    event: Event,
    target: Current,
    reason: Reason,
    *,
    tier: Tier | None = None,
    commands: tuple[Command, ...] = (),
) -> Step:
    """Enter another state under the next version."""
    entered = replace(state, current=target, version=state.version + 1)
    transition = Transition(
        at=event.at,
        source=state.name,
        target=entered.name,
        version=entered.version,
        before=_parallelism(state.plan),
        after=_parallelism(entered.plan),
        tier=tier,
        reason_code=reason.code,
        reason=reason.text,
    )
    return Step(state=entered, commands=commands, transition=transition, decision=_decision(state, event, reason))


def explanation(event: TimerFired) -> str:
    """Return why a deadline was missed, as the end of a text; "" if that is unknown."""
    return f"; {event.explanation}" if event.explanation else ""


def _decision(state: SchedulerState, event: Event, reason: Reason) -> Decision:
    return Decision(at=event.at, state=state.name, reason_code=reason.code, reason=reason.text)


def _parallelism(plan: Plan | None) -> Parallelism | None:
    return None if plan is None else plan.parallelism
