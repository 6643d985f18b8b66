"""Jobs with a rescale, and their records."""

from collections.abc import Callable
from typing import Any

from airflow_adaptive._core.scheduler.timeline import (
    Rescale,
    TerminatedReason,
    TriggerCause,
)
from tests.lab.scenario import HOPELESS, Scenario


def history(job: Scenario) -> list[Rescale]:
    """All records, the open one last."""
    closed = [step.rescale for step in job.steps if step.rescale is not None]
    under_way = job.state.timeline.rescale
    return closed if under_way is None else [*closed, under_way]


def newest(job: Scenario) -> Rescale:
    return history(job)[-1]


ScenarioBuilder = Callable[[], Scenario]


def scheduled() -> Scenario:
    return Scenario(
        lower=1, upper=4, restart_strategy={"type": "fixed-delay", "attempts": 1, "delay": 1}
    ).given_waiting()


def idle(**options: Any) -> Scenario:
    """A job that runs on all it wants, with its cooldown over."""
    job = Scenario(lower=1, upper=2, restart_strategy={"type": "fixed-delay", "attempts": 1, "delay": 1}, **options)
    return job.given_executing(2).after(40)


def required() -> Scenario:
    """More is required than there is."""
    return idle().when_requirements(1, 8)


def offered() -> Scenario:
    """More slots are available than the plan uses, and the job waits for the end of the cooldown."""
    return Scenario(lower=1, upper=8, restart_strategy="none").given_executing(2).when_slots(held=2, free=2)


def failed_over() -> Scenario:
    return idle().when_query_failed()


def redeploying() -> Scenario:
    """A failed job is deployed again."""
    return failed_over().after(1)


NO_CHANGE = TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
ENDS: dict[str, tuple[ScenarioBuilder, TriggerCause, TerminatedReason]] = {
    "first plan active": (
        lambda: scheduled().when_slots(free=4).when_slots(held=4).when_plan_activated(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.SUCCEEDED,
    ),
    "required plan active": (
        lambda: required().when_slots(held=2, free=6).after(70).when_slots(held=8).when_plan_activated(),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.SUCCEEDED,
    ),
    "larger plan active": (
        lambda: offered().after(200).when_slots(held=4).when_plan_activated(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.SUCCEEDED,
    ),
    "same plan active again": (
        lambda: redeploying().when_plan_activated(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.SUCCEEDED,
    ),
    "other requirements before the start": (
        lambda: scheduled().when_requirements(1, 2),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "other requirements again": (
        lambda: required().when_requirements(1, 9),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "other requirements while slots settle": (
        lambda: offered().when_requirements(1, 9),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "other requirements after a failure": (
        lambda: failed_over().when_requirements(1, 9),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "requirements that change nothing, in the cooldown": (
        lambda: Scenario(upper=2).given_executing(2).when_requirements(1, 8).after(31),
        TriggerCause.UPDATE_REQUIREMENT,
        NO_CHANGE,
    ),
    "slots that are gone again": (
        lambda: offered().when_slots(held=2).after(200),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        NO_CHANGE,
    ),
    "end of the input before the plan is active": (
        lambda: scheduled().when_slots(free=4).when_completed(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.JOB_FINISHED,
    ),
    "end of the input": (
        lambda: required().when_completed(),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.JOB_FINISHED,
    ),
    "suspended": (
        lambda: offered().when_suspended().when_savepoint_completed().when_driver_ended(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.JOB_FINISHED,
    ),
    "suspended after a failure": (
        lambda: failed_over().when_suspended(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.JOB_FINISHED,
    ),
    "canceled before the start": (
        lambda: scheduled().when_canceled(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.JOB_CANCELED,
    ),
    "canceled": (
        lambda: required().when_canceled(),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.JOB_CANCELED,
    ),
    "canceled while slots settle": (
        lambda: offered().when_canceled(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.JOB_CANCELED,
    ),
    "canceled after a failure": (
        lambda: failed_over().when_canceled(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.JOB_CANCELED,
    ),
    "failure without a way on": (
        lambda: required().when_query_failed(HOPELESS),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.JOB_FAILED,
    ),
    "failure that may not be restarted": (
        lambda: offered().when_driver_ended(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.JOB_FAILED,
    ),
    "no slots for the start": (
        lambda: scheduled().after(301),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.EXCEPTION_OCCURRED,
    ),
    "first plan not deployed": (
        lambda: Scenario(restart_strategy="none").given_waiting().when_slots(free=4).when_driver_ended(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.EXCEPTION_OCCURRED,
    ),
    "plan not deployed again": (
        lambda: redeploying().when_query_failed(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.EXCEPTION_OCCURRED,
    ),
}
