"""Airflow triggers. The triggerer loads one trigger without the others, so the exports are lazy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive.launch.job_events import JobEvent
    from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
    from airflow_adaptive.triggers.job_state import AdaptiveJobEventTrigger, JobStateTrigger
    from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger

__all__ = [
    "AdaptiveJobEventTrigger",
    "AdaptiveJobTrigger",
    "JobEvent",
    "JobStateTrigger",
    "SparkResourcesTrigger",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "airflow_adaptive.launch.job_events": ("JobEvent",),
        "airflow_adaptive.triggers.adaptive_job": ("AdaptiveJobTrigger",),
        "airflow_adaptive.triggers.job_state": (
            "AdaptiveJobEventTrigger",
            "JobStateTrigger",
        ),
        "airflow_adaptive.triggers.spark_resources": ("SparkResourcesTrigger",),
    },
)
