"""Change markers: one Variable names the jobs with new control requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.store.control_requests import (
    MAX_MARKERS,
    VARIABLE,
    ChangeMarkers,
    notify,
    read_markers,
    with_new_marker,
)
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.airflow.fake_supervisor import FakeComms


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return FakeComms.install(monkeypatch)


def test_new_marker_replaces_the_marker_of_the_job_and_becomes_the_newest() -> None:
    text = json.dumps({"a": "1", "b": "2"})
    markers = json.loads(with_new_marker(text, "a"))
    assert list(markers) == ["b", "a"]
    assert markers["a"] != "1"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null"])
def test_invalid_text_counts_as_no_markers(text: str) -> None:
    assert list(json.loads(with_new_marker(text, "a"))) == ["a"]


def test_only_the_newest_markers_are_kept() -> None:
    text = json.dumps({str(number): "x" for number in range(MAX_MARKERS)})
    markers = json.loads(with_new_marker(text, "a"))
    assert (len(markers), next(iter(markers)), list(markers)[-1]) == (MAX_MARKERS, "1", "a")


def test_first_notification_creates_the_variable(airflow: FakeComms) -> None:
    notify("departures")
    assert list(read_markers()) == ["departures"]


def test_task_of_a_team_does_not_create_the_variable_that_all_teams_read(
    airflow: FakeComms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several teams, a task of one team is the first to make a request: its Variable would be hidden from all others."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    notify("departures")
    assert airflow.variables == {}
    airflow.variables[VARIABLE] = "{}"
    notify("departures")
    assert list(read_markers()) == ["departures"]


def test_marker_is_read_in_the_background_and_once_for_all_jobs() -> None:
    clock = ManualClock()
    reads: list[Callable[[], Any]] = []

    async def call(read: Callable[[], Any]) -> Any:
        reads.append(read)
        return {"a": "1"}

    async def story() -> None:
        markers = ChangeMarkers(call, clock, timedelta(seconds=2))
        assert (markers.marker("a"), markers.marker("b")) == (None, None)
        await asyncio.sleep(0)
        assert (markers.marker("a"), markers.marker("b"), len(reads)) == ("1", None, 1)
        await clock.sleep(2)
        assert markers.marker("a") == "1"
        await asyncio.sleep(0)
        assert len(reads) == 2

    asyncio.run(story())
