"""The generator: order, atomicity, and the word that closes the last hour."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pytest

from airflow_adaptive.local.demo.replay import END, LAST_WORD, days, replay
from airflow_adaptive.local.demo.story import LAST_HOUR_ENDS

FAST = 1e6


@pytest.fixture(scope="module")
def year():
    return list(days())


def test_days_come_in_event_time_order(year) -> None:
    scheduled = [flight.scheduled for _, day in year for flight in day]
    assert scheduled == sorted(scheduled)


def test_last_word_comes_alone_and_closes_the_last_hour(year) -> None:
    (last_day, flights), (_, (*_, last_flight)) = year[-1], year[-2]
    assert flights == [LAST_WORD]
    assert last_day < END
    assert last_flight.scheduled < LAST_HOUR_ENDS < LAST_WORD.scheduled
    assert not LAST_WORD.departed


def test_replay_publishes_whole_days_as_far_as_released(tmp_path: Path) -> None:
    directory = tmp_path / "input"
    directory.mkdir()
    replay(directory, FAST, [f"{date(2013, 1, 3)}\n"])
    assert sorted(file.name for file in tmp_path.rglob("*.json")) == ["2013-01-01.json", "2013-01-02.json"]
    lines = (directory / "2013-01-01.json").read_text().splitlines()
    first = json.loads(lines[0])
    assert first["departed"] is True
    assert datetime.fromisoformat(first["scheduled"]).date() == date(2013, 1, 1)
