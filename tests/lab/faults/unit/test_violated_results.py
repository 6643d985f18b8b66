"""A job that loses its checkpoint, duplicates rows or has two drivers at once makes its row of the table red, and fails its test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.faults import conftest
from tests.lab.faults.harness import results
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.results import HEAD
from tests.lab.faults.harness.sink_log import BatchWrite, SinkError, read_writes, row_ids
from tests.support import published_tables

RECORDED = Path(__file__).with_name("recorded_sinks")
PAGE = "docs/faults.md"
BEFORE = "| driver killed (-9) | JVM | 1 | 40 | 40 | 0 | 1 | 1 | 35 s | `45dffa9` |"
OVERLAP_MS = 200


def lost_checkpoint() -> list[BatchWrite]:
    return read_writes(RECORDED / "checkpoint_lost")


def duplicated_batch() -> list[BatchWrite]:
    writes = read_writes(RECORDED / "driver_killed")
    return [*writes[:3], replace(writes[2], batch=writes[3].batch, committed=writes[3].committed), *writes[3:]]


def overlapping_drivers() -> list[BatchWrite]:
    """The last batch of the first driver ends 0.2 s after the next driver has begun."""
    writes = read_writes(RECORDED / "driver_killed")
    second = next(number for number, write in enumerate(writes) if write.epoch == 2)
    writes[second - 1] = replace(writes[second - 1], ended=writes[second].began + OVERLAP_MS)
    return writes


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page of faults, with a row that an earlier run published."""
    page = tmp_path / PAGE
    page.parent.mkdir()
    page.write_text(f"<!-- table: begin -->\n{HEAD}{BEFORE}\n<!-- table: end -->\n")
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(results, "PAGE", page)
    monkeypatch.setattr(published_tables, "ROOT", tmp_path)
    return page


@pytest.fixture
def record() -> Callable[..., None]:
    """The fixture `record` of a case of the fault tests."""
    request: Any = SimpleNamespace(
        node=SimpleNamespace(nodeid="tests/lab/faults/driver/test_driver.py::test_killed[JVM]")
    )
    record: Callable[..., None] = conftest.record.__wrapped__(request)  # type: ignore[attr-defined]
    return record


@pytest.mark.parametrize(
    ("writes", "violation"),
    [
        (lost_checkpoint(), "the query lost its checkpoint"),
        (duplicated_batch(), "20 rows are duplicated"),
        (overlapping_drivers(), "2 drivers had batches at once, not 1"),
    ],
    ids=["lost checkpoint", "duplicated batch", "overlap of 0.2 s"],
)
def test_violation_replaces_the_published_row(
    page: Path, record: Callable[..., None], writes: list[BatchWrite], violation: str
) -> None:
    outcome = Outcome.of(writes, set(row_ids(writes)), recovery_s=1.0)
    with pytest.raises(SinkError, match=violation):
        record("driver killed (-9)", "JVM", outcome)
    assert BEFORE not in page.read_text()
    (row,) = [line for line in page.read_text().splitlines() if line.startswith("| driver killed")]
    assert "**violated**: " in row
    assert violation in row


def test_result_without_a_violation_replaces_the_published_row(page: Path, record: Callable[..., None]) -> None:
    writes = read_writes(RECORDED / "driver_killed")
    record("driver killed (-9)", "JVM", Outcome.of(writes, set(row_ids(writes)), recovery_s=7.0))
    (row,) = [line for line in page.read_text().splitlines() if line.startswith("| driver killed")]
    assert row.startswith(f"| driver killed (-9) | JVM | 1 | {len(row_ids(writes))} |")
    assert "| 7 s |" in row
