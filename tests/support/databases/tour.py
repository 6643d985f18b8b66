"""Requests that execute every SQL statement of the plugin. A statement that they do not execute fails the tests that use them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from airflow_adaptive._web.data.metadata_database.jobs import hosts_of_triggerers
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.airflow_versions import remove_state_store
from tests.support.airflow.deployments import deployed, store_dag
from tests.support.airflow.published_documents import executing, place, place_deleted, suspended
from tests.support.airflow.rest_api import bounds

PATH: Final = f"{API}/jobs/departures"

READ: Final = (
    "",
    "/resource-requirements",
    "/plan",
    "/deployment",
    "/metrics",
    "/transitions",
    "/failures",
    "/rescales",
)


def execute_every_statement(airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read jobs, and change them in all ways, with the state store of Assets and without it."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    assert hosts_of_triggerers() == []
    _execute(airflow_app)
    airflow_app.clean()
    with monkeypatch.context() as earlier:
        remove_state_store(earlier)
        _execute(airflow_app)


def _execute(airflow_app: AirflowApp) -> None:
    with TemporaryDirectory() as folder:
        declared = deployed(store_dag(airflow_app, Path(folder)))
    asset = place(airflow_app, executing(), **declared)
    airflow_app.schedule_on(asset, "consumer")
    changes = [
        ("PUT", f"{PATH}/resource-requirements", {"job": bounds(1, 3)}),
        ("DELETE", f"{PATH}/resource-requirements", {}),
        ("POST", f"{PATH}/suspend", {}),
    ]
    assert _statuses(airflow_app, ("GET", f"{API}/jobs", None), *changes) == [200, 200, 204, 202]
    assert _statuses(airflow_app, *(("GET", f"{PATH}{path}", None) for path in READ)) == [200] * len(READ)
    airflow_app.clean()
    place(airflow_app, suspended())
    airflow_app.run()
    assert _statuses(airflow_app, ("POST", f"{PATH}/resume", {})) == [202]
    assert [line["event"] for line in airflow_app.audit()] == ["adaptive_resume"]
    airflow_app.clean()
    place_deleted(airflow_app, executing())
    assert _statuses(airflow_app, ("GET", f"{API}/jobs", None), ("POST", f"{PATH}/cancel", {})) == [200, 202]


def _statuses(airflow_app: AirflowApp, *requests: tuple[str, str, Any]) -> list[int]:
    client = airflow_app.client()
    return [client.request(method, url, json=body).status_code for method, url, body in requests]
