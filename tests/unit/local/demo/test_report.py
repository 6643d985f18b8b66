"""The demo's tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_adaptive.local.demo.job import Transition
from airflow_adaptive.local.demo.report import table, transition_line, transitions_table

ITEM = {
    "type": "Transition",
    "at": "2026-01-01T10:00:00+00:00",
    "source": "Deploying",
    "target": "Executing",
    "version": 3,
    "before": None,
    "after": {"job": 2},
    "tier": None,
    "reason": "the driver has activated the plan",
}


def transition(at: datetime, source: str, target: str) -> Transition:
    return Transition(at=at, source=source, target=target, version=1, slots_before=1, slots_after=1, reason="why")


def test_transition_is_read_from_the_xcom() -> None:
    assert (
        transition_line(Transition.from_xcom(ITEM))
        == "Deploying -> Executing [- -> 2]: the driver has activated the plan"
    )


def test_table_aligns_its_columns() -> None:
    assert table([("a", "b"), ("long", "x")]) == "a     b\n----  -\nlong  x"


def test_transitions_table_contains_the_time_in_each_state() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    lines = transitions_table(
        [
            transition(began, "Created", "Deploying"),
            transition(began + timedelta(seconds=2.5), "Deploying", "Executing"),
        ]
    )
    assert lines.splitlines()[-1].split() == ["00:00:02", "Deploying", "2.5", "s", "Executing", "1", "why"]
