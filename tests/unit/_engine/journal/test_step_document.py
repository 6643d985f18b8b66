"""The time of a journal whose documents are ahead of the clock of the loop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._engine.journal.step_document import clock_offset

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "offset"),
    [("2026-11-25T12:00:30+00:00", 30), ("2026-11-25T11:00:00+00:00", 0), ("", 0), ("2026-11-25T13:00:00", 0)],
    ids=["clock is behind", "clock is ahead", "no time", "time without a zone"],
)
def test_clock_is_behind_a_document_with_a_later_time(at: str, offset: int) -> None:
    document: Any = SimpleNamespace(at=at)
    assert clock_offset(document, NOW) == timedelta(seconds=offset)
