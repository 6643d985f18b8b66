"""A job runs for weeks: whatever happens to it, what it leaves behind and what its loop keeps do not grow."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.weeks import OPTIONS, WEEK, Footprint, Weeks

LOGGED_BETWEEN = 100
"""Documents from one compaction of the log to the next (`journal`)."""

NOISE_BLOCKS = 5_000
NOISE_BYTES = 512 << 10
"""Two footprints never lie at the same point of the log, and what is bounded may still fill: transitions, figures. In the long test this is
a few blocks for each thing that happens."""

LOG_DOCUMENT_BYTES = 32 << 10
"""With the 16 newest failures, and a rescale that is under way; the format's limit is 1 MiB."""

XCOM_BYTES = 64 << 10
"""All that some backends take."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is logged at each step would take most of the time, and is not kept by the loop."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def traced() -> Iterator[None]:
    """Python counts its memory, which makes it slow."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def weeks_of(world: Weeks, week: timedelta = WEEK, count: int = 3) -> list[Footprint]:
    """The footprint after each week."""
    footprints = []
    for _ in range(count):
        await world.live(week)
        footprints.append(await world.footprint())
    return footprints


def check(world: Weeks, footprints: list[Footprint]) -> None:
    """The last week left no more than the first."""
    first, last = footprints[0], footprints[-1]
    assert last.blocks - first.blocks < NOISE_BLOCKS, footprints
    assert last.memory - first.memory < NOISE_BYTES, footprints
    assert last.descriptors <= first.descriptors
    assert last.threads <= first.threads
    for footprint in footprints:
        assert footprint.journal_documents <= OPTIONS["history_size"] + LOGGED_BETWEEN
        assert footprint.history_documents <= OPTIONS["history_size"] + LOGGED_BETWEEN
    assert world.largest_document < LOG_DOCUMENT_BYTES
    assert world.shown.largest < XCOM_BYTES


def test_weeks_leave_no_more_than_the_first_one(tmp_path: Path) -> None:
    world = Weeks(tmp_path, between=timedelta(hours=14))
    check(world, asyncio.run(weeks_of(world)))
    assert world.happened["recycled"] > 20
    assert sum(world.happened.values()) > 50
    assert min(world.shown.rescales, world.shown.restarts) > 5


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("traced")
def test_thousands_of_rescales_leave_no_more_than_hundreds(tmp_path: Path) -> None:
    world = Weeks(tmp_path, between=timedelta(minutes=30))
    footprints = asyncio.run(weeks_of(world))
    print(world.happened, *footprints, sep="\n")  # noqa: T201  for who waited so long
    check(world, footprints)
    assert footprints[-1].scheduler_bytes < 1.1 * footprints[0].scheduler_bytes
    assert sum(world.happened.values()) > 1000
    assert min(world.shown.rescales, world.shown.restarts) > 200
