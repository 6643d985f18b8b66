"""Every SQL statement of the plugin, on a real database."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place, suspended
from tests.support.airflow.rest_api import bounds
from tests.support.databases.statements import places, recorded

PATH = f"{API}/jobs/departures"

READ = ("", "/resource-requirements", "/plan", "/metrics", "/transitions", "/failures", "/rescales/history")


def statuses(airflow_app: AirflowApp, *requests: tuple[str, str, Any]) -> list[int]:
    client = airflow_app.client()
    return [client.request(method, url, json=body).status_code for method, url, body in requests]


def test_every_statement_runs(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that this test does not execute fails the test, so a new statement cannot be forgotten."""
    from airflow import settings  # noqa: PLC0415

    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    with recorded(settings.engine) as (executed, unknown):
        asset = place(airflow_app, executing())
        airflow_app.schedule_on(asset, "consumer")
        changes = [
            ("PUT", f"{PATH}/resource-requirements", {"job": bounds(1, 3)}),
            ("DELETE", f"{PATH}/resource-requirements", {}),
            ("POST", f"{PATH}/suspend", {}),
        ]
        assert statuses(airflow_app, ("GET", f"{API}/jobs", None), *changes) == [200, 200, 204, 202]
        assert statuses(airflow_app, *(("GET", f"{PATH}{path}", None) for path in READ)) == [200] * len(READ)
        airflow_app.clean()
        place(airflow_app, suspended())
        airflow_app.run()
        assert statuses(airflow_app, ("POST", f"{PATH}/resume", {})) == [202]
    assert unknown == set()
    assert sorted(map(str, places() - executed)) == []
    assert [line["event"] for line in airflow_app.audit()] == ["adaptive_resume"]
