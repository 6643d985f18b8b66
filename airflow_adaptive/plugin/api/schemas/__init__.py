"""Bodies of the REST API. Bodies of FLIP-291 and FLIP-487 keep Flink's names."""

from __future__ import annotations

from airflow_adaptive.plugin.api.schemas.failures import Failure, FailureEntry, Failures
from airflow_adaptive.plugin.api.schemas.jobs import (
    Backoff,
    Deadline,
    JobCollection,
    JobDetails,
    JobItem,
    Step,
    Timeline,
    Vertex,
    Waiting,
)
from airflow_adaptive.plugin.api.schemas.plan import Plan, PlannedSlots, PlannedVertex, PlannedWorker, Subtask
from airflow_adaptive.plugin.api.schemas.problem import Problem
from airflow_adaptive.plugin.api.schemas.requirements import (
    REQUIREMENTS_EXAMPLE,
    Bounds,
    Preview,
    PreviewedSlots,
    Requirements,
    VertexRequirements,
)

__all__ = [
    "REQUIREMENTS_EXAMPLE",
    "Backoff",
    "Bounds",
    "Deadline",
    "Failure",
    "FailureEntry",
    "Failures",
    "JobCollection",
    "JobDetails",
    "JobItem",
    "Plan",
    "PlannedSlots",
    "PlannedVertex",
    "PlannedWorker",
    "Preview",
    "PreviewedSlots",
    "Problem",
    "Requirements",
    "Step",
    "Subtask",
    "Timeline",
    "Vertex",
    "VertexRequirements",
    "Waiting",
]
