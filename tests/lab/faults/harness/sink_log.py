"""What the files of the strict sink prove: each row was written exactly once, and one driver at a time wrote.

The function of `foreachBatch` runs at least once for each batch, so a driver that ends between its write and Spark's commit leaves a
batch that its successor writes again. The checks accept such a repeated batch only if the batch is the one after the newest
commit, no earlier line proves its commit, no other batch was written in between, and its offsets and rows are identical.
Everything else that is written twice is a duplicate. A query that has lost its checkpoint has another identifier.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWrite:
    """One attempt of a driver to write a batch; times in milliseconds, by the clock of the driver's JVM.

    Attributes:
        driver: name of the driver's file.
        epoch: of the driver.
        query: identifier of the query, which the checkpoint contains.
        batch: number of the batch.
        committed: number of the newest committed batch when the attempt began.
        start: offset of the source after the newest committed batch.
        end: offset of the source after this batch.
        began: when the attempt began.
        ended: when the batch was written; None if it was not.
        rows: that were written; the first value of a row identifies the row.
    """

    driver: str
    epoch: int
    query: str
    batch: int
    committed: int
    start: str | None
    end: str | None
    began: int
    ended: int | None = None
    rows: tuple[tuple[Any, ...], ...] = ()


class SinkError(AssertionError):
    """The files of the sink prove that a guarantee was violated."""


def read_writes(folder: Path) -> list[BatchWrite]:
    """All attempts of all drivers, in the order in which they began."""
    found = [write for file in folder.glob("*.jsonl") for write in _writes_of(file)]
    return sorted(found, key=lambda write: write.began)


def _writes_of(file: Path) -> Iterator[BatchWrite]:
    """The attempts of one driver; a last line without an end is still being written."""
    lines = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
    epoch = int(file.stem.partition("-")[0])
    for line, following in pairwise([*lines, {"event": "begin"}]):
        if line["event"] == "end":
            continue
        written = following["event"] == "end"
        yield BatchWrite(
            driver=file.stem,
            epoch=epoch,
            began=line["at"],
            ended=following["at"] if written else None,
            rows=tuple(map(tuple, following["rows"])) if written else (),
            **{name: line[name] for name in ("query", "batch", "committed", "start", "end")},
        )


def written(writes: Iterable[BatchWrite]) -> list[BatchWrite]:
    """The attempts that wrote their batch."""
    return [write for write in writes if write.ended is not None]


def is_repeated(earlier: BatchWrite, later: BatchWrite) -> bool:
    """Whether the later write repeats the batch of the earlier write, with identical offsets and rows."""
    same = (later.query, later.batch, later.committed, later.start, later.end, later.rows)
    return same == (earlier.query, earlier.batch, earlier.committed, earlier.start, earlier.end, earlier.rows)


def repeated(writes: Iterable[BatchWrite]) -> int:
    """Number of batches that were written again because their commit was missing."""
    return sum(is_repeated(*pair) for pair in pairwise(written(writes)))


def row_ids(writes: Iterable[BatchWrite]) -> list[Any]:
    """The first value of each row; those of a repeated batch once."""
    done = written(writes)
    first = [write for number, write in enumerate(done) if number == 0 or not is_repeated(done[number - 1], write)]
    return [row[0] for write in first for row in write.rows]


def drivers_at_once(writes: Iterable[BatchWrite]) -> int:
    """Most drivers of which each had begun its first batch and not ended its last batch at the same moment; 0 without any batch."""
    spans: dict[str, tuple[int, int]] = {}
    for write in writes:
        first, last = spans.get(write.driver, (write.began, write.began))
        spans[write.driver] = (first, max(last, write.ended or write.began))
    return max((sum(begin <= at <= end for begin, end in spans.values()) for at, _ in spans.values()), default=0)


def check(writes: Sequence[BatchWrite], expected: Collection[Any]) -> None:
    """Raise `SinkError` with all violations, if there are any; for the arguments see `all_violations`."""
    if found := all_violations(writes, expected):
        raise SinkError("\n".join(found))


def all_violations(writes: Sequence[BatchWrite], expected: Collection[Any]) -> tuple[str, ...]:
    """All violations of the guarantees.

    Args:
        writes: see `read_writes`.
        expected: the identifiers of all rows that must have been written.
    """
    return (*violations(writes), *row_violations(row_ids(writes), expected))


def violations(writes: Sequence[BatchWrite]) -> Iterator[str]:
    """What is wrong with the batches, whatever their rows are."""
    if (at_once := drivers_at_once(writes)) != 1:
        yield f"{at_once} drivers had batches at once, not 1"
    if len(queries := {write.query for write in writes}) > 1:
        yield f"the query lost its checkpoint: it had the identifiers {sorted(queries)}"
    if (epochs := [write.epoch for write in writes]) != sorted(epochs):
        yield f"a driver wrote after its successor: {epochs}"
    yield from _commit_violations(writes)
    yield from _offset_violations(written(writes))


def _commit_violations(writes: Sequence[BatchWrite]) -> Iterator[str]:
    newest_commit = -1
    for write in writes:
        if write.batch != write.committed + 1:
            yield f"epoch {write.epoch}: batch {write.batch} began, and batch {write.committed} was the newest commit"
        if write.batch <= newest_commit:
            yield f"epoch {write.epoch}: batch {write.batch} was written again after its commit"
        newest_commit = max(newest_commit, write.committed)


def _offset_violations(done: Sequence[BatchWrite]) -> Iterator[str]:
    if done and done[0].start is not None:
        yield f"the first batch that was written begins at the offset {done[0].start}"
    for earlier, later in pairwise(done):
        if not is_repeated(earlier, later) and (later.batch <= earlier.batch or later.start != earlier.end):
            yield (
                f"epoch {later.epoch}: batch {later.batch} begins at the offset {later.start}, and"
                f" batch {earlier.batch} of epoch {earlier.epoch} ended at the offset {earlier.end}"
            )


def row_violations(ids: Sequence[Any], expected: Collection[Any]) -> Iterator[str]:
    """What is wrong with the rows."""
    counts, wanted = Counter(ids), set(expected)
    if lost := sorted(wanted - counts.keys()):
        yield f"{len(lost)} rows are missing: {lost[:20]}"
    if unknown := sorted(counts.keys() - wanted):
        yield f"{len(unknown)} rows were not in the input: {unknown[:20]}"
    if duplicates := sorted(row for row, count in counts.items() if count > 1):
        yield f"{len(duplicates)} rows are duplicated: {duplicates[:20]}"
