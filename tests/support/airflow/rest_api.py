"""Requests to the REST API about jobs, and bodies of resource requirements."""

from __future__ import annotations

from typing import Any

from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, published


def get(airflow_app: AirflowApp, path: str, **query: Any) -> Any:
    answer = airflow_app.client("viewer").get(f"{API}{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def bounds(lower: Any, upper: Any, **more: Any) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}, **more}


def with_policy(lower: int = 1, upper: int = 4, **changes: Any) -> dict[str, Any]:
    """What a job shows that has a rescale policy of its own, which advises these bounds."""
    requirements_source = {
        "origin": "POLICY",
        "name": "load",
        "via": "",
        "since": None,
        "until": None,
        "reason": "busy",
    }
    advice = {
        "at": "2013-01-01T00:00:00+00:00",
        "since": "2013-01-01T00:00:00+00:00",
        "bounds": {"job": {"lower": lower, "upper": upper}},
        "source": "load",
        "reason": "busy",
        "next_at": None,
    }
    policy = {"kind": "LoadPolicy", "dry_run": False, "active": True, "advice": advice, "problem": None} | changes
    documents = published(executing())
    return {"policy": policy, "summary": documents["summary"] | {"requirements_source": requirements_source}}
