"""The JSON documents that the scheduler loop and the Spark driver exchange through the job directory.

* `JournalDocument`: one step of the scheduler (`journal/0000000042.json`), created only if absent. The driver reads
  only its `directive`.
* `DriverStatus`: the status of the driver (`status.json`), which the driver rewrites after each batch and with each
  heartbeat.
* `RescaleDocument`: a completed rescale (`history/0000000007.json`), created only if absent. The driver does not read
  it.

Readers validate each document, because another process may have written it only in part, or a different program may
have written it. Whatever is wrong with a document, a reader gets a `DocumentError`, so that it can skip and report the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from airflow_adaptive._core.codec import Count, DecodeError, decode, encode_plain
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive._core.python_version import StrEnum

SUBMISSION_ID_VARIABLE = "AIRFLOW_ADAPTIVE_SUBMISSION_ID"
"""Environment variable of a driver with its submission id, if the cluster client knows the id before the driver starts."""

SECRET_CONF_VARIABLE = "AIRFLOW_ADAPTIVE_SECRET_CONF"
"""Environment variable of the driver: Spark properties with secret values, as a JSON object. Arguments of a process are
not secret."""

SECRET_ENV_VARIABLE = "AIRFLOW_ADAPTIVE_SECRET_ENV"
"""Environment variable of the driver: names of the environment variables with secret values, as a JSON list."""

FORMATS = (1,)
"""Versions of the document format that this version of airflow-adaptive reads and writes, oldest first. Driver statuses and rescale documents
have the oldest one, because loops of the previous version read them during an upgrade."""


class Action(StrEnum):
    """The action that a directive requests from the driver."""

    RUN = "run"
    """Run the queries on the plan of the directive; start, restart or rescale the queries if they run on another plan."""
    HOLD = "hold"
    """Keep the session and its executors, but run no query (restart delay after a failed query)."""
    STOP = "stop"
    """Stop all queries at a batch boundary, write the state STOPPED and exit."""


class DriverState(StrEnum):
    """State of the driver in its status."""

    STARTING = "STARTING"
    """The session exists; no query has started yet."""
    PREPARED = "PREPARED"
    """The standby has built its queries and is warm; it waits until the journal names its epoch."""
    RUNNING = "RUNNING"
    """The queries run on the plan `DriverStatus.version`."""
    RESCALING = "RESCALING"
    """The driver is deploying a newer plan; the queries may still run on the old plan."""
    HOLDING = "HOLDING"
    """No query runs, because the directive is HOLD."""
    STOPPED = "STOPPED"
    """All queries have stopped as requested; the driver exits."""
    FAILED = "FAILED"
    """A query has failed; the driver waits for the next directive."""
    FINISHED = "FINISHED"
    """All queries have reached the end of a bounded input; the driver exits."""
    FENCED = "FENCED"
    """Another driver has replaced this driver (another epoch), or the lease has expired; the driver exits."""


NONE = "none"
"""`DriverPlan.load_balance_mode`: no load balancing."""
SLOTS = "slots"
"""`DriverPlan.load_balance_mode`: spread the executors over the workers."""
TASKS = "tasks"
"""`DriverPlan.load_balance_mode`: also spread stateful tasks over the executors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPlan:
    """The part of a plan that the driver needs.

    Attributes:
        parallelism: number of subtasks of each job vertex.
        executors: number of executors on which the queries run.
        state_partitions: number of state partitions of a query (`spark.sql.shuffle.partitions`), by slot sharing group;
            the group has the name of the query. A single group applies to all queries of the job. A query without state
            uses the number for its shuffles.
        query_version: version of the plan for which the queries are built. The driver restarts the queries only when
            this version changes; a plan with the same version changes only executors (rescale tier 0).
        repartition: whether the driver repartitions the state in a checkpoint before it starts the query (rescale tier
            2). Otherwise the query keeps the number of state partitions of its checkpoint.
        pool_weights: number of slots of each slot sharing group, which is the weight of the query's FAIR pool.
        retained_executors: maximum number of executors that the application keeps. The driver does not replace a lost
            executor beyond `executors`, but keeps existing ones until this number decreases. A value below `executors`
            has no effect.
        load_balance_mode: load balancing (FLIP-370): `NONE`, `SLOTS` to spread executors over the workers, or `TASKS`
            to spread stateful tasks too, after executors were added.
        remaining_per_worker: number of executors that remain on each worker (`ExecutorReport.worker`) when the driver
            releases executors. Workers above their number release executors first. Without an entry, the youngest
            executors go first.
        most_slots: number of slots of a plan with all upper bounds, 0 in a plan of an older version.
    """

    parallelism: Mapping[str, Count]
    executors: Count
    state_partitions: Mapping[str, Count]
    query_version: Count = 0
    repartition: bool = False
    pool_weights: Mapping[str, Count] = field(default_factory=dict)
    retained_executors: Count = 0
    load_balance_mode: str = NONE
    remaining_per_worker: Mapping[str, Count] = field(default_factory=dict)
    most_slots: Count = 0

    @property
    def executor_limit(self) -> int:
        """Maximum number of executors of the application."""
        return max(self.executors, self.retained_executors)

    def partitions_of(self, query: str) -> int:
        """Return the number of state partitions of a query.

        A query without a group of its name gets the maximum of all groups.
        """
        return self.state_partitions.get(query, max(self.state_partitions.values(), default=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyDirective:
    """The instruction for the standby, which is to replace the driver.

    Attributes:
        epoch: epoch of the standby.
        plan: plan for which the standby builds its queries; None while the job has no plan.
        holds_executors: whether the standby keeps the executors with which it has warmed up.
    """

    epoch: Count
    plan: DriverPlan | None
    holds_executors: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """The instruction for the driver in the newest journal document.

    Attributes:
        epoch: epoch of the only driver that may run queries.
        nonce: random identifier of the journal, which distinguishes an epoch of a deleted job directory from a current
            epoch.
        version: version of the plan; the driver status contains the version that is active.
        action: requested action.
        plan: plan of the queries; None before the first plan.
        standby: instruction for the standby, None without one.
        is_move: whether the driver stops because it leaves its machine, so that its batch has no time limit.
    """

    epoch: Count
    nonce: str
    version: Count
    action: Action
    plan: DriverPlan | None
    standby: StandbyDirective | None = None
    is_move: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDocument:
    """One step of the scheduler.

    Attributes:
        job: id of the job to which the directory belongs.
        number: position in the journal, starting at 1.
        at: time of the step, ISO 8601 in UTC.
        owner: token of the loop that wrote the document. A loop that reads the token of another loop in a newer
            document stops.
        directive: instruction for the driver.
        scheduler: snapshot of the scheduler's state; the driver does not read it.
        commands: commands that the loop executes after it has written the document.
        transitions: state transitions of the step.
        decisions: decisions of the step with their reasons, for the timeline.
        rescales: rescales that ended with the step.
        memory: what the loop remembers beside the state of the scheduler (`_engine.journal.step_document`); the driver does not read it.
        format: version of the format in which the document was or is to be written. A loop writes the newest format that
            its driver reads (`DriverStatus.formats`), and the oldest format before the first status of the driver and at the end of the job.
    """

    job: str
    number: int
    at: str
    owner: str
    directive: Directive
    scheduler: dict[str, Any]
    commands: list[dict[str, Any]] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    rescales: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    format: Count = FORMATS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleDocument:
    """A completed rescale, which outlives the journal document of the step that completed it.

    Attributes:
        job: id of the job to which the directory belongs.
        number: number of the rescale, starting at 1.
        rescale: fields of the rescale (`_core.scheduler.timeline.Rescale`).
    """

    job: str
    number: int
    rescale: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorReport:
    """An executor that is registered with the driver.

    Attributes:
        executor_id: Spark's id of the executor.
        cores: slots of the executor.
        worker: address of the worker, as the cluster manager reports it (standalone: the worker's web UI; Kubernetes: the name of the
            node), or "" if unknown.
    """

    executor_id: str
    cores: int
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLoad:
    """Totals of the registered executors, as Spark knows them from their heartbeats and tasks.

    Attributes:
        task_ms: time for which their tasks have run.
        gc_ms: part of this time in which the JVM collected garbage.
        peak_heap_bytes: largest heap that one of them has used since its start, 0 before the first heartbeat.
    """

    task_ms: int = 0
    gc_ms: int = 0
    peak_heap_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyReport:
    """Latency of the rows of the newest batch with rows, in milliseconds, negative if the clocks of producers are ahead.

    Attributes:
        rows: number of rows.
        p50_ms: median.
        p95_ms: 95th percentile.
        p99_ms: 99th percentile.
        max_ms: largest latency.
    """

    rows: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """Progress of one query since the driver started.

    Attributes:
        name: Spark's query name.
        active: whether the query runs.
        batch_id: number of the newest committed batch, -1 before the first commit.
        committed: number of batches that the query has committed since the driver started.
        input_rows: number of rows that these batches have read.
        batch_rows: number of rows that the newest batch has read.
        batch_duration_ms: duration of the newest batch in milliseconds.
        backlog: number of rows that were available but not read when the newest batch began, or None if a source does
            not provide it.
        watermark: event-time watermark, ISO 8601, or None without a watermark.
        idle: whether the query runs but no batch does, so that the query is at a batch boundary.
        trigger_interval_ms: interval of a processing-time trigger in milliseconds, 0 for "as soon as possible"; None
            for another trigger, and before the start of the query.
        input_rate: rows per second that arrived between the previous trigger and the newest batch, or None if unknown.
        event_time_delay_s: time in seconds from the newest event of the newest batch to the trigger of the batch, or None
            if the batch has no event time.
        shuffle: value of `Shuffle`, None before the first batch of a run, and if the driver does not poll the sources.
        sources: sources of the query; empty before the first batch, and in the status of a driver of an older version.
        sink: kind of the sink, such as `KafkaTable`, None before the first batch.
        latency: latency of the rows, None if the script does not measure it (`observe_latency`).
        source_problem: why the driver cannot read a source at the moment, for example because no broker answers; None without a problem.
        plan: nodes of its analyzed plan and columns of its output, as in a `PreparedQuery`; empty if they are unknown.
    """

    name: str
    active: bool
    batch_id: int = -1
    committed: int = 0
    input_rows: int = 0
    batch_rows: int = 0
    batch_duration_ms: int = 0
    backlog: int | None = None
    watermark: str | None = None
    idle: bool = False
    trigger_interval_ms: int | None = None
    input_rate: float | None = None
    event_time_delay_s: float | None = None
    shuffle: str | None = None
    sources: tuple[SourceReport, ...] = ()
    sink: str | None = None
    latency: LatencyReport | None = None
    source_problem: str | None = None
    plan: tuple[str, ...] = ()

    @property
    def unread_rows(self) -> int | None:
        """Unread rows of all sources, now if the driver polls the sources; None if a source does not provide them, or not now."""
        if any(source.is_backlog_unknown for source in self.sources):
            return None
        rows = [source.lag_rows for source in self.sources if source.lag_rows is not None]
        return sum(rows) if rows and len(rows) == len(self.sources) else self.backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSchema:
    """The state of an operator, without any value.

    Attributes:
        operator: Spark's name of the operator, and of the store if the operator has several.
        key: columns of the key with their types, "" if they are unknown.
        value: columns of the value, likewise.
        partitions: number of state partitions, None if it is unknown.
    """

    operator: str
    key: str = ""
    value: str = ""
    partitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """A query that a standby has built, and a copy of which it has run.

    Attributes:
        name: name of the query.
        sources: kinds of its sources, as in a `SourceReport`; empty if no batch of the copy has ended.
        state_before: the state that the checkpoint of the query contains.
        state_after: the state of the query, empty if no batch of the copy has ended.
        plan: nodes of its analyzed plan, from the output to the sources, and columns of its output; empty if they are unknown, or too large.
        unchecked: why it is unknown whether the query can read this state; "" if Spark has accepted the schemas of the state.
    """

    name: str
    sources: tuple[str, ...] = ()
    state_before: tuple[StateSchema, ...] = ()
    state_after: tuple[StateSchema, ...] = ()
    plan: tuple[str, ...] = ()
    unchecked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """The reason why a query failed.

    Attributes:
        error_class: Spark's error condition, or the class name of the exception.
        message: first lines of the message without secrets, at most some thousand characters.
        causes: class names of the exception and its causes, outermost first. The scheduler uses them to decide whether
            a restart can help.
        query: name of the query, or None if the script itself failed.
    """

    error_class: str
    message: str
    causes: tuple[str, ...] = ()
    query: str | None = None


class Capability(StrEnum):
    """What not every supported version of Spark can do."""

    REPARTITION = "change the number of state partitions"
    REAL_TIME_MODE = "run queries of Python scripts in Real-Time Mode"
    HOLD = "hold and resume an application"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReport:
    """The Spark of a driver.

    Attributes:
        version: its version.
        lacks: what it cannot do (`Capability`), and the oldest version of Spark that can.
    """

    version: str
    lacks: Mapping[str, str] = field(default_factory=dict)

    def lack(self, capability: Capability) -> str:
        """Return why this Spark lacks a capability, "" if it has the capability."""
        since = self.lacks.get(capability)
        return "" if since is None else f"Spark {self.version} cannot {capability}; Spark {since} can"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decommission:
    """What an administrator takes from the job. Decommissioned executors finish their tasks, accept no others, and exit.

    Attributes:
        workers: addresses of the workers whose executors are being decommissioned.
        held: whether the application is held, so that it has no executors until it is resumed (`SparkContext.holdExecutors`, SPARK-58828).
    """

    workers: tuple[str, ...] = ()
    held: bool = False

    @property
    def reason(self) -> str:
        """What the administrator does, and what ends it; "" if nothing is taken."""
        if self.held:
            return "an administrator holds the Spark application: the job waits until the application is resumed in Spark's web UI"
        if self.workers:
            return f"executors are being decommissioned, and their slots leave: {', '.join(self.workers)}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """The status of a driver.

    Attributes:
        job: id of the job.
        epoch: epoch of the driver.
        nonce: nonce of the driver.
        sequence: number that increases with every status. A reader records by its own clock when the number increases,
            and computes the heartbeat from that.
        at: time by the driver's clock, ISO 8601 in UTC; informational, readers do not compare it.
        state: state of the driver.
        version: version of the active plan, 0 before the first plan.
        parallelism: effective parallelism of each vertex under that plan.
        executors: registered executors.
        load: totals of these executors, None before they are known, and from a driver of an older version.
        queries: progress of each query.
        failure: the last failure of a query under the current directive, or None.
        submission_id: id of the driver on the master, or None if the driver cannot determine it.
        application_id: Spark's application id.
        ui_url: address of the driver's web UI, or None if the web UI is off.
        rejected_version: version of a plan that the driver cannot deploy, or 0. The queries continue on the active
            plan.
        rejection: reason for the rejection, or None.
        vertices_read: vertices whose parallelism the build function has read. A plan that changes the parallelism of
            one of these vertices requires new queries. None while the vertices are unknown.
        downtime_ms: downtime of the last rescale in this driver, in milliseconds: from the end of the last batch of the
            old query until the first trigger of the new query, or the time for which all queries were blocked if they
            continued. None before the first rescale, and while a rescale restarts the queries.
        notice: information about this driver for the user, or None.
        formats: versions of the document format that the driver reads.
        spark: the Spark of the driver, or None from a driver of an older version of airflow-adaptive.
        gangs: slots that each query in Real-Time Mode needs at the same time, by the name of the query; empty before the
            queries are built for the first time, and in another mode.
        decommission: what an administrator takes from the job.
        is_moving: whether others end this driver (SIGTERM), so that another one has to continue the job. Its queries end at a batch boundary
            (state STOPPED), if the driver is not killed before.
        prepared: what a prepared standby knows of its queries; empty for a script that starts its queries itself.
        is_managed: whether only the runtime starts queries, so that a driver that has stopped starts no more; not known from an older one.
    """

    job: str
    epoch: Count
    nonce: str
    sequence: Count
    at: str
    state: DriverState
    version: Count = 0
    parallelism: Mapping[str, int] = field(default_factory=dict)
    executors: tuple[ExecutorReport, ...] = ()
    load: ExecutorLoad | None = None
    queries: tuple[QueryReport, ...] = ()
    failure: FailureReport | None = None
    submission_id: str | None = None
    application_id: str | None = None
    ui_url: str | None = None
    rejected_version: Count = 0
    rejection: FailureReport | None = None
    vertices_read: tuple[str, ...] | None = None
    downtime_ms: int | None = None
    notice: str | None = None
    formats: tuple[Count, ...] = ()
    spark: SparkReport | None = None
    gangs: Mapping[str, Count] = field(default_factory=dict)
    decommission: Decommission = Decommission()
    is_moving: bool = False
    prepared: tuple[PreparedQuery, ...] = ()
    is_managed: bool = False


MAX_DOCUMENT_BYTES = 1 << 20
"""Maximum size of a document in bytes. Readers report and skip a larger document."""

KINDS: Mapping[type, str] = {
    JournalDocument: "airflow-adaptive/journal",
    DriverStatus: "airflow-adaptive/status",
    RescaleDocument: "airflow-adaptive/rescale",
}
"""Class of a document -> its field `kind`."""

ENCODING = "utf-8"

Document = TypeVar("Document")


class DocumentError(ValueError):
    """A document is incomplete, too large, from another program or of a newer format.

    The reader must not use its content.
    """


class NewerFormatError(DocumentError):
    """A newer version of airflow-adaptive wrote the document.

    The document is valid, but this version cannot read it.
    """


def journal_name(number: int) -> str:
    """Return the file name of journal document `number`. File names sort in the order of the numbers."""
    return f"{number:010d}.json"


def journal_number(name: str) -> int | None:
    """Return the number of the journal document with this file name, or None for any other file name."""
    stem, dot, suffix = name.partition(".")
    return int(stem) if dot and suffix == "json" and len(stem) == 10 and stem.isdecimal() else None  # noqa: PLR2004


def newest_common_format(formats: Iterable[int]) -> int | None:
    """Return the newest of these formats that this version writes, too, or None."""
    return max(set(formats).intersection(FORMATS), default=None)


def encode_document(document: JournalDocument | RescaleDocument | DriverStatus) -> bytes:
    """Encode a document in the format that it names, else in the oldest format, because the version of its readers is unknown."""
    content = {"kind": KINDS[type(document)], "format": FORMATS[0], **encode_plain(document)}
    return json.dumps(content, separators=(",", ":")).encode(ENCODING)


def decode_document(document: type[Document], data: bytes) -> Document:
    """Decode a document of a class. Its metrics may be any numbers, so that implausible metrics do not invalidate a heartbeat.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"document of {len(data)} bytes is larger than {MAX_DOCUMENT_BYTES}")
    try:
        fields = json.loads(data.decode(ENCODING))
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not JSON, or half-written: {error}") from error
    if not isinstance(fields, dict) or fields.pop("kind", None) != KINDS[document]:
        raise DocumentError(f"not a document of kind {KINDS[document]!r}")
    written = fields.get("format")
    if not isinstance(written, int):
        raise DocumentError("the format is not a number")
    if written > FORMATS[-1]:
        raise NewerFormatError(f"format {written} is newer than {FORMATS[-1]}: upgrade airflow-adaptive on this side")
    try:
        return cast(Document, decode(document, fields, any_number=True))
    except DecodeError as error:
        raise DocumentError(f"{error}") from error
