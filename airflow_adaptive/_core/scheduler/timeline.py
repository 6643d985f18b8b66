"""What happened and why: transitions, decisions with or without a transition, and rescales from cause to end.

A rescale is recorded as in Flink's rescale history (FLIP-495, FLIP-487): the names of causes and reasons are Flink's, and
`history.rescales` opens and closes a record at the same moments as Flink. Flink has no tier, downtime and failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism


class ReasonCode(StrEnum):
    """Why the scheduler changed its state, or did not; the text of a reason adds the details."""

    SCHEDULING_STARTED = "SCHEDULING_STARTED"
    """The scheduler starts to schedule the job."""
    REQUIREMENTS_CHANGED = "REQUIREMENTS_CHANGED"
    """New resource requirements take effect."""
    REQUIREMENTS_PENDING = "REQUIREMENTS_PENDING"
    """New resource requirements take effect after `slot_request_max_interval`."""
    REQUIREMENTS_UNCHANGED = "REQUIREMENTS_UNCHANGED"
    """The requested resource requirements equal the current ones."""
    POLICY_DRY_RUN = "POLICY_DRY_RUN"
    """A rescale policy in a dry run would set other bounds."""
    POLICY_FAILED = "POLICY_FAILED"
    """The rescale policy is not followed, or lost its memory."""
    JOB_DIRECTORY_UNAVAILABLE = "JOB_DIRECTORY_UNAVAILABLE"
    """The loop cannot use the job directory, or can use it again."""
    AIRFLOW_UNAVAILABLE = "AIRFLOW_UNAVAILABLE"
    """Airflow's API server or its metadata database does not answer, or answers again. The job continues."""
    REACTIVE_MODE = "REACTIVE_MODE"
    """A job in reactive mode ignores resource requirements."""
    JOB_REDEPLOYED = "JOB_REDEPLOYED"
    """The job was deployed again with a different configuration."""
    SLOTS_AVAILABLE = "SLOTS_AVAILABLE"
    """The available slots allow a start or a different parallelism."""
    SLOTS_PENDING = "SLOTS_PENDING"
    """The job waits for slots that it needs and does not hold yet."""
    SUBMISSION_UNANSWERED = "SUBMISSION_UNANSWERED"
    """The cluster did not answer the submission of a driver, so the driver may exist."""
    SLOTS_LOST = "SLOTS_LOST"
    """The job lost slots of its plan."""
    EXECUTORS_DECOMMISSIONED = "EXECUTORS_DECOMMISSIONED"
    """An administrator takes executors from the job or holds its application, or does not any more."""
    SLOTS_RECOVERED = "SLOTS_RECOVERED"
    """The slots of the plan are back after a loss."""
    SLOTS_IDLE = "SLOTS_IDLE"
    """Slots that the plan does not use return to the cluster after `slot_idle_timeout`."""
    BELOW_LOWER_BOUND = "BELOW_LOWER_BOUND"
    """The available slots are fewer than the lower bounds require."""
    BELOW_MINIMUM_INCREASE = "BELOW_MINIMUM_INCREASE"
    """The possible increase is smaller than `min_parallelism_increase`."""
    COOLDOWN = "COOLDOWN"
    """A rescale waits for the end of the cooldown (`scaling_interval_min`)."""
    STABILIZATION = "STABILIZATION"
    """A start or a rescale waits for the end of the stabilization timeout."""
    BATCH_BOUNDARY = "BATCH_BOUNDARY"
    """A rescale waits for a committed batch, or for `max_trigger_delay`."""
    FORCED_RESCALE = "FORCED_RESCALE"
    """`scaling_interval_max` has passed, which forces a rescale below the minimum increase."""
    NO_PARALLELISM_CHANGE = "NO_PARALLELISM_CHANGE"
    """A forced rescale would not change the parallelism any more."""
    TIER_NOT_ALLOWED = "TIER_NOT_ALLOWED"
    """The rescale needs a tier above `highest_rescale_tier`."""
    PLAN_ACTIVATED = "PLAN_ACTIVATED"
    """The driver runs the plan."""
    PLAN_REJECTED = "PLAN_REJECTED"
    """The driver cannot carry out the plan."""
    RESOURCE_WAIT_TIMEOUT = "RESOURCE_WAIT_TIMEOUT"
    """`resource_wait_timeout` has passed."""
    DEPLOY_TIMEOUT = "DEPLOY_TIMEOUT"
    """`deploy_timeout` has passed before the driver activated the plan."""
    LOCAL_RECOVERY_TIMEOUT = "LOCAL_RECOVERY_TIMEOUT"
    """`local_recovery_timeout` has passed before the lost slots came back."""
    STOP_TIMEOUT = "STOP_TIMEOUT"
    """`stop_timeout` has passed before the driver stopped, or the driver could not end a batch."""
    QUERY_FAILED = "QUERY_FAILED"
    """A query failed."""
    DRIVER_ENDED = "DRIVER_ENDED"
    """The driver does not run any more."""
    DRIVER_MOVED = "DRIVER_MOVED"
    """Others end the driver, for example to drain its node: its queries have ended at a batch boundary, and another driver continues at once."""
    MOVE_ANNOUNCED = "MOVE_ANNOUNCED"
    """The driver will have to leave its machine, and moves if its plan has room elsewhere; or it may stay after all."""
    STANDBY_SUBMITTED = "STANDBY_SUBMITTED"
    """A driver is being prepared that can replace the running one."""
    DRIVER_PREPARED = "DRIVER_PREPARED"
    """The driver that is to replace the running one is prepared."""
    PREPARATION_FAILED = "PREPARATION_FAILED"
    """The driver that is to replace the running one could not be prepared. The job continues."""
    DRIVER_HEARTBEAT_TIMED_OUT = "DRIVER_HEARTBEAT_TIMED_OUT"
    """The driver has not reported for `driver_heartbeat_timeout`, or its lease has run out."""
    NOT_RECOVERABLE = "NOT_RECOVERABLE"
    """A restart cannot help against the failure."""
    NO_FIRST_BATCH = "NO_FIRST_BATCH"
    """The same failure has occurred `max_failures_before_first_batch` times, and no batch was ever committed with the deployment."""
    RESTARTS_EXHAUSTED = "RESTARTS_EXHAUSTED"
    """The restart strategy allows no more restarts."""
    SAVEPOINT_COMPLETED = "SAVEPOINT_COMPLETED"
    """All queries stopped at a batch boundary."""
    SAVEPOINT_FAILED = "SAVEPOINT_FAILED"
    """The queries could not be stopped at a batch boundary."""
    JOB_COMPLETED = "JOB_COMPLETED"
    """All queries have ended by themselves."""
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    """A user or the task requested that the job is canceled."""
    SUSPEND_REQUESTED = "SUSPEND_REQUESTED"
    """A user or the task requested that the job is suspended."""
    LOOP_RESTARTED = "LOOP_RESTARTED"
    """The control loop failed and was restarted."""
    LAG_EXCEEDED = "LAG_EXCEEDED"
    """The lag behind the sources has exceeded `lag_alert_threshold`, or the brokers will delete unread rows soon."""
    LAG_RECOVERED = "LAG_RECOVERED"
    """The lag behind the sources does not exceed `lag_alert_threshold` any more, or the brokers will not delete unread rows soon."""
    SCALE_UP_CONTROLLER_FAILED = "SCALE_UP_CONTROLLER_FAILED"
    """The job's own scale-up controller failed, and the default controller decided."""
    EVENT_OUTDATED = "EVENT_OUTDATED"
    """The event belongs to an earlier epoch or version of the state."""
    EVENT_IGNORED = "EVENT_IGNORED"
    """The event has no meaning in the current state."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: a code for programs, and a text for users.

    Attributes:
        code: code of the reason, for filters and metrics.
        text: one sentence with the details.
    """

    code: ReasonCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of the state.

    Attributes:
        at: time of the transition.
        source: name of the state before the transition.
        target: name of the state after the transition.
        version: version of the state after the transition.
        before: parallelism of the state before the transition, None without a plan.
        after: parallelism of the state after the transition, None without a plan.
        tier: rescale tier, None if the transition is not part of a rescale.
        reason_code: code of the reason, for programs.
        reason: text of the reason, for users.
    """

    at: datetime
    source: str
    target: str
    version: int
    before: Parallelism | None
    after: Parallelism | None
    tier: Tier | None = None
    reason_code: ReasonCode
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The reason why the scheduler made a transition, or none.

    Attributes:
        at: time of the decision.
        state: name of the state that decided.
        reason_code: code of the reason, for programs.
        reason: text of the reason, for users.
    """

    at: datetime
    state: str
    reason_code: ReasonCode
    reason: str


# ---- rescales -------------------------------------------------------------------------------------------------------

MAX_FAILURE_CHARACTERS = 300
"""Longest summary of the failure of a rescale."""


class TriggerCause(StrEnum):
    """The cause of a rescale (Flink: TriggerCause)."""

    INITIAL_SCHEDULE = "INITIAL_SCHEDULE"
    UPDATE_REQUIREMENT = "UPDATE_REQUIREMENT"
    NEW_RESOURCE_AVAILABLE = "NEW_RESOURCE_AVAILABLE"
    RECOVERABLE_FAILOVER = "RECOVERABLE_FAILOVER"


class TerminalState(StrEnum):
    """The result of a rescale (Flink: TerminalState)."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    IGNORED = "IGNORED"


class TerminatedReason(StrEnum):
    """The reason why a rescale ended (Flink: TerminatedReason)."""

    SUCCEEDED = "SUCCEEDED"
    EXCEPTION_OCCURRED = "EXCEPTION_OCCURRED"
    RESOURCE_REQUIREMENTS_UPDATED = "RESOURCE_REQUIREMENTS_UPDATED"
    NO_RESOURCES_OR_PARALLELISMS_CHANGE = "NO_RESOURCES_OR_PARALLELISMS_CHANGE"
    JOB_FINISHED = "JOB_FINISHED"
    JOB_FAILED = "JOB_FAILED"
    JOB_CANCELED = "JOB_CANCELED"
    JOB_FAILOVER_RESTARTING = "JOB_FAILOVER_RESTARTING"
    """Unused, as in Flink: a failover is merged into the rescale that is in progress."""

    @property
    def terminal_state(self) -> TerminalState:
        """Result of a rescale that ended for this reason."""
        match self:
            case TerminatedReason.SUCCEEDED:
                return TerminalState.COMPLETED
            case TerminatedReason.EXCEPTION_OCCURRED:
                return TerminalState.FAILED
            case _:
                return TerminalState.IGNORED


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpan:
    """Time that the scheduler spent in one state during a rescale."""

    state: str
    entered: datetime
    left: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Number of subtasks for each vertex, or number of slots for each slot sharing group.

    Attributes:
        desired: numbers by the upper bounds.
        sufficient: numbers by the lower bounds.
        before: numbers of the last active plan, None before the first.
        after: numbers of the new plan, None until the plan is made.
    """

    desired: Mapping[str, int]
    sufficient: Mapping[str, int]
    before: Mapping[str, int] | None = None
    after: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """One rescale, or one attempt at a rescale (Flink: Rescale).

    Attributes:
        number: number of the rescale, from 1, unique in the journal of a job (Flink: a UUID).
        requirements: number of the requirements that the rescale belongs to; the initial schedule and each update of the
            requirements have a new number.
        attempt: number of the rescale among the rescales with the same requirements, from 1.
        trigger_cause: cause of the rescale.
        start: time when the record was opened.
        vertices: number of subtasks for each vertex.
        groups: number of slots for each slot sharing group.
        states: states that the scheduler passed, oldest first, without gaps.
        tier: highest rescale tier that was used, None before the first.
        downtime: time without an active plan, as the driver or else the scheduler measured it; None if no plan was active
            before, or no plan is active yet.
        failure: summary of the failure, None without one.
        end: time when the rescale ended, None before.
        terminated_reason: reason why the rescale ended, None before.
        terminal_state: result of the rescale, None before.
    """

    number: int
    requirements: int
    attempt: int
    trigger_cause: TriggerCause
    start: datetime
    vertices: Amounts
    groups: Amounts
    states: tuple[StateSpan, ...] = ()
    tier: Tier | None = None
    downtime: timedelta | None = None
    failure: str | None = None
    end: datetime | None = None
    terminated_reason: TerminatedReason | None = None
    terminal_state: TerminalState | None = None

    @property
    def latest(self) -> datetime:
        """Latest time in the record."""
        return self.states[-1].left if self.states else self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What the scheduler keeps of the timeline to continue it.

    Attributes:
        number: number of the newest rescale, 0 before the first.
        requirements: number of the requirements of the newest rescale.
        attempt: attempt of the newest rescale.
        rescale: newest rescale while it is in progress, None otherwise.
        running: parallelism of the last active plan, None before the first.
        stopped: time since when no plan is active; None while a plan is active, and before the first.
        reported: reasons of decisions without a transition since the last transition; they are not reported again.
    """

    number: int = 0
    requirements: int = 0
    attempt: int = 0
    rescale: Rescale | None = None
    running: Parallelism | None = None
    stopped: datetime | None = None
    reported: tuple[str, ...] = ()
