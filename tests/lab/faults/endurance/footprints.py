"""What a job and its loop may occupy after weeks: the last week must not add to what the first week left."""

from __future__ import annotations

import logging
from datetime import timedelta

from tests.lab.faults.endurance.long_run import OPTIONS, WEEK, Footprint, LongRun

LOGGED_BETWEEN = 100
"""Documents from one compaction of the log to the next (`journal`)."""

NOISE_BLOCKS = 5_000
NOISE_BYTES = 512 << 10
"""Two footprints are never taken at the same point of the journal, and bounded collections may still fill: transitions, metrics. In the long test this is
a few blocks for each thing that happens."""

LOG_DOCUMENT_BYTES = 32 << 10
"""With the 16 newest failures, and a rescale that is under way; the format's limit is 1 MiB."""

XCOM_BYTES = 64 << 10
"""All that some backends take."""


async def footprints_after_weeks(run: LongRun, week: timedelta = WEEK, count: int = 3) -> list[Footprint]:
    """The footprint after each week."""
    footprints = []
    logging.disable()  # Log records take most of the time, and the loop does not keep them.
    try:
        for _ in range(count):
            await run.live(week)
            footprints.append(await run.footprint())
    finally:
        logging.disable(logging.NOTSET)
    return footprints


def assert_no_growth(run: LongRun, footprints: list[Footprint]) -> None:
    """The last week left no more than the first."""
    first, last = footprints[0], footprints[-1]
    assert last.blocks - first.blocks < NOISE_BLOCKS, footprints
    assert last.traced_memory - first.traced_memory < NOISE_BYTES, footprints
    assert last.descriptors <= first.descriptors
    assert last.threads <= first.threads
    for footprint in footprints:
        assert footprint.journal_documents <= OPTIONS["history_size"] + LOGGED_BETWEEN
        assert footprint.history_documents <= OPTIONS["history_size"] + LOGGED_BETWEEN
    assert run.largest_document < LOG_DOCUMENT_BYTES
    assert run.published.largest < XCOM_BYTES
