"""Facets of a job for Airflow's OpenLineage provider: its bounds at the start, and its outcome.

The provider is optional, so this module is imported only when the provider requests the facets. The facets contain no datasets, because the
data that a script reads and writes is unknown. The provider reports the inlets and outlets of the task as datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.openlineage.extractors import OperatorLineage
from attr import define
from openlineage.client.facet_v2 import RunFacet, error_message_run

from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._core.scheduler.errors import AdaptiveSchedulerError

FACET = "adaptive_job"
"""Name of the run facet."""


@define
class AdaptiveJobRunFacet(RunFacet):
    """An adaptive job in one run of its task.

    Attributes:
        job: id of the job.
        jobType: STREAMING or BATCH.
        bounds: declared bounds of each vertex.
        parallelism: last active parallelism of each vertex; None before the end of the job, and for a job that never ran.
        restarts: number of restarts; None before the end of the job.
        rescales: number of rescales; None before the end of the job.
        outcome: FINISHED, SUSPENDED, CANCELED or FAILED; None before the end of the job, and if its loop failed.
    """

    job: str
    jobType: str
    bounds: dict[str, dict[str, int]]
    parallelism: dict[str, int] | None = None
    restarts: int | None = None
    rescales: int | None = None
    outcome: str | None = None


def lineage(job: DeclaredJob, event: Mapping[str, Any] | None = None) -> OperatorLineage[Any, Any]:
    """Return the facets of a job. `event` is the event of its loop, None while the job runs."""
    ended = event or {}
    results = {name: ended.get(name) for name in ("parallelism", "restarts", "rescales", "outcome")}
    kind = "BATCH" if job.is_batch else "STREAMING"
    facets: dict[str, Any] = {
        FACET: AdaptiveJobRunFacet(job=job.job, jobType=kind, bounds=_bounds(job), **results)  # type: ignore[arg-type]
    }
    if problem := ended.get("cause") or ended.get("message"):
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=problem, programmingLanguage="python")
    return OperatorLineage(run_facets=facets)


def _bounds(job: DeclaredJob) -> dict[str, dict[str, int]]:
    """Return the bounds of each vertex; empty for an invalid declaration, which the error of the task describes."""
    try:
        requirements = job.graph().requirements
    except (AdaptiveSchedulerError, ValueError, TypeError):
        return {}
    return {vertex: {"lower": bounds.lower, "upper": bounds.upper} for vertex, bounds in requirements.items()}
