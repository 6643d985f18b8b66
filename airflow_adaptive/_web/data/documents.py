"""Models of the documents that a job publishes. The control loop writes the documents (`_core.view`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Document(BaseModel):
    """Base of all models. Unknown fields of a later version are ignored."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


class SchedulerStateName(StrEnum):
    """States of the adaptive scheduler (FLIP-160), and `unknown` for a job that has not published its state."""

    CREATED = "Created"
    WAITING_FOR_RESOURCES = "WaitingForResources"
    DEPLOYING = "Deploying"
    EXECUTING = "Executing"
    RESTARTING_LOCALLY = "RestartingLocally"
    RESTARTING = "Restarting"
    STOP_WITH_SAVEPOINT = "StopWithSavepoint"
    CANCELING = "Canceling"
    FAILING = "Failing"
    FINISHED = "Finished"
    UNKNOWN = "unknown"


# ---- summary --------------------------------------------------------------------------------------------------------


class Range(Document):
    """Bounds of the parallelism of a vertex."""

    lower: int
    upper: int


class Slots(Document):
    """Slots of a job."""

    held: int
    available: int = Field(description="Slots that the job holds or was offered.")


class Transition(Document):
    """A state transition of the scheduler."""

    at: datetime
    source: str
    target: str
    version: int
    before: dict[str, int] | None = None
    after: dict[str, int] | None = None
    tier: int | None = Field(default=None, description="Rescale tier, 0 to 3.")
    reason_code: str = Field(description="Code of the reason, for programs.", examples=["PLAN_ACTIVATED"])
    reason: str


class Decision(Document):
    """A decision of the scheduler, including decisions to change nothing."""

    at: datetime
    state: str
    reason_code: str = Field(description="Code of the reason, for programs.", examples=["PLAN_ACTIVATED"])
    reason: str


class TaskInstance(Document):
    """The last task instance that ran the job."""

    model_config = ConfigDict(extra="ignore", from_attributes=True, frozen=True)

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1


class Urls(Document):
    """Addresses of Spark's web pages."""

    master: str | None = None
    driver: str | None = None
    executors: str | None = None
    stdout: str | None = None
    stderr: str | None = None


class RequirementsSource(Document):
    """The source of the active bounds."""

    origin: str = Field(
        description=(
            "DAG: declared in the DAG; CALENDAR: set by the DAG of a calendar; POLICY: advised by the rescale policy of the "
            "job; USER: set by a user, which overrides all other sources."
        )
    )
    name: str = Field(
        description='Human-readable name of the source: "dag", "calendar", "load", "calendar and load", or a user name.'
    )
    via: str | None = Field(default=None, description="Interface through which the bounds were set.")
    since: datetime | None = Field(default=None, description="Time at which the bounds became active.")
    until: datetime | None = Field(
        default=None,
        description="Time at which the bounds of a user expire, or a policy changes its bounds; null for never.",
    )
    reason: str = ""


class LagAlert(Document):
    """An alert: the lag behind the sources exceeds `lag_alert_threshold`, or the brokers will delete unread rows soon."""

    since: datetime = Field(description="Time at which the lag exceeded the threshold.")
    lag_s: float = Field(description="Lag at that time: age of the oldest unread row in seconds.")
    expires_at: datetime | None = Field(
        default=None,
        description="Earliest time at which the brokers delete an unread row; null if the lag exceeds the threshold.",
    )


class Summary(Document):
    """Summary of a job."""

    job_type: str = "STREAMING"
    state: SchedulerStateName = SchedulerStateName.UNKNOWN
    since: datetime | None = Field(default=None, description="Time at which the job entered the state.")
    outcome: str | None = Field(
        default=None, description="FINISHED, CANCELED, FAILED or SUSPENDED; null for a running job."
    )
    cause: str | None = Field(default=None, description="Root cause of the failure of the job.")
    parallelism: dict[str, int] | None = Field(default=None, description="Active parallelism, null without a plan.")
    requirements: dict[str, Range] = Field(default={}, description="Active bounds.")
    requirements_source: RequirementsSource | None = Field(
        default=None, description="Source of the active bounds; null if unknown."
    )
    slots: Slots | None = None
    restarts: int = 0
    rescales: int = 0
    failures: int = Field(default=0, description="Number of recent failures.")
    lag_alert: LagAlert | None = Field(default=None, description="Alert about the lag; null without an alert.")
    lag_unknown_since: datetime | None = Field(
        default=None,
        description="Time since which the lag is unknown; null while it is known, and for a job without a source whose lag can be known.",
    )
    source_problem: str | None = Field(
        default=None, description="Why the driver cannot read a source at the moment; null without a problem."
    )
    last_transition: Transition | None = None
    urls: Urls = Urls()
    attempt: str | None = None
    task: TaskInstance | None = None


# ---- rescale policy and control requests ----------------------------------------------------------------------------


class Advice(Document):
    """Advice of a rescale policy."""

    at: datetime = Field(description="Time of the advice.")
    since: datetime = Field(description="Time since which the policy has advised these bounds.")
    bounds: dict[str, Range]
    source: str
    reason: str
    next_at: datetime | None = Field(
        default=None, description="Time at which the policy changes its advice; null for never."
    )


class Policy(Document):
    """The rescale policy of a job."""

    kind: str = Field(examples=["CombinedPolicy"])
    dry_run: bool = Field(description="Whether the policy only reports its advice.")
    active: bool = Field(description="Whether the policy set the active bounds.")
    advice: Advice | None = None
    problem: str | None = Field(default=None, description="Reason why the advice is not applied.")


class RequestRecord(Document):
    """Requester, time and expiry of a control request."""

    by: str = Field(description="User or task that made the request.")
    at: datetime = Field(description="Time of the request.")
    via: str = Field(description="Interface of the request, for example REST.")
    until: datetime | None = Field(default=None, description="Time at which requested bounds expire; null for never.")


# ---- driver and metrics ---------------------------------------------------------------------------------------------


class Executor(Document):
    """An executor of the job."""

    executor_id: str
    cores: int
    worker: str


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


class PartitionLag(Document):
    """The lag behind one partition."""

    partition: str
    rows: int
    seconds: float


class Source(Document):
    """A source of a query. Without a number of partitions, the source does not count rows, or not now."""

    kind: str = Field(examples=["KafkaV2"])
    partitions: int | None = None
    lag_rows: int | None = Field(default=None, description="Unread rows.")
    unread_files: int | None = Field(default=None, description="Files that Spark has listed and not read yet.")
    unread_versions: int | None = Field(
        default=None, description="Commits of a table (Delta Lake, Iceberg) that the query has not read completely."
    )
    lag_s: float | None = Field(
        default=None, description="Age of the oldest unread row, file or commit in seconds; null if it is unknown."
    )
    is_lag_minimum: bool = Field(
        default=False, description="Whether the oldest unread row, file or commit may be older than `lag_s`."
    )
    skew: float | None = Field(
        default=None, description="Largest lag of a partition relative to the mean of all partitions."
    )
    worst_partition: str | None = None
    partition_lags: list[PartitionLag] = Field(default=[], description="The partitions with the oldest unread rows.")
    input_limit: int | None = Field(
        default=None, description="Largest number of tasks that can read the source at once."
    )


class Latency(Document):
    """Latency of the rows of the newest batch with rows, in milliseconds."""

    rows: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


class Query(Document):
    """A query of the job, and its sources."""

    name: str
    shuffle: str | None = Field(
        default=None,
        description="none, exchange, repartition or unknown: how the rows get to other tasks; null if unknown.",
    )
    event_time_delay_s: float | None = Field(default=None, description="Delay of the newest event, in seconds.")
    sources: list[Source] = []
    sink: str | None = Field(default=None, description="Kind of the sink.", examples=["KafkaTable"])
    latency: Latency | None = Field(default=None, description="null if the script does not measure the latency.")


class DriverStatus(Document):
    """The last published driver status.

    Attributes:
        at: time of the status by the clock of the driver; None if the time is invalid.
        parallelism: effective parallelism per vertex.
        executors: registered executors.
        queries: queries with their sources.
    """

    at: Annotated[datetime | None, BeforeValidator(_moment)] = None
    parallelism: dict[str, int]
    executors: list[Executor]
    queries: list[Query] = []


class Metrics(Document):
    """A time series, oldest point first. Each point has one value per column."""

    step: int
    columns: list[str]
    points: list[list[Any]]


class CurrentMetrics(Document):
    """The newest point of the metrics of a job."""

    at: int = Field(description="Seconds since the epoch.")
    slots: int
    lower: int
    upper: int
    input: float | None = Field(description="Rows read per second.")
    processed: float | None = Field(description="Rows processed per second while a batch runs.")
    batch_ms: int | None
    backlog: int | None = Field(description="Rows that are waiting at the sources.")
    lag_s: float | None = Field(
        default=None, description="Age of the oldest unread row at the sources in seconds; null if it is unknown."
    )
