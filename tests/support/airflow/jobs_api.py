"""Requests to the REST API about jobs."""

from __future__ import annotations

from typing import Any

from tests.support.airflow.airflow_app import API, AirflowApp


def get(airflow_app: AirflowApp, path: str, **query: Any) -> Any:
    answer = airflow_app.client("viewer").get(f"{API}{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()
