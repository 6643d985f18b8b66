"""The counts of the numbers of Spark's rate source by key, as the input determines them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.lab.faults.harness.sink_log import BatchWrite, written

ROWS_PER_S: Final = 100

KEYS: Final = 97
"""Coprime to the rate: a second that is lost or read twice changes the counts of the keys differently."""


def true_counts(seconds: int) -> dict[int, int]:
    """The count of each key among the numbers that the rate source has in so many seconds."""
    numbers = seconds * ROWS_PER_S
    return {key: len(range(key, numbers, KEYS)) for key in range(min(KEYS, numbers))}


def check_counts(writes: Iterable[BatchWrite]) -> None:
    """After each batch, the newest count of each key must be its count in the input up to the offset of the batch."""
    counts: dict[int, int] = {}
    for write in written(writes):
        counts |= dict(write.rows)
        assert counts == true_counts(int(write.end or 0)), f"wrong counts after batch {write.batch}"
