"""The lag that the loop knows, compared with the true lag in random runs of a job."""

from __future__ import annotations

import pytest

from airflow_adaptive.job.queries.sources.source_monitor import MAX_POLL_AGE_S
from airflow_adaptive.runtime.observation.source_lag import MAX_AGE
from tests.support.runtime.lag_simulation import STATUS_INTERVAL_S, THRESHOLD_S, Job

TOLERANCE_S = MAX_AGE.total_seconds() + MAX_POLL_AGE_S + STATUS_INTERVAL_S
"""Time for which the loop takes the lag of a status for known, and the driver that of a poll."""

END_S = 3000.0


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(50))
async def test_lag_is_never_too_small_unless_it_is_a_minimum_and_no_alert_ends_too_soon(seed: int) -> None:
    known = 0
    async for moment in Job(seed, END_S).moments():
        lag = moment.lag
        assert lag.seconds is None or lag.is_minimum or lag.seconds >= moment.true_s - TOLERANCE_S, moment
        assert not moment.is_alert_over or moment.true_s <= THRESHOLD_S + TOLERANCE_S, moment
        known += lag.seconds is not None and not lag.is_minimum
    assert known > END_S / 100
