"""The check of the tier 0 test fails for a second of the rate source that is lost or counted twice.

`recorded_sinks/counted_rate` contains the first batches of a real run of that test.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.faults.harness.sink_log import BatchWrite, read_writes
from tests.support.driver.rate_counts import KEYS, ROWS_PER_S, check_counts, true_counts

RECORDED = Path(__file__).with_name("recorded_sinks") / "counted_rate"


def miscounted(second: int, times: int) -> list[BatchWrite]:
    """The recorded batches, as if that second had been counted so many times more."""
    numbers = range(second * ROWS_PER_S, (second + 1) * ROWS_PER_S)
    wrong = Counter(number % KEYS for number in numbers)
    return [
        replace(write, rows=tuple((key, count + times * wrong[key]) for key, count in write.rows))
        if int(write.end or 0) > second
        else write
        for write in read_writes(RECORDED)
    ]


def test_recorded_batches_have_the_counts_of_the_input() -> None:
    writes = read_writes(RECORDED)
    assert int(writes[-1].end or 0) > 8
    check_counts(writes)


def test_number_of_keys_is_coprime_to_the_rate() -> None:
    assert math.gcd(KEYS, ROWS_PER_S) == 1
    assert len(set(true_counts(1).values())) == 2


@pytest.mark.parametrize("second", [0, 8, 12])
@pytest.mark.parametrize("times", [-1, 1], ids=["lost", "counted twice"])
def test_second_that_is_lost_or_counted_twice_is_detected(second: int, times: int) -> None:
    with pytest.raises(AssertionError, match="wrong counts after batch"):
        check_counts(miscounted(second, times))


def test_batch_that_is_lost_is_detected() -> None:
    """The next batch contains the newest counts of all keys, so the loss shows in no later batch."""
    writes = read_writes(RECORDED)
    skipped = [replace(writes[2], rows=writes[1].rows), *writes[3:]]
    with pytest.raises(AssertionError, match="wrong counts after batch 2"):
        check_counts([*writes[:2], *skipped])
