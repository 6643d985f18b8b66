"""A job that runs for weeks with few rescales and failures."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.faults.endurance.footprints import check, weeks_of
from tests.faults.endurance.long_run import Weeks


def test_weeks_leave_no_more_than_the_first_one(tmp_path: Path) -> None:
    world = Weeks(tmp_path, between=timedelta(hours=14))
    check(world, asyncio.run(weeks_of(world)))
    assert world.happened["recycled"] > 20
    assert sum(world.happened.values()) > 50
    assert min(world.shown.rescales, world.shown.restarts) > 5
