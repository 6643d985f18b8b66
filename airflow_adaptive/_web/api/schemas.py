"""Bodies of the REST API. Bodies of FLIP-291 keep Flink's names.

The models of values that the scheduler has, too, read them from attributes.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import IntEnum
from inspect import cleandoc
from typing import Any, Final

from pydantic import AliasPath, BaseModel, ConfigDict, Field, with_config
from pydantic.dataclasses import dataclass as record_class

from airflow_adaptive._core.deployment import Change, Effect
from airflow_adaptive._core.protocol.documents import ExecutorReport, LatencyReport, PreparedQuery, StateSchema
from airflow_adaptive._core.protocol.sources import PartitionLag
from airflow_adaptive._core.requirements.advice import PublishedAdvice, PublishedPolicy
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._core.requirements.dry_run import Consequence
from airflow_adaptive._core.requirements.resolution import RequirementsSource
from airflow_adaptive._core.scheduler.history.rescales import Durations, RescaleSummary
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, FailureRecord
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.standby import DeploymentStage
from airflow_adaptive._core.scheduler.timeline import Amounts, Decision, Rescale, StateSpan, Transition
from airflow_adaptive._core.view import LagAlert, SlotCounts, Summary, TaskKey, Urls
from airflow_adaptive._web.data.published_state import CurrentMetrics, Document, Health, RequestRecord

# ---- the records of a job -------------------------------------------------------------------------------------------


def _describe(schema: dict[str, Any], kind: type[Any]) -> None:
    """Take the descriptions of the fields from the docstrings of a dataclass and its bases."""
    for base in reversed(kind.__mro__):
        text, _, attributes = cleandoc(base.__doc__ or "").partition("\n\nAttributes:\n")
        for name, description in re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", attributes, re.MULTILINE):
            if name in schema.get("properties", {}):
                text_of_field = re.sub(r"\s+", " ", description).replace("None", "null")
                schema["properties"][name]["description"] = text_of_field[:1].upper() + text_of_field[1:]
        schema["description"] = text


RECORD: Final = ConfigDict(from_attributes=True, ser_json_timedelta="float", json_schema_extra=_describe)
"""Configuration of dataclasses in bodies. Durations are seconds, as in all documents of a job."""

for record in (
    Amounts,
    Change,
    Decision,
    Durations,
    ExecutorReport,
    Failure,
    FailureRecord,
    LagAlert,
    LatencyReport,
    ParallelismRange,
    PartitionLag,
    PreparedQuery,
    PublishedAdvice,
    PublishedPolicy,
    RequirementsSource,
    Rescale,
    RescaleSummary,
    SlotCounts,
    StateSchema,
    StateSpan,
    TaskKey,
    Transition,
    Urls,
):
    with_config(RECORD)(record)

# ---- jobs -----------------------------------------------------------------------------------------------------------


class MetricsStep(IntEnum):
    """Resolution of metrics, in seconds."""

    TEN_SECONDS = 10
    MINUTE = 60
    TEN_MINUTES = 600


@record_class(config=RECORD, kw_only=True, frozen=True)
class JobItem(Summary):
    """A job in a list."""

    job: str = Field(examples=["departures"])
    dag_ids: list[str] = Field(description="DAGs that name the Asset of the job and that you may read.")
    desired_state: DesiredState | None = Field(description="Last requested state.")
    published_at: datetime | None = Field(description="Time of the last publication of the job; null if there is none.")
    stale: bool = Field(
        default=False,
        description="Whether the published state is older than two minutes, so the job may have another state: no control loop publishes it.",
    )
    abandoned: bool = Field(
        default=False,
        description="Whether the task has ended or was removed without the end of the job: no control loop controls the driver, which may run.",
    )
    health: Health = Health.UNKNOWN
    wait: str | None = Field(
        default=None, description="What a job waits for until it starts; null for a job that does not wait for slots."
    )
    metrics: CurrentMetrics | None = None
    problem: str | None = Field(default=None, description="Reason why the server cannot read the published state.")


class JobCollection(Document):
    """One page of the list of jobs."""

    jobs: list[JobItem]
    total_entries: int = Field(description="Number of jobs on all pages.")
    problem: str | None = Field(default=None, description="Reason why the server cannot read the state of jobs.")


class Deadline(Document):
    """A deadline of the scheduler."""

    name: str = Field(examples=["TRANSITION"])
    due: datetime


class Waiting(Document):
    """Phase of the scheduler while it handles a change of resources (Flink's state transition manager)."""

    phase: str = Field(description="Cooldown, Idling, Stabilizing, Stabilized or Transitioning.")
    cooldown_ends: datetime
    first_change: datetime | None


class Backoff(Document):
    """The delay before a restart."""

    seconds: float
    ends: datetime | None = Field(description="End of the delay; null until the driver has stopped.")


class Vertex(Document):
    """A vertex of the job graph."""

    name: str
    lower: int = Field(validation_alias=AliasPath("parallelism", "lower"), description="Declared lower bound.")
    upper: int = Field(validation_alias=AliasPath("parallelism", "upper"), description="Declared upper bound.")
    max_parallelism: int = Field(validation_alias="effective_max_parallelism")
    stateful: bool
    slot_sharing_group: str
    inputs: list[str]


@record_class(config=RECORD, kw_only=True, frozen=True)
class JobDetails(JobItem):
    """A job with all of its details."""

    requesters: dict[str, RequestRecord] = Field(
        description="Kind of control request -> requester of the newest request."
    )
    policy: PublishedPolicy | None = Field(
        default=None, description="Rescale policy of the job; null without a policy."
    )
    editable: bool | None = Field(description="Whether you may change the job.")
    reactive: bool | None = None
    pending_requirements: dict[str, ParallelismRange] | None = Field(
        default=None, description="Requested bounds that are not active yet."
    )
    deadlines: list[Deadline] = Field(default_factory=list)
    waiting: Waiting | None = None
    backoff: Backoff | None = None
    vertices: list[Vertex] = Field(default_factory=list)
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the scheduler, with durations in seconds."
    )


class TimelineDetails(Document):
    """Transitions and decisions of the scheduler with their reasons, newest first."""

    transitions: list[Transition]
    decisions: list[Decision]


# ---- the plan -------------------------------------------------------------------------------------------------------


class PlannedVertex(Document):
    """Planned and effective parallelism of a vertex."""

    name: str
    planned: int | None
    effective: int | None = Field(description="Parallelism that the driver reports.")
    lower: int
    upper: int
    max_parallelism: int
    slot_sharing_group: str
    stateful: bool


class PlannedSlots(Document):
    """Slots of a plan."""

    planned: int | None
    kept: int | None = Field(
        description="Slots that the driver may hold. Slots beyond the plan are idle until the job releases them."
    )
    held: int
    available: int
    minimum: int
    maximum: int
    standby: int | None = Field(
        default=None, description="Slots that the standby requests beside those of the job; null without a standby."
    )
    standby_prepared: bool = Field(default=False, description="Whether the standby can replace the driver at once.")


class Subtask(Document):
    """A subtask in a slot."""

    vertex: str
    index: int


class PlannedWorker(Document):
    """A worker with the slots that the job uses there."""

    worker: str
    address: str
    slots: list[list[Subtask]] | None = Field(
        description="Subtasks of each slot; null if the plan is too large to list them."
    )
    slot_count: int
    load: float


class Source(Document):
    """A source of a query. Without a number of partitions, the source does not count rows, or not now."""

    kind: str = Field(examples=["KafkaV2"])
    partitions: int | None
    lag_rows: int | None = Field(description="Unread rows.")
    unread_files: int | None = Field(description="Files that Spark has listed and not read yet.")
    unread_versions: int | None = Field(
        description="Commits of a table (Delta Lake, Iceberg) that the query has not read completely."
    )
    lag_s: float | None = Field(
        description="Age of the oldest unread row, file or commit in seconds; null if it is unknown."
    )
    is_lag_minimum: bool = Field(description="Whether the oldest unread row, file or commit may be older than `lag_s`.")
    skew: float | None = Field(description="Largest lag of a partition relative to the mean of all partitions.")
    worst_partition: str | None
    partition_lags: list[PartitionLag] = Field(description="The partitions with the oldest unread rows.")
    input_limit: int | None = Field(description="Largest number of tasks that can read the source at once.")


class Query(Document):
    """A query of the job, and its sources."""

    name: str
    shuffle: str | None = Field(
        description="none, exchange, repartition or unknown: how the rows get to other tasks; null if unknown."
    )
    event_time_delay_s: float | None = Field(description="Delay of the newest event, in seconds.")
    sources: list[Source]
    sink: str | None = Field(description="Kind of the sink.", examples=["KafkaTable"])
    latency: LatencyReport | None = Field(description="null if the script does not measure the latency.")


def moment(text: str) -> datetime | None:
    """Return the time by the clock of a driver, None for a text that is no time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


class PlanDetails(Document):
    """Placement of the subtasks of a job."""

    version: int | None
    reported_at: datetime | None = Field(description="Time of the driver status.")
    load_balance_mode: str
    vertices: list[PlannedVertex]
    slots: PlannedSlots
    executors: list[ExecutorReport]
    queries: list[Query] = Field(
        default=[], description="Queries of the job with their sources, as the driver reports them."
    )
    workers: list[PlannedWorker]
    imbalance: float | None = Field(description="Largest load of a worker as a multiple of the average.")


# ---- failures -------------------------------------------------------------------------------------------------------


class Failures(Document):
    """Recent failures, newest first."""

    failures: list[FailureRecord]
    total_entries: int


# ---- rescales -------------------------------------------------------------------------------------------------------


class Rescales(Document):
    """Recent rescales, newest first."""

    rescales: list[Rescale]


# ---- resource requirements (FLIP-291) -------------------------------------------------------------------------------

VERTEX = "job"
"""Vertex of the examples: the name of the only vertex of a job without a graph."""


class ParallelismBounds(BaseModel):
    """Bounds of the parallelism of a vertex. -1 resets a bound to its default."""

    model_config = ConfigDict(extra="forbid")

    lowerBound: int = Field(ge=-1, le=(1 << 31) - 1, examples=[1])
    upperBound: int = Field(ge=-1, le=(1 << 31) - 1, examples=[4])


class VertexRequirements(BaseModel):
    """Resource requirements of a vertex."""

    model_config = ConfigDict(extra="forbid")

    parallelism: ParallelismBounds


Requirements = dict[str, VertexRequirements]
"""FLIP-291's `JobResourceRequirementsBody`: the resource requirements of every vertex of the job."""

REQUIREMENTS_EXAMPLE: dict[str, Any] = {VERTEX: {"parallelism": {"lowerBound": 1, "upperBound": 4}}}


class PreviewedSlots(Document):
    """Slots in a preview."""

    available: int = Field(description="Slots that the job holds or was offered. The cluster may have more slots.")
    minimum: int = Field(description="Minimum number of slots to run with the new requirements.")
    maximum: int = Field(description="Maximum number of slots that the job uses with the new requirements.")
    missing: int = Field(description="Number of slots that the job would wait for.")


class RequirementsPreview(Document):
    """Consequence of new resource requirements at this moment."""

    consequence: Consequence
    reason: str = Field(description="Human-readable reason.")
    requirements: Requirements = Field(description="Complete requirements, without -1.")
    before: dict[str, int] | None = Field(description="Active parallelism, null without an active plan.")
    after: dict[str, int] | None = Field(
        description="Parallelism after the change, once the slots are available; null if the parallelism does not change."
    )
    tier: str | None = Field(description="Rescale tier: EXECUTORS, QUERY, STATE or DRIVER.")
    cooldown_until: datetime | None = Field(description="End of the cooldown that delays the rescale, or null.")
    at: datetime | None = Field(
        description="Latest time of the change without other events. A committed batch may cause the change earlier."
    )
    slots: PreviewedSlots
    decisions: list[Decision] = Field(description="Decisions of the scheduler in the dry run.")


# ---- deployments ----------------------------------------------------------------------------------------------------


class QueryPreview(Document):
    """A query of a deployment whose driver is prepared, or of the running driver."""

    name: str
    is_new: bool = Field(description="Whether the running driver has no query of this name.")
    running_sources: list[str] = Field(description="Kinds of the sources of the running query of this name.")
    prepared: PreparedQuery | None = Field(description="What a prepared driver knows of it; null for a removed query.")
    state_reason: str = Field(description="What happens to its state, or why that is unknown.")
    plan_changes: list[str] | None = Field(description="Lines of its plan with -, + or none; null if they are unknown.")


class Deployment(Document):
    """What a deployment changes, before it takes effect."""

    stage: DeploymentStage | None = Field(
        description="Stage of a staged deployment, or the first one of a deployment that the task has not staged; null if no driver runs, so that the next one has the deployment."
    )
    reason: str = Field(description="When and how the deployment takes effect, or why it does not.")
    effect: Effect | None = Field(description="The most that a known change needs; null without a known change.")
    changes: list[Change]
    keeps_state: bool | None = Field(description="Whether the deployment keeps the state; null if it is unknown.")
    state_reason: str = Field(description="Why it keeps the state or not, or why that is unknown.")
    queries: list[QueryPreview] = Field(description="Queries of a prepared driver; empty if they are unknown.")
    unknown: list[str] = Field(description="What may change, too: its value is secret, a template, or not stored.")


class Deployments(Document):
    """The deployments of a job that have not taken effect."""

    pending: Deployment | None = Field(
        description="The deployment that the task has staged, compared with the running driver; null without one."
    )
    declared: Deployment | None = Field(
        description="What the newest DAG declares, compared with the newest staged deployment; null without a known difference."
    )
    notice: str = Field(description="What the comparison with the DAG does not contain.")


# ---- errors ---------------------------------------------------------------------------------------------------------


class Problem(Document):
    """Problem details of an error (RFC 9457)."""

    type: str = Field(description="Kind of problem, for programs.", examples=["urn:airflow-adaptive:problem:not-found"])
    title: str = Field(description="Reason phrase of the HTTP status.", examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(
        description="Description of the problem and of its fix.", examples=["There is no adaptive job 'arivals'."]
    )
    instance: str = Field(description="Path of the request.", examples=["/adaptive/api/v1/jobs/arivals"])
    errors: list[str] = Field(default=[], description="All violations, if the request has several.")
