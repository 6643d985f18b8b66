"""Airflow sensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive._airflow.internals import require_airflow
from airflow_adaptive._core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive.sensors.adaptive_job import AdaptiveJobSensor as AdaptiveJobSensor
    from airflow_adaptive.sensors.spark_resources import SparkResourcesSensor as SparkResourcesSensor

require_airflow()

__all__, __getattr__ = lazy_exports(__name__, __file__)
