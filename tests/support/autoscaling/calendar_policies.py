"""Rescale policies of a calendar, and their advice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_adaptive._core.requirements.advice import PolicyInput, VertexLimits
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.calendar import declaration
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.calendar.violations import LookAhead, Window

window: Callable[..., Window] = declaration.window
scheduled_policy: Callable[..., ScheduledPolicy] = declaration.scheduled_policy
LIMITS = {
    "read": VertexLimits(max_parallelism=16, declared=ParallelismRange(2, 4)),
    "count": VertexLimits(max_parallelism=16, declared=ParallelismRange(1, 8)),
}

QUICK = {Tier.QUERY: timedelta(minutes=2), Tier.DRIVER: timedelta(hours=1)}
EXACT = LookAhead(margin=0.0)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def advice(policy, when, costs=QUICK, memory=None):
    seen = PolicyInput(at=at(when), requirements={}, limits=LIMITS, rescale_costs=costs)
    return policy.advise(policy.remember() if memory is None else memory, seen)


def read(policy, when, costs=QUICK) -> tuple[int, int]:
    """Bounds of one vertex."""
    bounds = advice(policy, when, costs)[1].bounds["read"]
    return bounds.lower, bounds.upper


def office(**options: Any) -> ScheduledPolicy:
    """More by day on weekdays."""
    hours = window("day", (4, 8), weekdays="mon-fri", start="08:00", end="20:00", holidays="never")
    return scheduled_policy(**({"zone": "UTC", "windows": [hours], "default": (1, 4), "look_ahead": EXACT} | options))
