"""Changes of jobs in the metadata database: each request holds one connection at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.connection_pool import responses_of, small_pool
from tests.support.airflow.published_documents import executing, place
from tests.support.airflow.rest_api import bounds

PATH = f"{API}/jobs/departures/resource-requirements"


@pytest.mark.parametrize("count", [40, 90])
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


@pytest.mark.parametrize(
    ("method", "url", "status"),
    [
        ("GET", f"{API}/jobs", 200),
        ("GET", f"{API}/jobs/departures", 200),
        ("GET", f"{API}/jobs/departures/plan", 200),
        ("GET", f"{API}/jobs/departures/rescales/history", 200),
        ("POST", f"{API}/jobs/departures/suspend", 202),
        ("DELETE", PATH, 204),
    ],
)
def test_parallel_requests_share_one_connection(airflow_app: AirflowApp, method: str, url: str, status: int) -> None:
    """A request with a connection waits for a thread, while the other requests occupy all threads and wait for its connection."""
    place(airflow_app, executing())
    request: dict[str, Any] = {"method": method, "url": url}
    if method != "GET":
        request["json"] = {}
    with small_pool(1):
        responses = responses_of(airflow_app, [request] * 60)
    assert Counter(response.status_code for response in responses) == {status: 60}
