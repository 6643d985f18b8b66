"""A job runs for weeks: whatever happens to it, what it leaves behind and what its loop keeps do not grow."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.lab.faults.endurance.footprints import assert_no_growth, footprints_after_weeks
from tests.lab.faults.endurance.long_run import LongRun


@pytest.fixture
def traced() -> Iterator[None]:
    """Python counts its memory, which makes it slow."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("traced")
def test_thousands_of_rescales_leave_no_more_than_hundreds(tmp_path: Path) -> None:
    run = LongRun(tmp_path, between=timedelta(minutes=30))
    footprints = asyncio.run(footprints_after_weeks(run))
    print(run.happened, *footprints, sep="\n")
    assert_no_growth(run, footprints)
    assert footprints[-1].scheduler_bytes < 1.1 * footprints[0].scheduler_bytes
    assert sum(run.happened.values()) > 1000
    assert min(run.published.rescales, run.published.restarts) > 200
