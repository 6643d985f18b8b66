"""Airflow triggers. The triggerer loads one trigger without the others, so the exports are lazy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive._airflow.internals import require_airflow
from airflow_adaptive._core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive._airflow.process.job_control import JobEvent as JobEvent
    from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger as AdaptiveJobTrigger
    from airflow_adaptive.triggers.job_state import AdaptiveJobEventTrigger as AdaptiveJobEventTrigger
    from airflow_adaptive.triggers.job_state import JobStateTrigger as JobStateTrigger
    from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger as SparkResourcesTrigger

require_airflow()

__all__, __getattr__ = lazy_exports(__name__, __file__)
