"""What runs inside the Spark driver; ships to the cluster as a zip and needs nothing but pyspark.

A DAG author's script imports `AdaptiveJob` from here. Whoever runs outside the driver imports `documents` and `conf`,
which are standard library only: so this package itself must not import pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_adaptive.job.entry.adaptive_job import AdaptiveJob

__all__ = ["AdaptiveJob"]


def __getattr__(name: str) -> Any:
    if name == "AdaptiveJob":
        from airflow_adaptive.job.entry.adaptive_job import AdaptiveJob  # noqa: PLC0415

        return AdaptiveJob
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
