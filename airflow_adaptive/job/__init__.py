"""The code that runs in the Spark driver. It ships to the cluster as a zip file and requires pyspark only.

A job script imports `AdaptiveJob` and `observe_latency` from this package. Code outside the driver imports `_core.protocol`, which requires the
standard library only. Therefore this package imports pyspark only when a script accesses one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_adaptive._core.python_version import require_python

if TYPE_CHECKING:
    from airflow_adaptive.job.entry.adaptive_job import AdaptiveJob
    from airflow_adaptive.job.queries.progress import observe_latency

__all__ = ["AdaptiveJob", "observe_latency"]

require_python()


def __getattr__(name: str) -> Any:
    if name == "AdaptiveJob":
        from airflow_adaptive.job.entry.adaptive_job import AdaptiveJob  # noqa: PLC0415

        return AdaptiveJob
    if name == "observe_latency":
        from airflow_adaptive.job.queries.progress import observe_latency  # noqa: PLC0415

        return observe_latency
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
