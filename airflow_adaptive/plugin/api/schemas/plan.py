"""Bodies about the plan of a job."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from airflow_adaptive.plugin.data.documents import Document, Executor


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


class Plan(Document):
    """Placement of the subtasks of a job."""

    version: int | None
    reported_at: datetime | None = Field(description="Time of the driver status.")
    load_balance_mode: str
    vertices: list[PlannedVertex]
    slots: PlannedSlots
    executors: list[Executor]
    workers: list[PlannedWorker]
    imbalance: float | None = Field(description="Largest load of a worker as a multiple of the average.")
