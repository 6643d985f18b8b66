"""The events of a job are the changes between two summaries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_adaptive._airflow.process.job_control import JobEvent, event_payload, event_position, events_since
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._core.view import LagAlert, decode_summary
from tests.support.airflow.published_job import (
    SUMMARY,
    ended,
)


@pytest.mark.parametrize(
    ("now", "events"),
    [
        ({}, []),
        ({"rescales": 3, "restarts": 4}, ["RESCALED"]),
        ({"rescales": 5, "restarts": 7}, ["RESCALED", "RESTARTED"]),
        ({"restarts": 4}, ["RESTARTED"]),
        *(({"state": "Finished", "outcome": outcome.value}, [outcome.value]) for outcome in Outcome),
        ({"rescales": 0, "restarts": 0, "attempt": "next"}, []),
        ({"state": "Restarting"}, []),
        ({"lag_alert": {"since": "2026-01-02T00:00:00+00:00", "lag_s": 61.0}}, ["LAG_EXCEEDED"]),
    ],
)
def test_events_are_the_changes_since_the_summary_before(now: dict[str, Any], events: list[str]) -> None:
    assert list(events_since(event_position(decode_summary(SUMMARY)), decode_summary(SUMMARY | now))) == events


def test_job_that_ends_so_again_is_another_event() -> None:
    first = decode_summary(ended("SUSPENDED"))
    again = replace(first, since=datetime(2026, 1, 3, tzinfo=UTC))
    assert not list(events_since(event_position(first), first))
    assert list(events_since(event_position(first), again)) == [JobEvent.SUSPENDED]


def test_alert_that_continues_or_ends_is_no_event_and_another_alert_is() -> None:
    first = decode_summary(SUMMARY | {"lag_alert": {"since": "2026-01-02T00:00:00+00:00", "lag_s": 61.0}})
    again = replace(first, lag_alert=LagAlert(since=datetime(2026, 1, 3, tzinfo=UTC), lag_s=61.0))
    assert not list(events_since(event_position(first), first))
    assert not list(events_since(event_position(first), decode_summary(SUMMARY)))
    assert list(events_since(event_position(first), again)) == [JobEvent.LAG_EXCEEDED]
    assert event_payload(JobEvent.LAG_EXCEEDED, "departures", first)["lag_s"] == 61.0


def test_event_reports_what_another_dag_needs() -> None:
    assert event_payload(JobEvent.RESCALED, "departures", decode_summary(SUMMARY)) == {
        "event": "RESCALED",
        "job": "departures",
        "state": "Executing",
        "parallelism": {"job": 2},
        "restarts": 3,
        "rescales": 2,
        "cause": None,
        "lag_s": None,
        "at": SUMMARY["last_transition"]["at"],
        "reason": "the driver has activated the plan",
    }
