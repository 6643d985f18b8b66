"""The scheduler's states and their data: frozen values that are saved as they are.

`SchedulerState` is everything the scheduler remembers; its `current` says where it stands in FLIP-160's diagram. The
version grows by one with each transition, and what belongs to an older version is ignored when it arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.events import SlotOffer, TimerName
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.policies.failure_handling import Failure, FailureRecord
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.policies.restart_backoff import RestartRecord
from airflow_adaptive.scheduler.policies.transition_manager import TransitionManager
from airflow_adaptive.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive.scheduler.timeline import Timeline


class Outcome(StrEnum):
    """How a job ended; SUSPENDED may be resumed."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the driver is to run.

    Attributes:
        version: of the Deploying state that made it; the driver reports the version in force.
        parallelism: subtasks per vertex.
        slots: slots that this occupies.
        hold: slots that the driver may hold: those above `slots` are idle, and kept for `slot_idle_timeout`.
        built: version of the plan that the queries are built for: an earlier one if only the executors differ (tier 0).
        state_partitions: partitions of the state, by slot sharing group.
    """

    version: int
    parallelism: Parallelism
    slots: int
    hold: int
    built: int = 0
    state_partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver of the newest epoch, until it is verified dead.

    Attributes:
        epoch: no driver of another epoch may run a query.
        submission_id: the cluster's name for it, None until the cluster told.
        application_id: the cluster's name for its application, None until that has registered.
        running: whether a plan was ever in force on it.
        deployment: that it was started with (`SchedulerState.deployment`).
        reads: vertices whose parallelism its script asks for when it builds its queries; None while that is unknown.
        refused: parallelism that it could not be brought to: it is not tried again before another one was in force.
        keeps_state: whether it has found that its state can't be repartitioned.
    """

    epoch: int
    submission_id: str | None = None
    application_id: str | None = None
    running: bool = False
    deployment: str = ""
    reads: tuple[str, ...] | None = None
    refused: Parallelism | None = None
    keeps_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """Nothing has happened yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForResources:
    """The job starts when enough slots have been there for long enough.

    Attributes:
        since: when the wait began.
        manager: decides when.
        gives_up: whether `resource_wait_timeout` holds; a job that has run before waits without end.
        target_parallelism: parallelism that a rescale restarted the job for: reaching it is as good as all that is desired.
    """

    since: datetime
    manager: TransitionManager
    gives_up: bool
    target_parallelism: Parallelism | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploying:
    """A plan was handed out; it is not in force on all its slots yet (Flink: CreatingExecutionGraph).

    Attributes:
        since: when it was handed out.
        plan: that is to run.
        active: the driver runs it, but slots of it have not arrived yet.
        tier: rung of the rescale ladder by which it comes into force.
        previous_plan: plan that runs until then, and after all if the driver can't carry this one out; None if none runs.
    """

    since: datetime
    plan: Plan
    active: bool = False
    tier: Tier = Tier.DRIVER
    previous_plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """The plan is in force.

    Attributes:
        since: when this visit, and with it the cooldown, began.
        plan: what runs.
        manager: decides when a change may be acted on.
        forced_at: when a change below the minimal increase is forced, None if no such check is planned.
    """

    since: datetime
    plan: Plan
    manager: TransitionManager
    forced_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartingLocally:
    """Slots of the plan were lost; Spark re-runs their tasks, the cluster may replace them (FLIP-160, future work)."""

    since: datetime
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    """The job is on its way to another plan, after a failure or for a rescale.

    Attributes:
        since: when it began.
        plan: that ran before.
        target_parallelism: parallelism that a rescale is for, None after a failure.
        in_place: the driver lives on; else it is stopped first.
        failure: that led here, None for a rescale.
        backoff: delay that starts when all has stopped.
        stopped_at: when all had stopped that must stop, None until then.
        stop_deadline: when a driver that has not stopped is killed (again).
        previous_plan: plan that runs on until another one is in force, None if none does.
    """

    since: datetime
    plan: Plan
    target_parallelism: Parallelism | None
    in_place: bool
    failure: Failure | None
    backoff: timedelta
    stopped_at: datetime | None
    stop_deadline: datetime
    previous_plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWithSavepoint:
    """The queries stop at a batch boundary, then the job is suspended.

    Attributes:
        since: when it was asked.
        plan: that runs.
        stop_deadline: when a driver that has not stopped is killed (again).
        saved: the queries have stopped at a boundary.
        killed: the driver was killed because it did not.
        failure: of a query in the meantime; decided on when the outcome of the stop is known.
    """

    since: datetime
    plan: Plan
    stop_deadline: datetime
    saved: bool = False
    killed: bool = False
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceling:
    """The driver stops at a batch boundary, or is killed; then the job is CANCELED."""

    since: datetime
    stop_deadline: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """There is no way on: the driver stops, or is killed; then the job is FAILED."""

    since: datetime
    stop_deadline: datetime
    cause: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end.

    Attributes:
        since: when.
        outcome: how.
        cause: why it failed, None otherwise.
        stop_deadline: when a driver that still lives is killed (again).
    """

    since: datetime
    outcome: Outcome
    cause: Failure | None
    stop_deadline: datetime


Current = (
    Created
    | WaitingForResources
    | Deploying
    | Executing
    | RestartingLocally
    | Restarting
    | StopWithSavepoint
    | Canceling
    | Failing
    | Finished
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A deadline of a state; it is derived from the state, so a restarted loop knows it."""

    name: TimerName
    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Requirements that were accepted and wait for others that may follow at once (FLIP-370, slot.request.max-interval).

    Attributes:
        requirements: the newest.
        due: when they come into force.
        by: whose they are, as `RequirementsChanged` has it.
    """

    requirements: Requirements
    due: datetime
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """Everything the scheduler remembers of one job.

    Attributes:
        job: its graph.
        options: its options.
        requirements: bounds in force, complete.
        declaration: requirements that come into force next, None if there are none.
        current: where it stands.
        deployment: fingerprint of what a driver is started with now: code, arguments, properties, sizes.
        version: grows by one with each transition.
        epoch: of the newest driver, 0 before the first.
        driver: the newest driver until it is verified dead.
        offers: slots as last observed.
        restarts: memory of the restart strategy.
        has_run: whether a plan was ever in force.
        num_restarts: restarts so far, rescales included (Flink's metric).
        num_rescales: of them without a failure.
        trigger_interval: of the job's queries as last reported, None while unknown.
        failures: the newest, as many as `failure_history_size`, oldest first.
        timeline: the rescale under way, and what was told of decisions not to move.
    """

    job: JobGraph
    options: Options
    requirements: Requirements
    current: Current
    deployment: str = ""
    version: int = 0
    epoch: int = 0
    driver: Driver | None = None
    offers: tuple[SlotOffer, ...] = ()
    restarts: RestartRecord = field(default_factory=RestartRecord)
    has_run: bool = False
    num_restarts: int = 0
    num_rescales: int = 0
    declaration: Declaration | None = None
    trigger_interval: timedelta | None = None
    failures: tuple[FailureRecord, ...] = ()
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def name(self) -> str:
        """Name of the current state, as in FLIP-160."""
        return type(self.current).__name__

    @property
    def held_slots(self) -> int:
        """Slots of the job's own executors."""
        return sum(offer.held for offer in self.offers)

    @property
    def available_slots(self) -> int:
        """Slots that the job holds or could have now."""
        return sum(offer.held + offer.free for offer in self.offers)

    @property
    def plan(self) -> Plan | None:
        """The plan in force or being deployed, None in states without one."""
        return getattr(self.current, "plan", None)
