"""Whether a job falls behind its sources, from the lags of its time series.

Theory: the lag of a job that keeps up is a sawtooth, because a batch reads what arrived before it. Of at least two batches, the least lag tells
whether the job reads what arrives. It grows if more arrives than the job processes, and if no batch is committed while rows wait. A rate tells
neither: no job reads more rows than it processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final


class LagTrend(StrEnum):
    """How the least lag of a job changes."""

    SHORT = "short"
    """The newest batches have read what had arrived, but for what arrives during two batches or a minute."""
    STEADY = "steady"
    """The lag is longer, and neither grows nor shrinks."""
    GROWS = "grows"
    SHRINKS = "shrinks"


SHORT_S: Final = 60.0
"""A lag up to this one is short, seconds."""

WINDOW_S: Final = 150
"""Shortest window: two windows are five minutes."""

LONG_WINDOW_S: Final = 1500
"""Two of these windows are in the finest resolution of the metrics, which covers an hour."""

FAST: Final = 0.1
SLOW: Final = 0.03
"""Growth of the lag in the window, and in the long window, per second: a job that processes 90 %, or 97 %, of what arrives."""


def lag_trend(lags: Sequence[tuple[int, float | None]], trigger_s: float, batch_s: float) -> LagTrend | None:
    """Return how the lag of a job changes, None if that is unknown.

    Args:
        lags: time in seconds, and lag in seconds or None while it is unknown; the oldest first.
        trigger_s: trigger interval, 0 without one.
        batch_s: duration of the newest batch.
    """
    if not lags or lags[-1][1] is None:
        return None
    now, period = lags[-1][0], max(trigger_s, batch_s)
    window = max(WINDOW_S, 2 * period)
    least = _least(lags, now - window, now)
    if least is not None and least <= max(SHORT_S, 2 * trigger_s):
        return LagTrend.SHORT
    trend = None
    for length, rate in ((window, FAST), (LONG_WINDOW_S, SLOW)):
        before, after = _least(lags, now - 2 * length, now - length), _least(lags, now - length, now)
        if length < window or lags[0][0] > now - 2 * length or before is None or after is None:
            continue
        if abs(after - before) >= rate * length:
            return LagTrend.GROWS if after > before else LagTrend.SHRINKS
        trend = LagTrend.STEADY if after > 2 * period else LagTrend.SHORT
    return trend


def _least(lags: Sequence[tuple[int, float | None]], begin: float, end: float) -> float | None:
    return min((lag for at, lag in lags if begin < at <= end and lag is not None), default=None)
