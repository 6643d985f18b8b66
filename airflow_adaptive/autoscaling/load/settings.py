"""Settings of `LoadPolicy` and their validation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta

from airflow_adaptive._core.scheduler.config.durations import LONGEST

NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Settings of `LoadPolicy`. The defaults were tuned on recorded loads (docs/rescale-policies.md).

    Attributes:
        target: busy share of the trigger interval after a change (Flink's autoscaler: utilization.target).
        high: busy share above which the query gets more slots (Flink: utilization.max).
        catch_up: time within which the query processes its backlog (Flink: catch-up.duration).
        up_delay: time for which the query is too busy before it gets more slots.
        down_delay: time for which the query needs fewer slots before it releases slots.
        idle_delay: time without input and backlog before the query releases all slots above its lower bound.
        up_factor: largest factor of a scale-up.
        down_factor: smallest factor of a scale-down.
        effectiveness: smallest share of the expected gain with which a scale-up is kept (Flink: scaling.effectiveness.threshold).
        ineffective_memory: time for which the policy does not repeat a scale-up without effect.
        rescales_per_day: maximum number of changes within 24 hours; the last quarter is reserved for scale-ups.
        frozen_after: time after which unchanged metrics count as frozen.
    """

    target: float = 0.7
    high: float = 0.9
    catch_up: timedelta = timedelta(minutes=5)
    up_delay: timedelta = timedelta(seconds=10)
    down_delay: timedelta = timedelta(minutes=30)
    idle_delay: timedelta = timedelta(minutes=2)
    up_factor: float = 10.0
    down_factor: float = 0.2
    effectiveness: float = 0.1
    ineffective_memory: timedelta = timedelta(hours=1)
    rescales_per_day: int = 96
    frozen_after: timedelta = timedelta(minutes=2)


def setting_violations(settings: LoadSettings) -> list[str]:
    """Return all violations of the settings; each text names the setting and the fix."""
    return list(_kinds(settings)) or list(_ranges(settings))


def _kinds(settings: LoadSettings) -> Iterator[str]:
    for row in fields(LoadSettings):
        value = getattr(settings, row.name)
        if isinstance(row.default, timedelta):
            if not isinstance(value, timedelta) or not NO_TIME < value <= LONGEST:
                yield f"{row.name} must be a duration longer than zero, not {value!r}"
        elif isinstance(row.default, int):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                yield f"{row.name} must be a whole number of at least 1, not {value!r}"
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            yield f"{row.name} must be a number, not {value!r}"


def _ranges(settings: LoadSettings) -> Iterator[str]:
    if not 0 < settings.target < settings.high <= 1:
        yield f"target {settings.target} and high {settings.high} must satisfy 0 < target < high <= 1"
    if not settings.up_factor > 1:
        yield f"up_factor must be a number above 1, not {settings.up_factor}"
    if not 0 <= settings.down_factor < 1:
        yield f"down_factor must be a number from 0 to below 1, not {settings.down_factor}"
    if not 0 <= settings.effectiveness < 1:
        yield f"effectiveness must be a number from 0 to below 1, not {settings.effectiveness}"
