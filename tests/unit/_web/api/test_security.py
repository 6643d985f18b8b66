"""Every request requires a login, and a request that changes a job comes from the page, or has the token of the user."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("path", [path for path in READING if not path.endswith("events")])
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


@pytest.mark.parametrize(
    ("name", "status"), [("n" * 700, 404), ("n" * 701, 422), ("n%5Cm", 422), ("n%09m", 422), ("n%7F", 422)]
)
def test_name_that_no_job_can_have_is_refused(airflow_app: AirflowApp, name: str, status: int) -> None:
    assert airflow_app.client().get(f"{API}/jobs/{name}").status_code == status


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
