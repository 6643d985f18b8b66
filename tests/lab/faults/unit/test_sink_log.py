"""The checks of the strict sink fail for each way in which a row can be lost or duplicated, and for drivers that overlap.

`recorded_sinks` contains the files of real jobs. In `driver_killed`, the driver was killed twice. In `checkpoint_lost`, the driver was
killed, and its checkpoint was removed before the next driver began.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.faults.harness import sink_log
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.sink_log import BatchWrite, SinkError, check, drivers_at_once, read_writes

RECORDED = Path(__file__).with_name("recorded_sinks")

OVERLAP_MS = 200


def recorded(name: str = "driver_killed") -> list[BatchWrite]:
    return read_writes(RECORDED / name)


ROWS = range(len(sink_log.row_ids(recorded())))
"""That the job of `driver_killed` had to write."""


def moved(write: BatchWrite, milliseconds: int) -> BatchWrite:
    ended = None if write.ended is None else write.ended + milliseconds
    return replace(write, began=write.began + milliseconds, ended=ended)


def first_of(writes: list[BatchWrite], epoch: int) -> int:
    return next(number for number, write in enumerate(writes) if write.epoch == epoch)


def test_recorded_job_wrote_each_row_once() -> None:
    check(recorded(), ROWS)
    outcome = Outcome.of(recorded(), ROWS, 1.0)
    assert (outcome.expected, outcome.found, outcome.duplicated) == (len(ROWS), len(ROWS), 0)
    assert (outcome.epochs, outcome.drivers_at_once) == (3, 1)


WRITES = tuple(recorded())
FIRST = first_of(recorded(), 2)
"""Number of the first write of the second driver."""


def with_write(number: int, **changes: Any) -> list[BatchWrite]:
    return [*WRITES[:number], replace(WRITES[number], **changes), *WRITES[number + 1 :]]


def by_second_driver(write: BatchWrite, **changes: Any) -> BatchWrite:
    """The write, a minute later, by another driver."""
    return moved(replace(write, epoch=2, driver="2", **changes), 60_000)


DEFECTS: dict[str, tuple[list[BatchWrite], str]] = {
    "only the identifier of the query differs from a batch that may be repeated": (
        [WRITES[0], by_second_driver(WRITES[0], query="another")],
        "lost its checkpoint",
    ),
    "restart from an older checkpoint": (
        [*WRITES[:FIRST], *map(by_second_driver, WRITES[FIRST - 2 : FIRST])],
        "again after its commit",
    ),
    "first batch is lost": ([*WRITES[1:]], "the first batch that was written begins at the offset"),
    "batch is lost": ([*WRITES[:2], *WRITES[3:]], "begins at the offset"),
    "number of a batch comes again with the next offsets": (
        [WRITES[0], replace(WRITES[1], batch=WRITES[0].batch, committed=WRITES[0].committed)],
        f"batch {WRITES[0].batch} begins at the offset",
    ),
    "batch begins before the commit of the batch before": (
        [WRITES[0], replace(WRITES[1], committed=WRITES[0].committed)],
        f"batch {WRITES[1].batch} began, and batch {WRITES[0].committed} was the newest commit",
    ),
    "batch is written twice": (
        [*WRITES[:3], replace(WRITES[2], batch=WRITES[3].batch, committed=WRITES[3].committed), *WRITES[3:]],
        "rows are duplicated",
    ),
    "row is written twice": (with_write(2, rows=(*WRITES[2].rows, WRITES[2].rows[0])), "1 rows are duplicated"),
    "repeated batch has other rows": (
        [*WRITES[:FIRST], replace(moved(WRITES[FIRST], -1), rows=WRITES[FIRST].rows[1:]), *WRITES[FIRST:]],
        "rows are duplicated",
    ),
    "batch is repeated after a later batch": (
        [*WRITES, moved(replace(WRITES[1], epoch=WRITES[-1].epoch, driver=WRITES[-1].driver), 3_600_000)],
        "batch 1 was written again after its commit",
    ),
    "driver writes between two batches of its successor": (
        sorted(
            [*WRITES, moved(replace(WRITES[FIRST + 1], epoch=1, driver=WRITES[0].driver), 1)],
            key=lambda write: write.began,
        ),
        "a driver wrote after its successor",
    ),
    "no batch": ([], "0 drivers had batches at once, not 1"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_is_detected_although_the_output_contains_the_rows_of_the_writes(defect: str) -> None:
    writes, text = DEFECTS[defect]
    with pytest.raises(SinkError, match=text):
        check(writes, set(sink_log.row_ids(writes)))


@pytest.mark.parametrize(
    ("writes", "rows", "text"),
    [
        ([*WRITES[:2], *WRITES[3:]], ROWS, "rows are missing"),
        (with_write(2, rows=WRITES[2].rows[1:]), ROWS, f"1 rows are missing: \\[{WRITES[2].rows[0][0]}\\]"),
        ([*WRITES], ROWS[:-1], "1 rows were not in the input"),
    ],
)
def test_output_is_compared_with_the_input(writes: list[BatchWrite], rows: range, text: str) -> None:
    with pytest.raises(SinkError, match=text):
        check(writes, rows)


def test_restart_from_an_empty_checkpoint_is_detected() -> None:
    """The new query reads the whole input again, so the output contains each row."""
    writes = recorded("checkpoint_lost")
    with pytest.raises(SinkError, match="lost its checkpoint") as error:
        check(writes, set(sink_log.row_ids(writes)))
    assert "rows are duplicated" in str(error.value)
    assert "batch 0 was written again after its commit" in str(error.value)


def test_repeated_batch_without_a_commit_counts_once() -> None:
    writes = recorded()
    first = first_of(writes, 2)
    again = replace(moved(writes[first], -1), epoch=2, driver=writes[first].driver)
    repeats = [*writes[:first], again, *writes[first:]]
    assert sink_log.repeated(repeats) == sink_log.repeated(writes) + 1
    check(repeats, ROWS)


def test_overlap_of_two_drivers_is_detected() -> None:
    """The last batch of the first driver ends 0.2 s after the first batch of the next driver has begun."""
    writes = recorded()
    first = first_of(writes, 2)
    last = writes[first - 1]
    assert last.ended is not None
    late = replace(last, ended=writes[first].began + OVERLAP_MS)
    overlapping = [*writes[: first - 1], late, *writes[first:]]
    assert (drivers_at_once(writes), drivers_at_once(overlapping)) == (1, 2)
    with pytest.raises(SinkError, match="2 drivers had batches at once"):
        check(overlapping, ROWS)


def test_two_drivers_of_one_epoch_are_two_drivers() -> None:
    writes = recorded()
    assert drivers_at_once([writes[0], replace(writes[0], driver="another")]) == 2


def test_attempt_that_was_cut_is_not_written(tmp_path: Path) -> None:
    """The driver was killed between the two lines, or while it wrote the second line."""
    (file, *_) = sorted((RECORDED / "driver_killed").iterdir())
    begin, end = file.read_text().splitlines()[:2]
    (tmp_path / file.name).write_text(f"{begin}\n{begin}\n{end[:-10]}")
    attempts = read_writes(tmp_path)
    assert [write.ended for write in attempts] == [None, None]
    assert sink_log.written(attempts) == []
