"""Every SQL statement of the plugin runs on a real database."""

from __future__ import annotations

import pytest

from tests.support.airflow.airflow_app import AirflowApp
from tests.support.databases.statements import places, recorded
from tests.support.databases.tour import execute_every_statement


def test_every_statement_runs(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that the requests do not execute fails the test, so a new statement cannot be forgotten."""
    from airflow import settings  # noqa: PLC0415

    with recorded(settings.engine) as (executed, unknown):
        execute_every_statement(airflow_app, monkeypatch)
    assert unknown == set()
    assert sorted(map(str, places() - executed)) == []
