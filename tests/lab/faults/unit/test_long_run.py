"""A job that runs for weeks with few rescales and failures."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.lab.faults.endurance.footprints import assert_no_growth, footprints_after_weeks
from tests.lab.faults.endurance.long_run import LongRun


@pytest.mark.long
def test_weeks_leave_no_more_than_the_first_one(tmp_path: Path) -> None:
    run = LongRun(tmp_path, between=timedelta(hours=14))
    assert_no_growth(run, asyncio.run(footprints_after_weeks(run)))
    assert run.happened["recycled"] > 20
    assert sum(run.happened.values()) > 50
    assert min(run.published.rescales, run.published.restarts) >= 5
