"""Changes of jobs in the metadata database: each request holds one connection at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.connection_pool import responses_of, small_pool
from tests.support.airflow.published_documents import executing, place, suspended
from tests.support.airflow.rest_api import bounds
from tests.support.examples import long_except

PATH = f"{API}/jobs/departures/resource-requirements"


@pytest.mark.parametrize("count", long_except([40, 90], 40))
def test_parallel_changes_share_a_pool_of_three_connections(airflow_app: AirflowApp, count: int) -> None:
    """Users change bounds at the same time. No request may wait for a connection while it holds another connection."""
    asset = place(airflow_app, executing())
    requests: list[dict[str, Any]] = [
        {"method": "PUT", "url": PATH, "json": {"job": bounds(1, 1 + number % 8)}} for number in range(count)
    ]
    with small_pool(3) as engine:
        responses = responses_of(airflow_app, requests)
        assert engine.pool.checkedout() == 0
    assert Counter(response.status_code for response in responses) == {200: count}
    assert airflow_app.requested(asset, "requirements")["job"] in [request["json"]["job"] for request in requests]


REQUESTS = [
    ("GET", f"{API}/jobs/departures/plan", 200),
    ("GET", f"{API}/jobs", 200),
    ("GET", f"{API}/jobs/departures", 200),
    ("GET", f"{API}/jobs/departures/rescales", 200),
    ("POST", f"{API}/jobs/departures/suspend", 202),
    ("DELETE", PATH, 204),
]


@pytest.mark.parametrize(("method", "url", "status"), long_except(REQUESTS, REQUESTS[0]))
def test_parallel_requests_share_one_connection(airflow_app: AirflowApp, method: str, url: str, status: int) -> None:
    """A request with a connection waits for a thread, while the other requests occupy all threads and wait for its connection."""
    place(airflow_app, executing())
    request: dict[str, Any] = {"method": method, "url": url}
    if method != "GET":
        request["json"] = {}
    with small_pool(1):
        responses = responses_of(airflow_app, [request] * 60)
    assert Counter(response.status_code for response in responses) == {status: 60}


@pytest.mark.parametrize("is_latest", [False, True])
def test_resumed_task_runs_the_version_that_airflow_selects_for_a_cleared_task(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, *, is_latest: bool
) -> None:
    cleared: list[bool] = []

    def record(_instances: Any, _session: Any, *, run_on_latest_version: bool) -> None:
        cleared.append(run_on_latest_version)

    monkeypatch.setattr("airflow_adaptive._web.data.metadata_database.changes.clear_task_instances", record)
    monkeypatch.setenv("AIRFLOW__CORE__RERUN_WITH_LATEST_VERSION", str(is_latest))
    place(airflow_app, suspended())
    airflow_app.run()
    assert airflow_app.client().post(f"{API}/jobs/departures/resume", json={}).status_code == 202
    assert cleared == [is_latest]
