"""Bodies about resource requirements (FLIP-291), and the result of a preview."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from airflow_adaptive.plugin.data.documents import Decision, Document
from airflow_adaptive.runtime.requirements.dry_run import Consequence

VERTEX = "job"
"""Vertex of the examples: the name of the only vertex of a job without a graph."""


class Bounds(BaseModel):
    """Bounds of the parallelism of a vertex. -1 resets a bound to its default."""

    model_config = ConfigDict(extra="forbid")

    lowerBound: int = Field(ge=-1, le=(1 << 31) - 1, examples=[1])
    upperBound: int = Field(ge=-1, le=(1 << 31) - 1, examples=[4])


class VertexRequirements(BaseModel):
    """Resource requirements of a vertex."""

    model_config = ConfigDict(extra="forbid")

    parallelism: Bounds


Requirements = dict[str, VertexRequirements]
"""FLIP-291's `JobResourceRequirementsBody`: the resource requirements of every vertex of the job."""

REQUIREMENTS_EXAMPLE: dict[str, Any] = {VERTEX: {"parallelism": {"lowerBound": 1, "upperBound": 4}}}


class PreviewedSlots(Document):
    """Slots in a preview."""

    available: int = Field(description="Slots that the job holds or was offered. The cluster may have more slots.")
    minimum: int = Field(description="Minimum number of slots to run with the new requirements.")
    maximum: int = Field(description="Maximum number of slots that the job uses with the new requirements.")
    missing: int = Field(description="Number of slots that the job would wait for.")


class Preview(Document):
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
