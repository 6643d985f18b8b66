"""Rescale policies: they advise the bounds of a job by a calendar, by the load of the job or by both.

This package exports everything that a DAG author needs to declare or to write a policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive.autoscaling.calendar.changes import upcoming_changes
    from airflow_adaptive.autoscaling.calendar.declaration import period, scheduled_policy, window
    from airflow_adaptive.autoscaling.calendar.scheduled_policy import LookAhead, ScheduledPolicy
    from airflow_adaptive.autoscaling.combined import CombinedPolicy
    from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
    from airflow_adaptive.autoscaling.policy import (
        EVERY_VERTEX,
        Advice,
        Bounds,
        Override,
        PolicyInput,
        QueryMetrics,
        RescalePolicy,
        RescalePolicyError,
        VertexLimits,
    )

__all__ = [
    "EVERY_VERTEX",
    "Advice",
    "Bounds",
    "CombinedPolicy",
    "LoadPolicy",
    "LookAhead",
    "Override",
    "PolicyInput",
    "QueryMetrics",
    "RescalePolicy",
    "RescalePolicyError",
    "ScheduledPolicy",
    "VertexLimits",
    "period",
    "scheduled_policy",
    "upcoming_changes",
    "window",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "airflow_adaptive.autoscaling.calendar.changes": ("upcoming_changes",),
        "airflow_adaptive.autoscaling.calendar.declaration": (
            "period",
            "scheduled_policy",
            "window",
        ),
        "airflow_adaptive.autoscaling.calendar.scheduled_policy": (
            "LookAhead",
            "ScheduledPolicy",
        ),
        "airflow_adaptive.autoscaling.combined": ("CombinedPolicy",),
        "airflow_adaptive.autoscaling.load.load_policy": ("LoadPolicy",),
        "airflow_adaptive.autoscaling.policy": (
            "Advice",
            "Bounds",
            "EVERY_VERTEX",
            "Override",
            "PolicyInput",
            "QueryMetrics",
            "RescalePolicy",
            "RescalePolicyError",
            "VertexLimits",
        ),
    },
)
