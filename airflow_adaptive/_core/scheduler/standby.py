"""The standby: a driver that is prepared while the job runs, to replace the running driver.

A job has a standby for one of three reasons. The driver of a new deployment is prepared before it replaces the running one, so that a deployment that
cannot start stops no job (`prepare_deployments`). A driver that will have to leave its machine is replaced as soon as another one is prepared. And a job
with the option `standby` always has one, so that the end of its driver costs no start. In each case, `state_transitions.go_to_deploying` lets the
standby take over instead of submitting a driver.

A standby has a higher epoch than the running driver. It runs no query of the job before the journal names that epoch, and it ends when the journal names
it no more. So what happens to a standby never changes the state of the job, except that a prepared deployment may begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import rescale_tiers, state_transitions, steps
from airflow_adaptive._core.scheduler.config.options import StandbyMode
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverEvent,
    DriverHeartbeatTimedOut,
    DriverPrepared,
    DriverSubmitted,
    Event,
    SubmissionUnanswered,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_outage, is_outage_for_all
from airflow_adaptive._core.scheduler.policies.first_batch import MAX_FAILURES
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import is_within
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Driver,
    Executing,
    RestartingLocally,
    SchedulerState,
    Standby,
    Timer,
)
from airflow_adaptive._core.scheduler.steps import Step, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

FIRST_RETRY: Final = timedelta(seconds=10)
"""Time from the first failure of a standby to the next attempt. It doubles with each further failure, until a standby takes over or has lived long."""

LAST_RETRY: Final = timedelta(minutes=5)
"""Longest time between two attempts, and the life of a prepared standby after which its failure is the first one again."""


class DeploymentStage(StrEnum):
    """How a deployment that needs a new driver takes effect, or why it does not."""

    PREPARING = "PREPARING"
    """The running driver continues until the driver of the deployment is prepared, unless no worker has room for both."""
    PREPARED = "PREPARED"
    """The driver of the deployment is prepared, and replaces the running one."""
    ENDS_FIRST = "ENDS_FIRST"
    """The running driver ends before the driver of the deployment starts: `prepare_deployments` is off, or no worker has room for both."""
    REFUSED = "REFUSED"
    """The driver of the deployment could not be prepared, and the running one continues."""
    NEXT_START = "NEXT_START"
    """`highest_rescale_tier` allows no new driver: the running one continues until it ends for another reason."""


def deployment_stage(state: SchedulerState) -> DeploymentStage | None:
    """Return the stage of the newest deployment, None if the driver, or the next one if there is none, has it."""
    if state.current_deployment == state.deployment:
        return None
    if state.options.highest_rescale_tier < Tier.DRIVER:
        return DeploymentStage.NEXT_START
    if state.options.prepare_deployments and state.deployment == state.standby.refused:
        return DeploymentStage.REFUSED
    if state.driver is None or rescale_tiers.is_to_prepare(state):
        return DeploymentStage.PREPARING
    return DeploymentStage.ENDS_FIRST if state.replacement is None else DeploymentStage.PREPARED


def is_about_standby(state: SchedulerState, event: Event) -> bool:
    """Return whether an event is about the standby, and not about the driver that the journal names."""
    driver = state.standby.driver
    return driver is not None and isinstance(event, DriverEvent) and event.epoch == driver.epoch


def timers(state: SchedulerState) -> Iterator[Timer]:
    """Yield the deadline of a standby that prepares, or the time at which the job needs one."""
    standby, current = state.standby, state.current
    if standby.driver is not None and standby.since is not None:
        if not standby.is_prepared:
            yield Timer(name=TimerName.STANDBY, due=standby.since + state.options.deploy_timeout)
        elif isinstance(current, Executing) and state.replacement is not None and _can_move(state):
            yield Timer(name=TimerName.STANDBY, due=current.since)
    elif isinstance(current, Executing) and _is_due(state):
        yield Timer(name=TimerName.STANDBY, due=standby.retry_at or current.since)


def on_timer(state: SchedulerState, event: TimerFired) -> Step:
    """Submit a standby, give up one that was not prepared in time, or let one replace a driver that has to leave its machine."""
    driver = state.standby.driver
    if driver is None:
        return _submit(state, event)
    if state.standby.is_prepared and state.plan is not None:
        return state_transitions.move(state, event, state.plan, _leaves(state))
    text = f"it was not prepared within deploy_timeout ({state.options.deploy_timeout.total_seconds():g} s)"
    failure = Failure(error_class=FailureCode.DEPLOY_TIMEOUT, message=text)
    return _failed(state, event, driver, failure, is_over=False)


def on_event(state: SchedulerState, event: Event) -> Step:
    """Record what happens to the standby."""
    standby, driver = state.standby, state.standby.driver
    match event:
        case DriverSubmitted(submission_id=submission, application_id=application) if driver is not None:
            known = replace(driver, submission_id=submission, application_id=application)
            return steps.stay(_with(state, driver=known), event)
        case SubmissionUnanswered(reason=reason):
            text = f"whether the cluster accepted the standby is unknown: {reason}"
            return steps.stay(state, event, Reason(ReasonCode.SUBMISSION_UNANSWERED, text))
        case DriverPrepared() if driver is not None and not standby.is_prepared:
            text = f"the driver of epoch {driver.epoch} is prepared, and can replace the running one at once"
            prepared = _with(state, is_prepared=True, counted=0, retry_at=None, settled=driver.deployment)
            return steps.stay(prepared, event, Reason(ReasonCode.DRIVER_PREPARED, text))
        case DriverEnded(failure=failure) if driver is not None:
            return _failed(state, event, driver, failure, is_over=True)
        case DriverHeartbeatTimedOut(failure=failure) if driver is not None:
            return _failed(state, event, driver, failure, is_over=False)
        case _:
            return steps.stay(state, event)


def without_useless(step: Step, event: Event) -> Step:
    """Return the step without a standby that is of no use any more, and without slots of the standby that the job needs.

    It is of no use if the job ends, needs one of another deployment, has a newer driver, or if the driver for which it was prepared may stay.
    """
    state, driver = step.state, step.state.standby.driver
    if driver is None:
        return step
    can_take_over = not state.traits.ends and driver.deployment == _wanted(state) and driver.epoch > state.epoch
    if can_take_over and (state.options.standby is not StandbyMode.NONE or _is_short_lived(state, driver.deployment)):
        return replace(step, state=_with(state, slots=0)) if _must_release(state) else step
    settled = "" if state.standby.is_prepared else state.standby.settled
    ended = _with(state, driver=None, is_prepared=False, settled=settled)
    return replace(step, state=ended, commands=(*step.commands, state_transitions.kill(driver, event)))


def holds_executors(state: SchedulerState) -> bool:
    """Return whether the standby keeps executors while it waits."""
    standby = state.standby
    return standby.driver is not None and standby.slots > 0 and _keeps_executors(state, standby.driver.deployment)


def prepared_deployment(state: SchedulerState) -> str:
    """Return the deployment of the standby, or of the next one if there is none."""
    return _wanted(state) if state.standby.driver is None else state.standby.driver.deployment


def demanded_slots(state: SchedulerState) -> tuple[int, int, int] | None:
    """Return the slots that the standby has requested, and the fewest and the most with which one can replace the driver; None if none is needed."""
    plan, standby = state.plan, state.standby
    if plan is None or state.driver is None or state.traits.ends or not (standby.driver or _is_needed(state)):
        return None
    requested = standby.slots if standby.driver and (not standby.is_prepared or holds_executors(state)) else 0
    if has_to_move(state):
        return requested, max(plan.slots - _kept_slots(state), 0), plan.slots
    return requested, 0, 0 if standby.driver else _wanted_slots(state)


def _leaves(state: SchedulerState) -> str:
    """Return why the running driver will have to leave its machine, "" if it may stay."""
    return "" if state.driver is None else state.driver.leaves


def has_to_move(state: SchedulerState) -> bool:
    """Return whether the driver has worked, will have to leave its machine, and has a plan with which another one can continue."""
    driver, plan = state.driver, state.plan
    is_leaving = driver is not None and bool(driver.leaves) and driver.has_worked
    return is_leaving and plan is not None and is_within(plan.parallelism, state.requirements)


def _can_move(state: SchedulerState) -> bool:
    """Return whether the driver has to move, and its plan fits on free slots, on those of the standby, and on those that the driver gives back.

    Without room elsewhere, the driver stays until it gets SIGTERM.
    """
    held = 0 if state.standby.driver is None or state.standby_offer is None else state.standby_offer.held
    elsewhere = _free_slots(state) + held + _kept_slots(state)
    return has_to_move(state) and state.plan is not None and state.plan.slots <= elsewhere


def _kept_slots(state: SchedulerState) -> int:
    """Return the slots of the executors that are on other machines than those that end, so that another driver can have them."""
    return sum(offer.held for offer in state.offers if offer.accepts)


def _free_slots(state: SchedulerState) -> int:
    """Return the slots that a standby may take. Only the one of a driver that has to move takes what the job may grow by."""
    of_job = sum(offer.free for offer in state.offers) if _leaves(state) else 0
    return of_job + (0 if state.standby_offer is None else state.standby_offer.free)


def _must_release(state: SchedulerState) -> bool:
    """Return whether the job needs the slots of the standby, or others have taken slots that a prepared standby still requests."""
    standby, plan, offer = state.standby, state.plan, state.standby_offer
    if plan is None or not standby.slots or not isinstance(state.current, Deploying | Executing | RestartingLocally):
        return False
    is_missing = not _leaves(state) and plan.slots > sum(it.total for it in state.offers)
    return is_missing or (standby.is_prepared and offer is not None and offer.total < standby.slots)


def _is_new(state: SchedulerState, deployment: str) -> bool:
    """Return whether a standby of a deployment has another one than the newest driver."""
    return state.proved.deployment != deployment


def _wanted(state: SchedulerState) -> str:
    """Return the deployment of which the job may need a standby: the newest one, unless it is refused."""
    return state.next_deployment if state.deployment == state.standby.refused else state.deployment


def _is_needed(state: SchedulerState) -> bool:
    driver = state.driver
    if driver is None or driver.deployment != state.next_deployment or rescale_tiers.is_to_prepare(state):
        return rescale_tiers.is_to_prepare(state)
    return has_to_move(state) or (state.options.standby is not StandbyMode.NONE and driver.has_worked)


def _is_due(state: SchedulerState) -> bool:
    """Return whether to submit a standby: one is needed, its slots are known, and they and a worker suffice if it is for a move alone."""
    offer = state.standby_offer
    is_for_move = state.options.standby is StandbyMode.NONE and not rescale_tiers.is_to_prepare(state)
    return offer is not None and _is_needed(state) and (not is_for_move or (offer.accepts and _can_move(state)))


def _is_short_lived(state: SchedulerState, deployment: str) -> bool:
    """Return whether a standby of a deployment is to take over now or soon."""
    return state.driver is None or _is_new(state, deployment) or bool(_leaves(state))


def _keeps_executors(state: SchedulerState, deployment: str) -> bool:
    return _is_short_lived(state, deployment) or state.options.standby is StandbyMode.DRIVER_AND_EXECUTORS


def _wanted_slots(state: SchedulerState) -> int:
    """Return the slots for a standby that is to be submitted: those of the plan if it keeps them, or one to warm up."""
    return state.plan.slots if state.plan is not None and _keeps_executors(state, _wanted(state)) else 1


def _submit(state: SchedulerState, event: Event) -> Step:
    """Submit a standby, with executors on free slots only: at most those of the plan, or one to warm up."""
    driver = Driver(epoch=state.last_epoch + 1, deployment=_wanted(state))
    slots = min(_wanted_slots(state), _free_slots(state))
    submitted = _with(state, driver=driver, since=event.at, is_prepared=False, epoch=driver.epoch, slots=slots)
    submit = SubmitDriver(
        epoch=driver.epoch, slots=slots, cause=type(event).__name__, is_standby=True, deployment=driver.deployment
    )
    text = (
        "the driver of the new deployment is being prepared, while the job continues"
        if _is_new(state, driver.deployment)
        else "a standby is being prepared, which can replace the driver"
    )
    return replace(steps.stay(submitted, event, Reason(ReasonCode.STANDBY_SUBMITTED, text)), commands=(submit,))


def _failed(state: SchedulerState, event: Event, driver: Driver, failure: Failure, *, is_over: bool) -> Step:
    """Record a failure: the next attempt follows later, unless no attempt can help, or the cluster has no room."""
    standby, is_new = state.standby, _is_new(state, driver.deployment)
    has_lived = standby.is_prepared and standby.since is not None and event.at - standby.since >= LAST_RETRY
    failures = 1 if has_lived else standby.failures + 1
    wait = min(FIRST_RETRY * 2 ** min(failures - 1, 5), LAST_RETRY)
    after = _with(state, driver=None, is_prepared=False, settled="", failures=failures, retry_at=event.at + wait)
    text = f"the standby could not be prepared: {failure.summary}; the next attempt is in {wait.total_seconds():g} s"
    if is_new and failure.error_class == FailureCode.NO_ROOM_FOR_STANDBY:
        after = _with(after, settled=driver.deployment, failures=0, retry_at=None)
        text = f"{failure.message}: the running driver ends before the driver of the new deployment starts"
    elif is_new:
        text = f"the driver of the new deployment could not be prepared: {failure.summary}; the job continues with the running driver"
        is_outside = is_outage(failure)
        if isinstance(state.current, Executing):
            # While the job runs, no outage prevents the start of another driver, or silences that one alone, again and again.
            is_outside = is_outage_for_all(failure) and failure.error_class != FailureCode.DRIVER_HEARTBEAT_TIMEOUT
        counted = state.standby.counted + (not is_outside)
        after = _with(after, counted=counted)
        if counted >= MAX_FAILURES or not state_transitions.can_recover(state, failure):
            after = _with(after, refused=driver.deployment, failures=0, counted=0, retry_at=None)
            text = f"{text}: correct the deployment, and clear the task"
    step = steps.stay(after, event, Reason(ReasonCode.PREPARATION_FAILED, text))
    return step if is_over else replace(step, commands=(state_transitions.kill(driver, event),))


def _with(state: SchedulerState, **changes: object) -> SchedulerState:
    """Return the state with changes of the standby."""
    standby: Standby = replace(state.standby, **changes)  # type: ignore[arg-type]  # the names are those of its fields
    return replace(state, standby=standby)
