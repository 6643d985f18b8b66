"""What the API answers with; the names of Flink's bodies are Flink's."""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from airflow_adaptive.ports import DesiredState
from airflow_adaptive.runtime.requirements.dry_run import Consequence

VERTEX = "job"
"""In examples; it is what the only vertex of a job without a graph is called."""


class Answer(BaseModel):
    """Base of all answers: fields that a later version adds are no error."""

    model_config = ConfigDict(extra="ignore")


# ---- errors ---------------------------------------------------------------------------------------------------------


class Problem(Answer):
    """An error (RFC 9457)."""

    type: str = Field(description="Kind of problem, for programs.", examples=["urn:airflow-adaptive:problem:not-found"])
    title: str = Field(description="HTTP's name of the status.", examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="What is wrong and what to do.", examples=["There is no adaptive job 'arivals'."])
    instance: str = Field(description="Path of the request.", examples=["/adaptive/api/v1/jobs/arivals"])
    errors: list[str] = Field(default=[], description="Everything that is wrong, if it is more than that.")


# ---- resource requirements ------------------------------------------------------------------------------------------


class Bounds(BaseModel):
    """Bounds of a vertex's parallelism; -1 resets one to its default."""

    model_config = ConfigDict(extra="forbid")

    lowerBound: int = Field(ge=-1, le=(1 << 31) - 1, examples=[1])
    upperBound: int = Field(ge=-1, le=(1 << 31) - 1, examples=[4])


class VertexRequirements(BaseModel):
    """What a vertex may have."""

    model_config = ConfigDict(extra="forbid")

    parallelism: Bounds


Requirements = dict[str, VertexRequirements]
"""FLIP-291's `JobResourceRequirementsBody`: every vertex of the job."""

REQUIREMENTS_EXAMPLE: dict[str, Any] = {VERTEX: {"parallelism": {"lowerBound": 1, "upperBound": 4}}}


class PreviewedSlots(Answer):
    """Slots of a dry run."""

    available: int = Field(description="That the job holds or was offered; the cluster may have more.")
    minimum: int = Field(description="Without which it can't run under the new requirements.")
    maximum: int = Field(description="That it takes at most under them.")
    missing: int = Field(description="That it would wait for.")


class Decision(Answer):
    """Why the scheduler did something, or nothing."""

    at: datetime
    state: str
    reason: str


class Preview(Answer):
    """What requirements would lead to now."""

    consequence: Consequence
    reason: str = Field(description="In plain words.")
    requirements: Requirements = Field(description="Complete, without -1.")
    before: dict[str, int] | None = Field(description="Parallelism in force, null if no plan is.")
    after: dict[str, int] | None = Field(description="Parallelism that follows once the slots are there, or null.")
    tier: str | None = Field(description="How the rescale is carried out: EXECUTORS, QUERY, STATE or DRIVER.")
    held_back_until: datetime | None = Field(description="End of the cooldown that holds it back, or null.")
    at: datetime | None = Field(
        description="When it happens at the latest if nothing else does; a committed batch may let it happen sooner."
    )
    slots: PreviewedSlots
    decisions: list[Decision] = Field(description="Of the scheduler on the way, in its own words.")


# ---- jobs -----------------------------------------------------------------------------------------------------------


class SchedulerStateName(StrEnum):
    """States of the adaptive scheduler (FLIP-160), and `unknown` while a job has shown none."""

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


class Range(Answer):
    """Bounds of a vertex in force."""

    lower: int
    upper: int


class Slots(Answer):
    """Slots of a job."""

    held: int
    available: int = Field(description="Held, or offered.")


class Transition(Answer):
    """A change of state."""

    at: datetime
    source: str
    target: str
    version: int
    before: dict[str, int] | None = None
    after: dict[str, int] | None = None
    tier: int | None = Field(default=None, description="Rung of the rescale ladder, 0 to 3.")
    reason: str


class TaskInstance(Answer):
    """The task instance that runs, or ran, a job."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1


class Urls(Answer):
    """Addresses of Spark's pages."""

    master: str | None = None
    driver: str | None = None
    executors: str | None = None
    stdout: str | None = None
    stderr: str | None = None


class BoundsBy(Answer):
    """Whose bounds are in force."""

    kind: str = Field(
        description=(
            "DAG: as declared; CALENDAR: set by a DAG that is a calendar; POLICY: advised by the job's own rescale policy; "
            "USER: set by somebody, and above all others."
        )
    )
    source: str = Field(description='Who, for people: "dag", "calendar", "load", "calendar and load", or a name.')
    via: str | None = Field(default=None, description="By what way they were set.")
    since: datetime | None = Field(default=None, description="Since when they hold.")
    until: datetime | None = Field(
        default=None, description="When a person's expire, or a policy's change by themselves; null for never."
    )
    reason: str = ""


class Summary(Answer):
    """A job in short, as its loop shows it."""

    job_type: str = "STREAMING"
    state: SchedulerStateName = SchedulerStateName.UNKNOWN
    since: datetime | None = Field(default=None, description="Since when it is in this state.")
    outcome: str | None = Field(default=None, description="How it ended: FINISHED, CANCELED, FAILED or SUSPENDED.")
    cause: str | None = Field(default=None, description="Why it failed.")
    parallelism: dict[str, int] | None = Field(default=None, description="In force, null without a plan.")
    requirements: dict[str, Range] = Field(default={}, description="In force.")
    bounds_by: BoundsBy | None = Field(default=None, description="Whose they are; null while that is not known.")
    slots: Slots | None = None
    restarts: int = 0
    rescales: int = 0
    failures: int = Field(default=0, description="Failures that are remembered.")
    last_transition: Transition | None = None
    urls: Urls = Urls()
    attempt: str | None = None
    task: TaskInstance | None = None


class Figures(Answer):
    """The newest figures of a job."""

    at: int = Field(description="Seconds since the epoch.")
    slots: int
    lower: int
    upper: int
    input: float | None = Field(description="Rows read per second.")
    processed: float | None = Field(description="Rows per second while a batch runs.")
    batch_ms: int | None
    backlog: int | None = Field(description="Rows that wait at the sources.")


class JobItem(Summary):
    """A job in a list."""

    job: str = Field(examples=["departures"])
    dag_ids: list[str] = Field(description="DAGs that name the job.")
    desired_state: DesiredState | None = Field(description="What was asked last.")
    updated_at: datetime | None = Field(description="When the job showed something last; null if it never did.")
    figures: Figures | None = None


class JobCollection(Answer):
    """Some jobs of all that were found."""

    jobs: list[JobItem]
    total_entries: int = Field(description="How many there are on all pages.")


class Asked(Answer):
    """Who asked for something."""

    by: str
    at: datetime
    via: str
    until: datetime | None = Field(default=None, description="Of bounds: when they expire; null for never.")


class Clock(Answer):
    """A deadline of the scheduler."""

    name: str = Field(examples=["TRANSITION"])
    due: datetime


class Waiting(Answer):
    """How far the scheduler is on its way to act on a change (Flink's state transition manager)."""

    phase: str = Field(description="Cooldown, Idling, Stabilizing, Stabilized or Transitioning.")
    cooldown_ends: datetime
    first_change: datetime | None


class Backoff(Answer):
    """A wait before a restart."""

    seconds: float
    ends: datetime | None = Field(description="Null until all has stopped that must stop.")


class Vertex(Answer):
    """A vertex of the job graph."""

    name: str
    lower: int = Field(description="Declared.")
    upper: int = Field(description="Declared.")
    max_parallelism: int
    stateful: bool
    slot_sharing_group: str
    inputs: list[str]


class Advice(Answer):
    """What a rescale policy advises."""

    at: datetime = Field(description="When it was given, or changed.")
    since: datetime = Field(description="Since when it has advised these bounds.")
    bounds: dict[str, Range]
    source: str
    reason: str
    next_at: datetime | None = Field(default=None, description="When it changes by itself; null for never.")


class Policy(Answer):
    """The rescale policy of a job."""

    kind: str = Field(examples=["CombinedPolicy"])
    dry_run: bool = Field(description="Its advice is told only.")
    acts: bool = Field(description="Whether the bounds in force are its own.")
    advice: Advice | None = None
    problem: str | None = Field(default=None, description="Why it is not followed now.")


class JobDetails(JobItem):
    """A job with all that is at hand."""

    asked: dict[str, Asked] = Field(description="Who asked for what the inbox has.")
    policy: Policy | None = Field(default=None, description="The job's own rescale policy; null without one.")
    editable: bool | None = Field(description="Whether you may change it.")
    reactive: bool | None
    pending_requirements: dict[str, Range] | None = Field(description="Asked for, and not in force yet.")
    clocks: list[Clock]
    waiting: Waiting | None
    backoff: Backoff | None
    vertices: list[Vertex]
    options: dict[str, Any] = Field(description="The scheduler's options; durations in seconds.")


# ---- plan -----------------------------------------------------------------------------------------------------------


class PlannedVertex(Answer):
    """A vertex, as planned and as it runs."""

    name: str
    planned: int | None
    effective: int | None = Field(description="As the driver reports it.")
    lower: int
    upper: int
    max_parallelism: int
    slot_sharing_group: str
    stateful: bool


class Executor(Answer):
    """An executor of the job."""

    executor_id: str
    cores: int
    worker: str


class PlannedSlots(Answer):
    """Slots of a plan."""

    planned: int | None
    kept: int | None = Field(description="That the driver may hold: those above the plan are idle, for a while.")
    held: int
    available: int
    minimum: int
    maximum: int


class Subtask(Answer):
    """A subtask in a slot."""

    vertex: str
    index: int


class PlannedWorker(Answer):
    """A worker with the job's slots there."""

    worker: str
    address: str
    slots: list[list[Subtask]] | None = Field(description="Subtasks of each slot; null if there are too many to show.")
    slot_count: int
    load: float


class Plan(Answer):
    """Where the job's subtasks run."""

    version: int | None
    reported_at: datetime | None = Field(description="Of the driver's report.")
    load_balance_mode: str
    vertices: list[PlannedVertex]
    slots: PlannedSlots
    executors: list[Executor]
    workers: list[PlannedWorker]
    imbalance: float | None = Field(description="Largest load of a worker as a multiple of the average.")


# ---- observations ---------------------------------------------------------------------------------------------------


class Step(IntEnum):
    """Resolution of figures, seconds."""

    TEN_SECONDS = 10
    MINUTE = 60
    TEN_MINUTES = 600


class Metrics(Answer):
    """Figures over time, oldest first: a row per step with a value for each column."""

    step: int
    columns: list[str]
    points: list[list[Any]]


class Timeline(Answer):
    """What the scheduler did and why, newest first."""

    transitions: list[Transition]
    decisions: list[Decision]


class Failure(Answer):
    """What went wrong."""

    error_class: str
    message: str
    causes: list[str] = []


class FailureEntry(Answer):
    """A failure that something followed from, and those that came with it."""

    at: datetime
    state: str
    failure: Failure
    decision: str
    concurrent: list[Failure] = []


class Failures(Answer):
    """Failures that are remembered, newest first."""

    failures: list[FailureEntry]
    total_entries: int
