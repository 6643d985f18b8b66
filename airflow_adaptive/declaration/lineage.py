"""What Airflow's OpenLineage provider is told about a job: its bounds when it starts, and how it ended.

The provider is optional, so this module is imported when the provider asks. Datasets are not told: what a script reads and writes is
known to the script, and the provider takes those that the task names as inlets and outlets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.openlineage.extractors import OperatorLineage
from attr import define
from openlineage.client.facet_v2 import RunFacet, error_message_run

from airflow_adaptive.declaration.declared_job import DeclaredJob
from airflow_adaptive.scheduler.errors import AdaptiveSchedulerError

FACET = "adaptive_job"
"""Name of the facet among those of a run."""


@define
class AdaptiveJobRunFacet(RunFacet):
    """An adaptive job, as one run of its task sees it.

    Attributes:
        job: id of the job.
        jobType: STREAMING or BATCH.
        bounds: declared bounds of each vertex.
        parallelism: of each vertex, that was in force last; None before the job has ended, and if it never ran.
        restarts: None before the job has ended.
        rescales: None before the job has ended.
        outcome: FINISHED, SUSPENDED, CANCELED or FAILED; None before the job has ended, and if its loop could not go on.
    """

    job: str
    jobType: str
    bounds: dict[str, dict[str, int]]
    parallelism: dict[str, int] | None = None
    restarts: int | None = None
    rescales: int | None = None
    outcome: str | None = None


def lineage(job: DeclaredJob, event: Mapping[str, Any] | None = None) -> OperatorLineage[Any, Any]:
    """What is known of a job, for OpenLineage.

    Args:
        job: as declared.
        event: how its loop ended, None while it runs.
    """
    ended = event or {}
    told = {name: ended.get(name) for name in ("parallelism", "restarts", "rescales", "outcome")}
    kind = "BATCH" if job.is_batch else "STREAMING"
    facets: dict[str, Any] = {
        FACET: AdaptiveJobRunFacet(job=job.job, jobType=kind, bounds=_bounds(job), **told)  # type: ignore[arg-type]
    }
    if problem := ended.get("cause") or ended.get("message"):
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=problem, programmingLanguage="python")
    return OperatorLineage(run_facets=facets)


def _bounds(job: DeclaredJob) -> dict[str, dict[str, int]]:
    """Bounds of each vertex; none of a job whose declaration is refused, of which its task tells."""
    try:
        requirements = job.graph().requirements
    except (AdaptiveSchedulerError, ValueError, TypeError):
        return {}
    return {vertex: {"lower": bounds.lower, "upper": bounds.upper} for vertex, bounds in requirements.items()}
