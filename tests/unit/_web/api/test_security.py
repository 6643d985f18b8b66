"""Every request requires a login, a change comes from the page or has a token, and no body is larger than its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from fastapi import Request
from starlette.types import Message

from airflow_adaptive._web.api.security import MAX_BODY_BYTES, body_of
from airflow_adaptive._web.data.errors import RequestRefusedError
from tests.support.airflow.airflow_app import API, BODY, AirflowApp
from tests.support.airflow.published_documents import executing, place

READING = [
    "/jobs",
    "/jobs/departures",
    "/jobs/departures/resource-requirements",
    "/jobs/departures/plan",
    "/jobs/departures/metrics",
    "/jobs/departures/transitions",
    "/jobs/departures/failures",
    "/jobs/departures/driver-log",
    "/jobs/departures/deployment",
    "/jobs/departures/events",
    *(f"/jobs/departures/rescales{rest}" for rest in ("", "/summary", "/1")),
    "/openapi.json",
    "/docs",
]

CHANGING = [
    ("PUT", "/jobs/departures/resource-requirements"),
    ("DELETE", "/jobs/departures/resource-requirements"),
    *(("POST", f"/jobs/departures/{desired_state}") for desired_state in ("cancel", "suspend", "resume")),
]

PREVIEW = ("POST", "/jobs/departures/resource-requirements:preview")

REQUESTS = [*(("GET", path) for path in READING), *CHANGING, PREVIEW]


def test_tables_contain_every_route(airflow_app: AirflowApp) -> None:
    paths = airflow_app.client().get(f"{API}/openapi.json").json()["paths"]
    routes = {(method.upper(), path.removeprefix("/api/v1")) for path, methods in paths.items() for method in methods}
    named = {
        (method, path.replace("departures", "{job}").replace("rescales/1", "rescales/{number}"))
        for method, path in REQUESTS
    }
    assert routes - named == set()


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_who_is_not_logged_in_gets_nothing(airflow_app: AirflowApp, method: str, path: str) -> None:
    place(airflow_app, executing())
    answer = airflow_app.client(None).request(method, API + path)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert airflow_app.audit() == []


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", ""])
def test_token_that_is_none_opens_nothing(airflow_app: AirflowApp, token: str) -> None:
    answer = airflow_app.client(None).get(f"{API}/jobs", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code in (401, 403)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", [path for path in READING if not path.endswith(("events", "driver-log"))])
def test_viewer_may_read(airflow_app: AirflowApp, path: str) -> None:
    place(airflow_app, executing())
    assert airflow_app.client("viewer").get(API + path).status_code == 200


def test_viewer_may_try_requirements(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    assert airflow_app.client("viewer").request(*_at(PREVIEW), json=BODY).status_code == 200


@pytest.mark.parametrize("change", CHANGING)
def test_viewer_may_change_nothing(airflow_app: AirflowApp, change: tuple[str, str]) -> None:
    asset = place(airflow_app, executing())
    answer = airflow_app.client("viewer").request(*_at(change), json=BODY)
    assert answer.status_code == 403
    assert "permission to edit every DAG" in answer.json()["detail"]
    assert airflow_app.requested(asset, "desired_state") == "running"
    assert airflow_app.requested(asset, "requirements") is None
    assert airflow_app.audit() == []


def test_cookie_of_the_login_will_do(airflow_app: AirflowApp) -> None:
    place(airflow_app, executing())
    client = airflow_app.client(None)
    client.cookies.set("_token", airflow_app.token("viewer"))
    assert client.get(f"{API}/jobs/departures").json()["editable"] is False


def test_asset_that_no_task_runs_is_no_job(airflow_app: AirflowApp) -> None:
    from airflow.models.asset import TaskInletAssetReference  # noqa: PLC0415

    place(airflow_app, executing())
    with airflow_app.session() as session:
        session.query(TaskInletAssetReference).delete()
    assert airflow_app.client("admin").get(f"{API}/jobs").json()["jobs"] == []
    assert airflow_app.client("admin").get(f"{API}/jobs/departures").status_code == 404


# ---- what other sites have browsers send ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site", "Origin": "https://evil.example"},
    ],
)
def test_page_of_another_site_changes_nothing(airflow_app: AirflowApp, headers: dict[str, str]) -> None:
    asset = place(airflow_app, executing())
    airflow_app.client().put(f"{API}/jobs/departures/resource-requirements", json=BODY)
    override = airflow_app.requested(asset, "requirements")
    assert override is not None
    for method, path in [*CHANGING, PREVIEW]:
        answer = airflow_app.client().request(method, API + path, json=BODY, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:airflow-adaptive:problem:cross-site")
    assert airflow_app.requested(asset, "desired_state") == "running"
    assert airflow_app.requested(asset, "requirements") == override


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://testserver"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://airflow.example"},
        {"X-Forwarded-Host": "airflow.example", "Origin": "https://airflow.example"},
    ],
)
def test_own_page_may_change_jobs(airflow_app: AirflowApp, headers: dict[str, str]) -> None:
    place(airflow_app, executing())
    assert airflow_app.client().post(f"{API}/jobs/departures/suspend", json={}, headers=headers).status_code == 202


FOREIGN = {"Sec-Fetch-Site": "cross-site", "Origin": "https://portal.example"}


@pytest.mark.parametrize("origin", ["https://portal.example", "https://other.example"])
def test_page_of_an_allowed_origin_may_change_jobs_with_a_token(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    """A portal of another site, which `[api] access_control_allow_origins` allows, sends the token of the user."""
    monkeypatch.setenv("AIRFLOW__API__ACCESS_CONTROL_ALLOW_ORIGINS", "https://portal.example")
    place(airflow_app, executing())
    headers = {**FOREIGN, "Origin": origin}
    status = airflow_app.client().post(f"{API}/jobs/departures/suspend", json={}, headers=headers).status_code
    assert status == (202 if origin == "https://portal.example" else 403)


def test_page_of_an_allowed_origin_may_not_use_the_cookie_of_the_user(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__ACCESS_CONTROL_ALLOW_ORIGINS", "https://portal.example")
    place(airflow_app, executing())
    client = airflow_app.client(None)
    client.cookies.set("_token", airflow_app.token("editor"))
    assert client.post(f"{API}/jobs/departures/suspend", json={}, headers=FOREIGN).status_code == 403


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_form_changes_nothing(airflow_app: AirflowApp, media_type: str) -> None:
    place(airflow_app, executing())
    for method, path in [*CHANGING, PREVIEW]:
        answer = airflow_app.client().request(method, API + path, content=b"{}", headers={"Content-Type": media_type})
        assert (answer.status_code, answer.headers["content-type"]) == (415, "application/problem+json")
        assert "Content-Type: application/json" in answer.json()["detail"]


def _at(change: tuple[str, str]) -> tuple[str, str]:
    method, path = change
    return method, API + path


USER: Any = None
"""The body does not depend on the user."""


def body_with(headers: Mapping[str, str], *pieces: bytes) -> bytes:
    """Return the body of a request that sends some pieces. To read more pieces is an error."""
    messages = iter(pieces)

    async def receive() -> Message:
        piece = next(messages, None)
        assert piece is not None, "the server read more than it needs"
        return {"type": "http.request", "body": piece, "more_body": piece != pieces[-1]}

    named = {"content-type": "application/json", **headers}
    scope = {"type": "http", "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()]}
    return asyncio.run(body_of(USER, Request(scope, receive)))


def test_body_that_declares_a_length_over_the_limit_is_not_read() -> None:
    with pytest.raises(RequestRefusedError) as refused:
        body_with({"Content-Length": str(MAX_BODY_BYTES + 1)})
    assert refused.value.status == 413


def test_rest_of_a_body_over_the_limit_is_not_read() -> None:
    with pytest.raises(RequestRefusedError) as refused:
        body_with({}, b" " * MAX_BODY_BYTES, b" ")
    assert refused.value.status == 413


@pytest.mark.parametrize("headers", [{}, {"Content-Length": str(MAX_BODY_BYTES)}, {"Content-Length": "unknown"}])
def test_body_at_the_limit_is_read(headers: dict[str, str]) -> None:
    assert body_with(headers, b"x" * (MAX_BODY_BYTES - 1), b"y") == b"x" * (MAX_BODY_BYTES - 1) + b"y"
