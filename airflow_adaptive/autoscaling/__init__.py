"""Rescale policies: they advise the bounds of a job by a calendar, by the load of the job or by both.

This package exports everything that a DAG author needs to declare or to write a policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive._core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive._core.requirements.advice import Advice as Advice
    from airflow_adaptive._core.requirements.advice import PolicyInput as PolicyInput
    from airflow_adaptive._core.requirements.advice import QueryMetrics as QueryMetrics
    from airflow_adaptive._core.requirements.advice import VertexLimits as VertexLimits
    from airflow_adaptive.autoscaling.calendar.changes import upcoming_changes as upcoming_changes
    from airflow_adaptive.autoscaling.calendar.declaration import period as period
    from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy as scheduled_policy
    from airflow_adaptive.autoscaling.calendar.declaration import window as window
    from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy as ScheduledPolicy
    from airflow_adaptive.autoscaling.calendar.violations import LookAhead as LookAhead
    from airflow_adaptive.autoscaling.combined import CombinedPolicy as CombinedPolicy
    from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy as LoadPolicy
    from airflow_adaptive.autoscaling.policy import EVERY_VERTEX as EVERY_VERTEX
    from airflow_adaptive.autoscaling.policy import Bounds as Bounds
    from airflow_adaptive.autoscaling.policy import RescalePolicy as RescalePolicy
    from airflow_adaptive.autoscaling.policy import RescalePolicyError as RescalePolicyError

__all__, __getattr__ = lazy_exports(__name__, __file__)
