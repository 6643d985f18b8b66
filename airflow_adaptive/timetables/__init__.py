"""Airflow timetables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive.airflow_internals import require_airflow
from airflow_adaptive.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable as RescalePolicyTimetable

require_airflow()

__all__, __getattr__ = lazy_exports(__name__, __file__)
