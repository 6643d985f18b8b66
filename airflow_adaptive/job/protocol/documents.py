"""The JSON documents that the scheduler and the Spark driver exchange through the job directory.

Both sides import this module, and `job.protocol.codec` for the bytes, and nothing else of each other, so they are standard library
only: they also ship to the cluster in the runtime's zip.

* `JournalDocument`: one saved step of the scheduler (`journal/0000000042.json`), created only if absent. Its `directive` is all
  that the driver reads.
* `DriverStatus`: the driver's report (`status.json`), rewritten with each batch and heartbeat.
* `RescaleDocument`: a rescale that has ended (`history/0000000007.json`), created only if absent; for the scheduler's side alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SECRET_CONF_VARIABLE = "AIRFLOW_ADAPTIVE_SECRET_CONF"
"""Variable in the driver's environment: the Spark properties that its arguments must not show, a JSON object."""


class Action(StrEnum):
    """What the driver is to do with its queries."""

    RUN = "run"
    """Run the queries on the directive's plan; start, restart or rescale them if they run on another."""
    HOLD = "hold"
    """Keep the session and its executors; run no query (restart backoff of a failed query)."""
    STOP = "stop"
    """Stop all queries at a batch boundary, report STOPPED and exit."""


class DriverState(StrEnum):
    """How the driver describes itself in its status."""

    STARTING = "STARTING"
    """The session is up, no query has been started yet."""
    RUNNING = "RUNNING"
    """The queries run on the plan named by `DriverStatus.version`."""
    RESCALING = "RESCALING"
    """A newer plan is being put in force; the queries may still run on the old one."""
    HOLDING = "HOLDING"
    """No query runs because the directive says so."""
    STOPPED = "STOPPED"
    """All queries were stopped as told; the driver exits."""
    FAILED = "FAILED"
    """A query failed; the driver lives on and waits for the next directive."""
    FINISHED = "FINISHED"
    """All queries ended by themselves (bounded input); the driver exits."""
    FENCED = "FENCED"
    """The driver found itself outdated (another epoch, or its lease ran out); the driver exits."""


NONE = "none"
"""`DriverPlan.load_balance_mode`: nothing is spread."""
SLOTS = "slots"
"""`DriverPlan.load_balance_mode`: executors are spread over the workers."""
TASKS = "tasks"
"""`DriverPlan.load_balance_mode`: stateful tasks are spread over the executors as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPlan:
    """The plan as the driver needs it.

    Attributes:
        parallelism: subtasks per job vertex.
        executors: number of executors that the queries are to run on.
        state_partitions: partitions of a query's state (`spark.sql.shuffle.partitions`), by slot sharing group: a query of
            that name. With one group they are those of every query of the job.
        query_version: version of the plan that the queries are built for. They are restarted when it changes, and only then: a
            plan that leaves it as it was is one of executors alone (rescale tier 0).
        repartition: whether state that a checkpoint has in another number of partitions is repartitioned before its query
            starts (rescale tier 2); else the query goes on with the number that the checkpoint has.
        pool_weights: slots of each slot sharing group, which are the weights of the queries' pools.
        retained_executors: executors that the application may hold at most. What it has beyond `executors` is not asked for again
            when it is lost, but kept until this falls. 0, or less than `executors`, means `executors`.
        load_balance_mode: what is spread over the executors (FLIP-370): `NONE` nothing, `SLOTS` the executors over the
            workers, `TASKS` the stateful tasks too, after executors were added.
        remaining_per_worker: when executors are given back, how many stay on each worker (`ExecutorReport.worker` -> count). Where
            more are than that, they go first; empty: the youngest of all go first.
    """

    parallelism: Mapping[str, int]
    executors: int
    state_partitions: Mapping[str, int]
    query_version: int = 0
    repartition: bool = False
    pool_weights: Mapping[str, int] = field(default_factory=dict)
    retained_executors: int = 0
    load_balance_mode: str = NONE
    remaining_per_worker: Mapping[str, int] = field(default_factory=dict)

    @property
    def executor_limit(self) -> int:
        """How many executors the application may hold."""
        return max(self.executors, self.retained_executors)

    def partitions_of(self, query: str) -> int:
        """Partitions of the state of a query of that name; of a name that no group has, the most of all."""
        return self.state_partitions.get(query, max(self.state_partitions.values(), default=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """What the newest journal document tells the driver.

    Attributes:
        epoch: the one driver that may run a query carries this epoch ...
        nonce: ... and this mark of the log, so that an epoch of a deleted directory is not mistaken for ours.
        version: of the plan; the driver reports the version that is in force.
        action: see `Action`.
        plan: None only while no plan has been made.
    """

    epoch: int
    nonce: str
    version: int
    action: Action
    plan: DriverPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDocument:
    """One saved step of the scheduler.

    Attributes:
        job: id of the job that the directory belongs to.
        number: position in the log, from 1.
        at: when the step was taken, ISO 8601 in UTC.
        owner: token of the loop that wrote it; a loop that reads another's token in a newer document yields.
        directive: what the driver is to do.
        scheduler: snapshot of the scheduler's state, opaque to the driver.
        commands: what the loop was about to do when it wrote this.
        transitions: state transitions taken in this step.
        decisions: reasons, for the timeline.
        rescales: that ended with this step.
        driver_heartbeat: newest driver status that the loop has read (epoch and sequence), and when the loop read it first.
        requirements_resolver: snapshot of the requirements resolver: the active source of the requirements, the newest control
            requests and the memory of the rescale policy; empty while the requirements are the DAG's.
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
    driver_heartbeat: dict[str, Any] = field(default_factory=dict)
    requirements_resolver: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleDocument:
    """A rescale that has ended; it stays when the journal document that told it is gone.

    Attributes:
        job: id of the job that the directory belongs to.
        number: of the rescale, from 1.
        rescale: what there is to tell of it (`scheduler.timeline.Rescale`).
    """

    job: str
    number: int
    rescale: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorReport:
    """An executor that is registered with the driver.

    Attributes:
        executor_id: Spark's id of the executor.
        cores: its slots.
        worker: address of the worker's web UI (as the master's JSON gives it), "" if unknown.
    """

    executor_id: str
    cores: int
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """Progress of one query in this run of it.

    Attributes:
        name: Spark's query name.
        active: whether it runs.
        batch_id: newest committed batch, -1 before the first.
        committed: batches committed since the driver started.
        input_rows: rows read by these batches.
        batch_rows: rows read by the newest batch.
        batch_duration_ms: of the newest batch.
        backlog: rows that its sources had and it had not read when that batch began, None if a source does not tell.
        watermark: event-time watermark, ISO 8601, None without one.
        idle: it runs, and no batch does: it is at a batch boundary now.
        trigger_interval_ms: of a processing-time trigger, 0 for "as fast as possible"; None with another trigger, and
            before the query was started.
        input_rate: rows per second that came in for the newest batch, since the trigger before; None if that is not known.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """Why a query failed.

    Attributes:
        error_class: Spark's error condition or the exception's class name.
        message: first lines of the message, without secrets, at most some thousand characters.
        causes: class names of the exception and its causes, outermost first (recoverability is judged by them).
        query: name of the query, None if the script itself failed.
    """

    error_class: str
    message: str
    causes: tuple[str, ...] = ()
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """The driver's report.

    Attributes:
        job: id of the job.
        epoch: epoch of the reporting driver.
        nonce: its nonce.
        sequence: grows with every report: a reader measures the heartbeat by its own clock when it sees it grow.
        at: the driver's clock, ISO 8601 in UTC; for people, never compared.
        state: see `DriverState`.
        version: version of the plan in force, 0 before the first.
        parallelism: effective parallelism per vertex under that plan.
        executors: registered executors.
        queries: progress per query.
        failure: of the last query that failed under the current directive, None if none did.
        submission_id: the driver's id on the master, None where the driver can't know it.
        application_id: Spark's application id.
        ui_url: address of the driver's web UI, None if it is off.
        rejected_version: version of a plan that can't be carried out, 0 without one: the queries go on as they did before it.
        rejection: why, None without one.
        vertices_read: vertices whose parallelism the script's function asked for when it built the queries: these can't follow a
            plan of another parallelism without being built anew. None while that is unknown.
        downtime_ms: dead time of the last rescale in this driver: from the end of the old query, after its last batch,
            until the new one's first trigger began; or, if the queries ran on, how long all of them were held for it. None
            before the first rescale, and while one restarts them.
        notice: what people should know of this driver, None if there is nothing.
    """

    job: str
    epoch: int
    nonce: str
    sequence: int
    at: str
    state: DriverState
    version: int = 0
    parallelism: Mapping[str, int] = field(default_factory=dict)
    executors: tuple[ExecutorReport, ...] = ()
    queries: tuple[QueryReport, ...] = ()
    failure: FailureReport | None = None
    submission_id: str | None = None
    application_id: str | None = None
    ui_url: str | None = None
    rejected_version: int = 0
    rejection: FailureReport | None = None
    vertices_read: tuple[str, ...] | None = None
    downtime_ms: int | None = None
    notice: str | None = None
