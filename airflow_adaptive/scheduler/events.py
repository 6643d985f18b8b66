"""Facts that the scheduler reacts to, in the past tense; each carries when it was observed (aware UTC)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.requirements import Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOffer:
    """Slots of one worker that this job holds or could have.

    Attributes:
        worker: id of the worker; "" for executors that are granted but not yet placed.
        held: slots of the job's own executors there.
        free: slots that nobody holds and that fit an executor of this job.
        address: of the worker, as the driver knows it; "" for executors that are not yet placed.
    """

    worker: str
    held: int = 0
    free: int = 0
    address: str = ""


REPARTITION_ERROR = "RepartitionError"
"""Cause of a refusal: the name of its class in the driver (`job.state.repartition`), there with its module."""


class TimerName(StrEnum):
    """Deadlines that a state may have."""

    RESOURCE_WAIT = "RESOURCE_WAIT"
    TRANSITION = "TRANSITION"
    FORCED_RESCALE = "FORCED_RESCALE"
    DEPLOY = "DEPLOY"
    LOCAL_RECOVERY = "LOCAL_RECOVERY"
    BACKOFF = "BACKOFF"
    STOP = "STOP"
    DECLARE = "DECLARE"
    SLOT_IDLE = "SLOT_IDLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingStarted:
    """The scheduler was started."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsChanged:
    """The slots that this job holds or could have are other than before."""

    at: datetime
    offers: tuple[SlotOffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementsChanged:
    """Somebody set resource requirements; they are complete, valid and expanded (`requirements.accept`).

    Attributes:
        by: whose they are and why, for people; "" if that is not told.
    """

    at: datetime
    requirements: Requirements
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRedeployed:
    """The job was deployed anew, with another fingerprint of what its driver is started with."""

    at: datetime
    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """A deadline of `machine.timers` has come; stale if the state has another version by now."""

    at: datetime
    timer: TimerName
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmitted:
    """The cluster accepted the driver of this epoch.

    Attributes:
        submission_id: the cluster's name for it.
        application_id: the cluster's name for its application, None before that registers: from then on the cluster tells
            what the job was granted.
    """

    at: datetime
    epoch: int
    submission_id: str
    application_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnded:
    """The driver of this epoch is verified not to run (any more), or its lease has run out.

    Attributes:
        failure: why, in case nobody asked it to end.
    """

    at: datetime
    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverHeartbeatTimedOut:
    """The driver of this epoch has not reported for `driver_heartbeat_timeout`; whether it lives is unknown."""

    at: datetime
    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanActivated:
    """The driver reports that its queries run on the plan of this version.

    Attributes:
        trigger_interval: of its queries, the longest; None if unknown.
        downtime: how long the queries did nothing on their way to this plan, as the driver measured it; None if it has not.
        reads: vertices whose parallelism the script asks for when it builds its queries; None if that is unknown.
        note: what people should know of the driver, None if there is nothing.
    """

    at: datetime
    epoch: int
    version: int
    trigger_interval: timedelta | None = None
    downtime: timedelta | None = None
    reads: tuple[str, ...] | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefused:
    """The driver can't carry out the plan of this version: its queries run on as they did before.

    Attributes:
        failure: why. Caused by `REPARTITION_ERROR`, it is the state that can't have the plan's partitions.
    """

    at: datetime
    epoch: int
    version: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommitted:
    """The driver of this epoch committed a micro-batch (Flink: checkpoint completed)."""

    at: datetime
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFailed:
    """A query of the driver of this epoch failed; the driver lives.

    Attributes:
        failure: what happened.
    """

    at: datetime
    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointCompleted:
    """All queries of the driver of this epoch stopped at a batch boundary, as told."""

    at: datetime
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointFailed:
    """The queries could not be stopped as told; they still run, or failed."""

    at: datetime
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted:
    """All queries of the driver of this epoch ended by themselves: the input is exhausted."""

    at: datetime
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Somebody wants the job to end for good."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRequested:
    """A user or the task requested that the job stops at a batch boundary and may be resumed (stop with savepoint)."""

    at: datetime


Event = (
    SchedulingStarted
    | SlotsChanged
    | RequirementsChanged
    | JobRedeployed
    | TimerFired
    | DriverSubmitted
    | DriverEnded
    | DriverHeartbeatTimedOut
    | PlanActivated
    | PlanRefused
    | BatchCommitted
    | QueryFailed
    | SavepointCompleted
    | SavepointFailed
    | JobCompleted
    | CancelRequested
    | SuspendRequested
)
