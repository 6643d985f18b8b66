"""Bodies about jobs: lists, details and the timeline."""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum
from typing import Any

from pydantic import Field

from airflow_adaptive.plugin.data.documents import (
    CurrentMetrics,
    Decision,
    Document,
    Policy,
    Range,
    RequestRecord,
    Summary,
    Transition,
)
from airflow_adaptive.ports import DesiredState


class Step(IntEnum):
    """Resolution of metrics, in seconds."""

    TEN_SECONDS = 10
    MINUTE = 60
    TEN_MINUTES = 600


class JobItem(Summary):
    """A job in a list."""

    job: str = Field(examples=["departures"])
    dag_ids: list[str] = Field(description="DAGs that name the Asset of the job.")
    desired_state: DesiredState | None = Field(description="Last requested state.")
    published_at: datetime | None = Field(description="Time of the last publication of the job; null if there is none.")
    metrics: CurrentMetrics | None = None


class JobCollection(Document):
    """One page of the list of jobs."""

    jobs: list[JobItem]
    total_entries: int = Field(description="Number of jobs on all pages.")


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
    lower: int = Field(description="Declared lower bound.")
    upper: int = Field(description="Declared upper bound.")
    max_parallelism: int
    stateful: bool
    slot_sharing_group: str
    inputs: list[str]


class JobDetails(JobItem):
    """A job with all of its details."""

    requesters: dict[str, RequestRecord] = Field(
        description="Kind of control request -> requester of the newest request."
    )
    policy: Policy | None = Field(default=None, description="Rescale policy of the job; null without a policy.")
    editable: bool | None = Field(description="Whether you may change the job.")
    reactive: bool | None
    pending_requirements: dict[str, Range] | None = Field(description="Requested bounds that are not active yet.")
    deadlines: list[Deadline]
    waiting: Waiting | None
    backoff: Backoff | None
    vertices: list[Vertex]
    options: dict[str, Any] = Field(description="Options of the scheduler, with durations in seconds.")


class Timeline(Document):
    """Transitions and decisions of the scheduler with their reasons, newest first."""

    transitions: list[Transition]
    decisions: list[Decision]
