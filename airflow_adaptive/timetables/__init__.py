"""Airflow timetables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive._airflow.internals import require_airflow
from airflow_adaptive._core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable as RescalePolicyTimetable

require_airflow()

__all__, __getattr__ = lazy_exports(__name__, __file__)
