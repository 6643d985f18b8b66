"""A load policy that observes a query with the default settings of the tests."""

from __future__ import annotations

from datetime import timedelta

from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from tests.support.autoscaling.load_policy_inputs import Watched

POLICY = LoadPolicy(
    target=0.7,
    high=0.85,
    catch_up=timedelta(minutes=5),
    up_delay=timedelta(seconds=10),
    down_delay=timedelta(minutes=10),
    up_factor=4.0,
    down_factor=0.5,
    rescales_per_day=96,
)


def watched(slots: int = 4, **changes: object) -> Watched:
    policy = LoadPolicy.of(
        {name: getattr(POLICY, name) for name in ("target", "high", "down_delay", "up_factor", "down_factor")} | changes
    )
    return Watched(policy, slots=slots)
