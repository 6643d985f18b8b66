"""The generator: order, whole days, the marker that closes the last hour, and repetitions."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import confluent_kafka
import pytest

from airflow_adaptive.local.demo.command import LAST_HOUR
from airflow_adaptive.local.demo.replay import (
    END,
    END_MARKER,
    Flight,
    as_json,
    endless_days,
    publish_file,
    replay,
    topic_publisher,
    year,
)

pytestmark = pytest.mark.long
"""Each test reads all flights of the year."""

FAST = 1e6


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch, all_flights: list[Flight]) -> None:
    monkeypatch.setattr("airflow_adaptive.local.demo.replay.flights", lambda: all_flights)


@pytest.fixture
def days():
    return list(year())


def test_days_come_in_event_time_order(days) -> None:
    scheduled = [flight.scheduled for _, day in days for flight in day]
    assert scheduled == sorted(scheduled)


def test_end_marker_is_alone_and_closes_the_last_hour(days) -> None:
    (last_day, flights), (_, (*_, last_flight)) = days[-1], days[-2]
    assert flights == [END_MARKER]
    assert last_day < END
    assert last_flight.scheduled < LAST_HOUR + timedelta(hours=1) < END_MARKER.scheduled
    assert not END_MARKER.departed


def test_year_repeats_later_on_the_same_days_of_the_week(days) -> None:
    repeated = list(islice(endless_days(), len(days) + 2))
    assert repeated[: len(days)] == days
    (day, flights), _ = repeated[len(days) :]
    assert day == date(2014, 1, 7)
    assert day.weekday() == days[0][0].weekday()
    assert [flight.delay_minutes for flight in flights] == [flight.delay_minutes for flight in days[0][1]]
    assert flights[0].scheduled.date() == day > END_MARKER.scheduled.date()


def test_replay_publishes_whole_days_as_far_as_released(tmp_path: Path) -> None:
    directory = tmp_path / "input"
    directory.mkdir()
    replay(partial(publish_file, directory), [f"{date(2013, 1, 3)} {FAST}\n"])
    assert sorted(file.name for file in tmp_path.rglob("*.json")) == ["2013-01-01.json", "2013-01-02.json"]
    lines = (directory / "2013-01-01.json").read_text().splitlines()
    first = json.loads(lines[0])
    assert first["departed"] is True
    assert datetime.fromisoformat(first["scheduled"]).date() == date(2013, 1, 1)


def test_a_day_is_in_the_topic_when_it_is_published(monkeypatch: pytest.MonkeyPatch, days) -> None:
    written: list[str] = []
    pending: list[str] = []

    class Producer:
        def __init__(self, settings: dict[str, object]) -> None:
            assert settings["bootstrap.servers"] == "broker:9092"

        def produce(self, topic: str, value: str) -> None:
            pending.append(f"{topic} {value}")

        def flush(self) -> None:
            written.extend(pending)
            pending.clear()

    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    replay(topic_publisher("broker:9092", "flights"), [f"{date(2013, 1, 2)} {FAST}\n"])
    assert written == [f"flights {as_json(flight)}" for flight in days[0][1]]
