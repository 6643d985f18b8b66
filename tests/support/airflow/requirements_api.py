"""Resource requirements in requests to the REST API and in published documents."""

from __future__ import annotations

from typing import Any

from tests.support.airflow.published_documents import executing, published


def bounds(lower: Any, upper: Any, **more: Any) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}, **more}


def with_policy(lower: int = 1, upper: int = 4, **changes: Any) -> dict[str, Any]:
    """What a job shows that has a rescale policy of its own, which advises these bounds."""
    requirements_source = {
        "origin": "POLICY",
        "name": "load",
        "via": None,
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
