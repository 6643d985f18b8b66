"""The wait for the slots of a job on the cluster of a connection."""

from __future__ import annotations

import asyncio

import pytest

from airflow_adaptive.launch.cluster.connection_ids import ConnectionIds
from airflow_adaptive.launch.resource_wait import wait_for_slots


def test_unusable_connection_is_an_error_event_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_NOWHERE", raising=False)
    event = asyncio.run(wait_for_slots({}, ConnectionIds("nowhere"), "2026-01-01T00:00:00+00:00"))
    assert event["status"] == "error"
    assert "nowhere" in event["message"]
