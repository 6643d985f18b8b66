"""Facts that the scheduler reacts to, in the past tense. Each event carries the time of its observation (aware, UTC)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.requirements import Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOffer:
    """Slots of one worker that this job holds or may take.

    Attributes:
        worker: id of the worker; "" for executors that the cluster has granted and not yet placed.
        held: number of slots of the job's own executors on the worker.
        free: number of free slots on the worker that fit an executor of this job.
        address: address of the worker as the driver knows it; "" for executors that are not yet placed.
        accepts: whether the worker takes further executors of this job, unlike one that was cordoned or decommissioned.
    """

    worker: str
    held: int = 0
    free: int = 0
    address: str = ""
    accepts: bool = True

    @property
    def total(self) -> int:
        """Number of held and free slots."""
        return self.held + self.free


REPARTITION_ERROR = "RepartitionError"
"""Class name of the error with which a driver rejects a plan because of its state (`job.state.repartition`)."""


class TimerName(StrEnum):
    """Names of the deadlines of the states."""

    RESOURCE_WAIT = "RESOURCE_WAIT"
    TRANSITION = "TRANSITION"
    FORCED_RESCALE = "FORCED_RESCALE"
    DEPLOY = "DEPLOY"
    LOCAL_RECOVERY = "LOCAL_RECOVERY"
    BACKOFF = "BACKOFF"
    STOP = "STOP"
    APPLY_REQUIREMENTS = "APPLY_REQUIREMENTS"
    SLOT_IDLE = "SLOT_IDLE"
    STANDBY = "STANDBY"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedEvent:
    """Base class of all events.

    Attributes:
        at: time of the observation.
    """

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEvent(TimedEvent):
    """Base class of the events about the driver of one epoch. An event about the driver of another epoch is outdated.

    Attributes:
        epoch: epoch of the driver.
    """

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingStarted(TimedEvent):
    """The scheduler started to schedule the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsChanged(TimedEvent):
    """The slots that this job holds or may take have changed.

    Attributes:
        offers: slots of the workers.
        standby: slots that the standby holds, and those that only a standby may take; None if the job needs no standby.
    """

    offers: tuple[SlotOffer, ...]
    standby: SlotOffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsChanged(TimedEvent):
    """New resource requirements were set; they are complete, valid and expanded (`requirements.accept`).

    Attributes:
        requirements: bounds of every vertex.
        by: requester of the requirements and the reason, human-readable; "" if unknown.
    """

    requirements: Requirements
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRedeployed(TimedEvent):
    """The job was deployed again, with a different fingerprint (`SchedulerState.deployment`)."""

    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(TimedEvent):
    """A deadline of `machine.timers` has passed. The event is outdated if the state has another version by now.

    Attributes:
        explanation: why the job has missed the deadline, as far as the cluster and the driver report it, and what to do, human-readable; "" if
            unknown.
    """

    timer: TimerName
    version: int
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmitted(DriverEvent):
    """The cluster accepted the driver of this epoch.

    Attributes:
        submission_id: id of the submission at the cluster manager.
        application_id: id of the Spark application, None until the application registers; from then on the cluster manager
            reports the granted executors.
    """

    submission_id: str
    application_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionUnanswered(DriverEvent):
    """The cluster did not answer the submission of the driver of this epoch, so the driver may exist.

    Attributes:
        reason: the error of the request, and its remedy.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnded(DriverEvent):
    """The driver of this epoch does not run, which the cluster manager has confirmed, or its lease has run out.

    Attributes:
        failure: reason of the end, used if the scheduler did not request the end.
        in_order: whether the driver has stopped its queries before its end, or had none any more.
        is_confirmed: whether its process is known to have ended; otherwise the process may still be exiting.
        is_move: whether the driver has stopped its queries because others end it, so that nothing has failed.
    """

    failure: Failure
    in_order: bool = False
    is_confirmed: bool = True
    is_move: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverHeartbeatTimedOut(DriverEvent):
    """The driver of this epoch has not reported for `driver_heartbeat_timeout`; the driver may still run."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAnnounced(DriverEvent):
    """The driver of this epoch will have to leave its machine.

    Attributes:
        reason: what the cluster manager announces, for example that its node was cordoned.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPrepared(DriverEvent):
    """The standby of this epoch can take over at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanActivated(DriverEvent):
    """The driver reports that its queries run on the plan of this version.

    Attributes:
        trigger_interval: longest trigger interval of the queries; None if unknown.
        downtime: time without a running query before this plan, as the driver measured it; None if not measured.
        vertices_read: vertices whose parallelism the script reads when it builds its queries; None if unknown.
        notice: human-readable remark about the driver for the timeline, None without one.
        cannot_repartition: why the driver cannot change the number of state partitions; "" if it can.
    """

    version: int
    trigger_interval: timedelta | None = None
    downtime: timedelta | None = None
    vertices_read: tuple[str, ...] | None = None
    notice: str | None = None
    cannot_repartition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRejected(DriverEvent):
    """The driver cannot carry out the plan of this version; its queries run on as before.

    Without running queries, the plan has too few slots for the gang of the queries, whose lower bounds the driver has reported.

    Attributes:
        failure: reason of the rejection; with `REPARTITION_ERROR` among its causes, the state cannot have the partitions of the
            plan.
    """

    version: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommitted(DriverEvent):
    """The driver of this epoch committed a micro-batch (Flink: checkpoint completed), or all its queries are between two batches.

    Attributes:
        is_idle: whether no batch was committed, because the triggers of the queries have found no data.
    """

    is_idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFailed(DriverEvent):
    """A query of the driver of this epoch failed; the driver still runs.

    Attributes:
        failure: failure of the query.
    """

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointCompleted(DriverEvent):
    """All queries of the driver of this epoch stopped at a batch boundary, as the scheduler had requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointFailed(DriverEvent):
    """The queries of the driver of this epoch could not be stopped; they still run, or they failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted(DriverEvent):
    """All queries of the driver of this epoch ended by themselves, because the input is exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(TimedEvent):
    """A user or the task requested that the job ends and is not resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRequested(TimedEvent):
    """A user or the task requested that the job stops at a batch boundary and may be resumed (stop with savepoint)."""


Event = (
    SchedulingStarted
    | SlotsChanged
    | RequirementsChanged
    | JobRedeployed
    | TimerFired
    | DriverSubmitted
    | SubmissionUnanswered
    | DriverEnded
    | DriverHeartbeatTimedOut
    | MoveAnnounced
    | DriverPrepared
    | PlanActivated
    | PlanRejected
    | BatchCommitted
    | QueryFailed
    | SavepointCompleted
    | SavepointFailed
    | JobCompleted
    | CancelRequested
    | SuspendRequested
)
