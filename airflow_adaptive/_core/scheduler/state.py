"""States of the scheduler and their data: frozen values, which a snapshot saves as they are.

`SchedulerState` is everything that the scheduler knows about a job; its field `current` is the position in the state diagram
of FLIP-160. The version grows by one with each transition. The scheduler ignores a timer that belongs to an older version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import SlotOffer, TimerName
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, FailureRecord
from airflow_adaptive._core.scheduler.policies.first_batch import DeploymentRecord
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.restart_backoff import RestartRecord
from airflow_adaptive._core.scheduler.policies.transition_manager import TransitionManager
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive._core.scheduler.timeline import Timeline


class Outcome(StrEnum):
    """How a job ended. A job with the outcome SUSPENDED can be resumed."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parallelism and the slots that the driver must use.

    Attributes:
        version: version of the Deploying state that made the plan; the driver reports the version of its active plan.
        parallelism: number of subtasks for each vertex.
        slots: number of slots that the plan uses.
        retained_slots: number of slots that the driver may hold; slots above `slots` are idle and kept for `slot_idle_timeout`.
        query_version: version of the plan that the queries were built for; an earlier version if only executors differ (tier 0).
        state_partitions: number of partitions of the state for each slot sharing group.
    """

    version: int
    parallelism: Parallelism
    slots: int
    retained_slots: int
    query_version: int = 0
    state_partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver of the newest epoch, until the scheduler knows that the driver does not run any more.

    Attributes:
        epoch: epoch of the driver; no driver of another epoch may run a query.
        submission_id: id of the submission at the cluster manager, None until the cluster manager reports the id.
        application_id: id of the Spark application, None until the application registers.
        running: whether the driver has activated any plan.
        deployment: fingerprint of the deployment that the driver was started with (`SchedulerState.deployment`).
        vertices_read: vertices whose parallelism the script reads when it builds its queries; None while this is unknown.
        rejected: parallelism that the driver could not reach; the scheduler does not try it again until another plan is active.
        cannot_repartition: why the number of state partitions cannot change; "" if it can, as far as the driver knows.
        unanswered: why the cluster did not answer the submission; "" if it answered.
        has_worked: whether the driver has completed a trigger, which has committed a batch or found no data.
        failure: key of the newest failure after its first batch (`first_batch.key_of`), "" without one; without those that an outage may cause.
        took_over: whether it was the standby, which may have to wait for the slots of the driver before it.
        leaves: why the driver will have to leave its machine; "" if it may stay.
    """

    epoch: int
    submission_id: str | None = None
    application_id: str | None = None
    running: bool = False
    deployment: str = ""
    vertices_read: tuple[str, ...] | None = None
    rejected: Parallelism | None = None
    cannot_repartition: str = ""
    unanswered: str = ""
    has_worked: bool = False
    failure: str = ""
    took_over: bool = False
    leaves: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """The driver that is to replace the newest driver. It starts its session, builds the queries, warms up, and waits until the journal names it.

    Attributes:
        driver: the driver, None without one.
        since: time of its submission; the driver has had `deploy_timeout` to prepare.
        is_prepared: whether it can take over at once.
        failures: number of failures since a standby took over, or lived for long; each makes the wait until the next attempt longer.
        retry_at: time of the next attempt, None without a failure.
        settled: deployment that needs no further preparation, because its driver is prepared, or has no room beside the running one.
        refused: deployment whose driver could not be prepared, so that the running driver stays.
        counted: number of the failures that count against a new deployment.
        epoch: highest epoch that a standby has had, because no two drivers have the same epoch.
        slots: slots that the newest standby requests; 0 after it has released them for the job.
    """

    driver: Driver | None = None
    since: datetime | None = None
    is_prepared: bool = False
    failures: int = 0
    retry_at: datetime | None = None
    settled: str = ""
    refused: str = ""
    counted: int = 0
    epoch: int = 0
    slots: int = 0

    def tried_again(self) -> Standby:
        """Return the record without its failures, because their cause may be gone."""
        return replace(self, failures=0, counted=0, retry_at=None, refused="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The scheduler has not started to schedule the job.

    Transitions:
        WaitingForResources: SchedulingStarted
        Finished: QueryFailed, CancelRequested, SuspendRequested
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForResources:
    """The job runs no query and waits for enough slots.

    Transitions:
        Deploying: SlotsChanged, RequirementsChanged, TimerFired
        Canceling: CancelRequested
        Finished: TimerFired, QueryFailed, JobCompleted, CancelRequested, SuspendRequested

    Attributes:
        since: time when the wait began.
        manager: decides when the job starts.
        gives_up: whether `resource_wait_timeout` applies; a job that has run before waits without a limit.
        target_parallelism: parallelism of the rescale that led here, or of the plan before the first failure; reaching it counts as reaching the upper bounds.
    """

    since: datetime
    manager: TransitionManager
    gives_up: bool
    target_parallelism: Parallelism | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploying:
    """The driver has a new plan, which is not active on all its slots yet (Flink: CreatingExecutionGraph).

    Transitions:
        Executing: SlotsChanged, TimerFired, PlanActivated, PlanRejected
        Restarting: TimerFired, DriverEnded, DriverHeartbeatTimedOut, PlanRejected, QueryFailed
        StopWithSavepoint: SuspendRequested
        Canceling: CancelRequested
        Failing: TimerFired, DriverHeartbeatTimedOut, QueryFailed
        Finished: TimerFired, DriverEnded, DriverHeartbeatTimedOut, QueryFailed, JobCompleted, CancelRequested,
            SuspendRequested

    Attributes:
        since: time when the plan was made.
        plan: new plan.
        active: whether the driver runs the plan, while some of its slots have not arrived.
        tier: rescale tier that activates the plan.
        previous_plan: plan that runs until the new plan is active, and again if the driver rejects the new plan; None if no
            plan runs.
    """

    since: datetime
    plan: Plan
    active: bool = False
    tier: Tier = Tier.DRIVER
    previous_plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """The plan is active on all its slots.

    Transitions:
        Deploying: SlotsChanged, RequirementsChanged, JobRedeployed, TimerFired, BatchCommitted
        RestartingLocally: SlotsChanged, RequirementsChanged, TimerFired
        Restarting: SlotsChanged, RequirementsChanged, JobRedeployed, TimerFired, DriverEnded,
            DriverHeartbeatTimedOut, DriverPrepared, BatchCommitted, QueryFailed
        StopWithSavepoint: SuspendRequested
        Canceling: CancelRequested
        Failing: DriverHeartbeatTimedOut, QueryFailed
        Finished: DriverEnded, JobCompleted

    Attributes:
        since: time when this visit of the state, and its cooldown, began.
        plan: active plan.
        manager: decides when the job may rescale.
        forced_at: time when a rescale below the minimum increase is forced, None if no such rescale is planned.
    """

    since: datetime
    plan: Plan
    manager: TransitionManager
    forced_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartingLocally:
    """The job lost slots of its plan; Spark runs their tasks again, and the cluster may replace the slots (FLIP-160).

    Transitions:
        Deploying: TimerFired
        Executing: SlotsChanged, TimerFired
        Restarting: TimerFired, DriverEnded, DriverHeartbeatTimedOut, QueryFailed
        StopWithSavepoint: SuspendRequested
        Canceling: CancelRequested
        Failing: DriverHeartbeatTimedOut, QueryFailed
        Finished: DriverEnded, JobCompleted

    Attributes:
        since: time of the loss.
        plan: active plan.
    """

    since: datetime
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    """The job changes to another plan, after a failure or for a rescale.

    Transitions:
        WaitingForResources: TimerFired
        Deploying: TimerFired
        Executing: TimerFired
        StopWithSavepoint: SuspendRequested
        Canceling: CancelRequested
        Finished: JobCompleted, CancelRequested, SuspendRequested

    Attributes:
        since: time when the restart began.
        plan: plan that ran before the restart.
        target_parallelism: parallelism of the rescale, None after a failure.
        in_place: whether the driver stays alive; otherwise the driver stops first.
        failure: failure that caused the restart, None for a rescale.
        backoff: delay before the restart, which begins at `stopped_at`.
        stopped_at: time when everything that must stop had stopped, None until then.
        stop_deadline: time when the scheduler kills a driver that has not stopped.
        previous_plan: plan that runs until the next plan is active, None if no plan runs.
        killed: whether the driver was killed, because it did not stop in time.
        lost: failure of a driver that ended by itself during a rescale, None otherwise.
        is_move: whether the driver leaves its machine, and ends its batch however long that takes: nothing has a deadline while it writes its status.
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
    killed: bool = False
    lost: Failure | None = None
    is_move: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWithSavepoint:
    """The queries stop at a batch boundary, then the job is suspended.

    Transitions:
        Executing: SavepointFailed
        Restarting: DriverEnded, DriverHeartbeatTimedOut, QueryFailed, SavepointCompleted, SavepointFailed
        Canceling: CancelRequested
        Failing: DriverHeartbeatTimedOut, QueryFailed, SavepointCompleted, SavepointFailed
        Finished: DriverEnded, JobCompleted

    Attributes:
        since: time of the request.
        plan: active plan.
        stop_deadline: time when the scheduler kills a driver that has not stopped.
        saved: whether all queries have stopped at a batch boundary.
        killed: whether the scheduler killed the driver because the queries did not stop in time.
        failure: first failure of a query during the stop, handled when the outcome of the stop is known.
    """

    since: datetime
    plan: Plan
    stop_deadline: datetime
    saved: bool = False
    killed: bool = False
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceling:
    """The driver stops, or is killed, and the job ends with the outcome CANCELED.

    Transitions:
        Finished: DriverEnded

    Attributes:
        since: time of the request.
        stop_deadline: time when the scheduler kills a driver that has not stopped.
    """

    since: datetime
    stop_deadline: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The driver stops, or is killed, and the job ends with the outcome FAILED.

    Transitions:
        Canceling: CancelRequested
        Finished: DriverEnded

    Attributes:
        since: time of the failure.
        stop_deadline: time when the scheduler kills a driver that has not stopped.
        cause: failure that ended the job.
    """

    since: datetime
    stop_deadline: datetime
    cause: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The job has ended.

    Attributes:
        since: time of the end.
        outcome: how the job ended.
        cause: failure that ended the job, None without one.
        stop_deadline: time when the scheduler kills a driver that still runs.
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
class StateTraits:
    """What the engine must know about a state, beside the events that the state handles.

    Attributes:
        ends: whether the job stops or has ended: its policy is not consulted, and a new attempt starts the job again after its end.
        demands_slots: whether the job can use executors beyond its plan.
    """

    ends: bool = False
    demands_slots: bool = True


_SCHEDULED: Final = StateTraits()
_ENDING: Final = StateTraits(ends=True, demands_slots=False)

TRAITS: Final[Mapping[type, StateTraits]] = {
    Created: StateTraits(demands_slots=False),
    WaitingForResources: _SCHEDULED,
    Deploying: _SCHEDULED,
    Executing: _SCHEDULED,
    RestartingLocally: _SCHEDULED,
    Restarting: _SCHEDULED,
    StopWithSavepoint: _ENDING,
    Canceling: _ENDING,
    Failing: _ENDING,
    Finished: _ENDING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A deadline of a state, derived from the state, so that a loop that continues the job knows the deadline."""

    name: TimerName
    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequirements:
    """Accepted requirements that take effect later, together with requirements that follow closely (FLIP-370, `slot.request.max-interval`).

    Attributes:
        requirements: newest requirements.
        due: time when the requirements take effect.
        by: requester of the requirements (`RequirementsChanged.by`).
    """

    requirements: Requirements
    due: datetime
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """Everything that the scheduler knows about one job.

    Attributes:
        job: graph of the job.
        options: options of the job.
        requirements: current bounds of every vertex.
        pending_requirements: requirements that take effect next, None if there are none.
        current: position in the state diagram, with its data.
        deployment: fingerprint of the code, arguments, properties and sizes of the newest deployment.
        version: number of transitions.
        epoch: epoch of the newest driver, 0 before the first driver.
        driver: newest driver, None if no driver can be running.
        standby: driver that is to replace the newest one.
        offers: slots of the last observation.
        standby_offer: slots of the standby in the last observation (`SlotsChanged.standby`).
        restarts: record of the restart strategy.
        was_accepted: whether the cluster manager has ever accepted a driver.
        has_run: whether any plan was active.
        num_restarts: number of restarts, including rescales (Flink's metric `numRestarts`).
        num_rescales: number of restarts without a failure.
        trigger_interval: longest trigger interval of the queries as the driver reports it, None while unknown.
        proved: what the deployment of the newest driver has proved, and its equal failures.
        failures: newest `failure_history_size` failures, oldest first.
        timeline: rescale that is in progress, and the reported reasons of decisions.
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
    was_accepted: bool = False
    has_run: bool = False
    num_restarts: int = 0
    num_rescales: int = 0
    pending_requirements: PendingRequirements | None = None
    trigger_interval: timedelta | None = None
    proved: DeploymentRecord = field(default_factory=DeploymentRecord)
    failures: tuple[FailureRecord, ...] = ()
    timeline: Timeline = field(default_factory=Timeline)
    standby: Standby = field(default_factory=Standby)
    standby_offer: SlotOffer | None = None

    @property
    def name(self) -> str:
        """Name of the current state, as in FLIP-160."""
        return type(self.current).__name__

    @property
    def traits(self) -> StateTraits:
        """Traits of the current state."""
        return TRAITS[type(self.current)]

    @property
    def held_slots(self) -> int:
        """Number of slots of the executors of the job."""
        return sum(offer.held for offer in self.offers)

    @property
    def available_slots(self) -> int:
        """Number of slots that the job holds, is offered, or gets from its standby, unless the driver has to move to them."""
        own = sum(offer.total for offer in self.offers)
        if self.standby_offer is None or self.driver is None or self.driver.leaves:
            return own
        return own + self.standby_offer.held

    @property
    def last_epoch(self) -> int:
        """The highest epoch of all drivers of the job."""
        return max(self.epoch, self.standby.epoch)

    @property
    def is_withheld(self) -> bool:
        """Whether no driver starts with the newest deployment, because it has to be prepared first, or is refused, and the one before it works."""
        options, proved, standby = self.options, self.proved, self.standby
        may_wait = options.prepare_deployments and options.highest_rescale_tier >= Tier.DRIVER
        is_unproven = self.deployment not in (proved.deployment, standby.settled)
        return may_wait and is_unproven and (proved.works or self.deployment == standby.refused)

    @property
    def next_deployment(self) -> str:
        """The deployment with which the next driver starts: the newest one, unless it is withheld."""
        return self.proved.deployment if self.is_withheld else self.deployment

    @property
    def current_deployment(self) -> str:
        """The deployment of the newest driver, or of the next one if there is none."""
        return self.next_deployment if self.driver is None else self.driver.deployment

    @property
    def replacement(self) -> Driver | None:
        """The prepared driver that can replace the newest driver at once; None without one."""
        driver = self.standby.driver
        is_next = driver is not None and driver.deployment == self.next_deployment
        return driver if is_next and self.standby.is_prepared else None

    @property
    def plan(self) -> Plan | None:
        """The active plan or the plan that is being deployed, None in states without a plan."""
        return getattr(self.current, "plan", None)
