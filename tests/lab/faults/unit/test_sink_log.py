"""The checks of the strict sink fail for each way in which a row can be lost or duplicated, and for drivers that overlap.

`recorded_sinks` contains the files of real jobs. In `driver_killed`, the driver was killed twice. In `checkpoint_lost`, the driver was
killed, and its checkpoint was removed before the next driver began.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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


def test_restart_from_an_empty_checkpoint_is_detected() -> None:
    """The new query reads the whole input again, so the output contains each row."""
    writes = recorded("checkpoint_lost")
    rows = set(sink_log.row_ids(writes))
    with pytest.raises(SinkError, match="lost its checkpoint") as error:
        check(writes, rows)
    assert "rows are duplicated" in str(error.value)
    assert "batch 0 was written again after its commit" in str(error.value)


def test_restart_from_an_empty_checkpoint_is_detected_after_a_single_batch() -> None:
    """Only the identifier of the query differs from a batch that may be repeated."""
    (first, *_) = recorded()
    again = moved(replace(first, query="another", epoch=2, driver="2"), 60_000)
    with pytest.raises(SinkError, match="lost its checkpoint"):
        check([first, again], [row[0] for row in first.rows])


def test_restart_from_an_older_checkpoint_is_detected() -> None:
    writes = recorded()
    first = first_of(writes, 2)
    again = [moved(replace(write, epoch=2, driver="2"), 60_000) for write in writes[first - 2 : first]]
    with pytest.raises(SinkError, match="again after its commit"):
        check(writes[:first] + again, {row[0] for write in writes[:first] for row in write.rows})


def test_batch_that_is_lost_is_detected() -> None:
    writes = recorded()
    del writes[2]
    with pytest.raises(SinkError, match="begins at the offset") as error:
        check(writes, ROWS)
    assert "rows are missing" in str(error.value)


def test_first_batch_that_is_lost_is_detected() -> None:
    writes = recorded()[1:]
    with pytest.raises(SinkError, match="the first batch that was written begins at the offset"):
        check(writes, sink_log.row_ids(writes))


def test_number_of_a_batch_that_comes_again_with_the_next_offsets_is_detected() -> None:
    first, second, *_ = recorded()
    other = replace(second, batch=first.batch, committed=first.committed)
    with pytest.raises(SinkError, match=f"batch {first.batch} begins at the offset"):
        check([first, other], sink_log.row_ids([first, other]))


def test_batch_that_begins_before_the_commit_of_the_batch_before_is_detected() -> None:
    first, second, *_ = recorded()
    early = replace(second, committed=first.committed)
    with pytest.raises(
        SinkError, match=f"batch {second.batch} began, and batch {first.committed} was the newest commit"
    ):
        check([first, early], sink_log.row_ids([first, early]))


def test_row_that_is_lost_in_a_batch_is_detected() -> None:
    writes = recorded()
    writes[2] = replace(writes[2], rows=writes[2].rows[1:])
    with pytest.raises(SinkError, match=f"1 rows are missing: \\[{recorded()[2].rows[0][0]}\\]"):
        check(writes, ROWS)


def test_batch_that_is_written_twice_is_detected() -> None:
    writes = recorded()
    again = replace(writes[2], batch=writes[3].batch, committed=writes[3].committed)
    with pytest.raises(SinkError, match="rows are duplicated") as error:
        check([*writes[:3], again, *writes[3:]], ROWS)
    assert "begins at the offset" in str(error.value)


def test_row_that_is_written_twice_in_a_batch_is_detected() -> None:
    writes = recorded()
    writes[2] = replace(writes[2], rows=(*writes[2].rows, writes[2].rows[0]))
    with pytest.raises(SinkError, match="1 rows are duplicated"):
        check(writes, ROWS)


def test_row_that_was_not_in_the_input_is_detected() -> None:
    with pytest.raises(SinkError, match="1 rows were not in the input"):
        check(recorded(), ROWS[:-1])


def test_repeated_batch_without_a_commit_counts_once() -> None:
    writes = recorded()
    first = first_of(writes, 2)
    again = replace(moved(writes[first], -1), epoch=2, driver=writes[first].driver)
    repeats = [*writes[:first], again, *writes[first:]]
    assert sink_log.repeated(repeats) == sink_log.repeated(writes) + 1
    check(repeats, ROWS)


def test_repeated_batch_with_other_rows_is_detected() -> None:
    writes = recorded()
    first = first_of(writes, 2)
    other = replace(moved(writes[first], -1), rows=writes[first].rows[1:])
    with pytest.raises(SinkError, match="rows are duplicated"):
        check([*writes[:first], other, *writes[first:]], ROWS)


def test_repeated_batch_after_a_later_batch_is_detected() -> None:
    writes = recorded()
    again = moved(replace(writes[1], epoch=writes[-1].epoch, driver=writes[-1].driver), 3_600_000)
    with pytest.raises(SinkError, match="batch 1 was written again after its commit"):
        check([*writes, again], ROWS)


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


def test_driver_that_writes_between_two_batches_of_its_successor_is_detected() -> None:
    writes = recorded()
    first = first_of(writes, 2)
    late = moved(replace(writes[first + 1], epoch=1, driver=writes[0].driver), 1)
    with pytest.raises(SinkError, match="a driver wrote after its successor"):
        check(sorted([*writes, late], key=lambda write: write.began), ROWS)


def test_two_drivers_of_one_epoch_are_two_drivers() -> None:
    writes = recorded()
    assert drivers_at_once([writes[0], replace(writes[0], driver="another")]) == 2


def test_job_without_a_batch_is_detected() -> None:
    with pytest.raises(SinkError, match="0 drivers had batches at once, not 1"):
        check([], [])


def test_attempt_that_was_cut_is_not_written(tmp_path: Path) -> None:
    """The driver was killed between the two lines, or while it wrote the second line."""
    (file, *_) = sorted((RECORDED / "driver_killed").iterdir())
    begin, end = file.read_text().splitlines()[:2]
    (tmp_path / file.name).write_text(f"{begin}\n{begin}\n{end[:-10]}")
    attempts = read_writes(tmp_path)
    assert [write.ended for write in attempts] == [None, None]
    assert sink_log.written(attempts) == []
