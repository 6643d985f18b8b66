"""The folder in which a job was deployed last, in the asset state store. Loops and drivers of the job use its directory there."""

from __future__ import annotations

from typing import Final

from airflow_adaptive.stores.job_asset import job_asset

BASE: Final = "job_directory"
"""Key of the URI of the folder that contains the job directory."""


def deployed_base(job: str) -> str | None:
    """Return the URI of the folder that contains the directory of a job, None for a job that was not deployed yet; blocks."""
    base = job_asset(job).store.get(BASE)
    return base if isinstance(base, str) else None


def record_base(job: str, base: str) -> None:
    """Record the folder in which a job is deployed now; blocks."""
    job_asset(job).store.set(BASE, base)
