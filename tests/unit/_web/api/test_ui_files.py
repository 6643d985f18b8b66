"""The files of the page: media types, headers, deep links, and the message of a page that has not been built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_adaptive._web.api import ui_files
from airflow_adaptive._web.api.app import render_errors

HTML = """<!doctype html><html><head><base href="./" /><meta property="csp-nonce" nonce="" />
<script type="module" src="./assets/index-1.js"></script></head></html>"""


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A page as it is built."""
    built = tmp_path / "dist"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text(HTML)
    (built / "assets" / "index-1.js").write_text("export {}")
    (built / ".built-from").write_text("secret")
    (tmp_path / "outside.js").write_text("outside")
    return built


@pytest.fixture
def client(dist: Path) -> TestClient:
    return client_of(dist)


def client_of(dist: Path, prefix: str = "") -> TestClient:
    app = FastAPI()
    ui_files.mount(app, dist)
    render_errors(app)
    if not prefix:
        return TestClient(app, follow_redirects=False)
    outer = FastAPI()
    outer.mount(prefix, app)
    return TestClient(outer, follow_redirects=False)


def base_of(answer: Any) -> str:
    (base,) = re.findall(r'<base href="([^"]*)" />', answer.text)
    return str(base)


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/ui/", "./"),
        ("/ui/?dag_id=a%2Fb&task_id=c", "./"),
        ("/ui/jobs/departures", "../"),
        ("/ui/jobs/with%2Fslash", "../"),
        ("/ui/jobs/d%C3%A9parts%20%3Cb%3E", "../"),
        ("/ui/no/such/page", "../../"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "/adaptive", "/behind/a/proxy"])
def test_deep_link_gets_the_page_with_a_base_that_leads_back(dist: Path, path: str, base: str, prefix: str) -> None:
    answer = client_of(dist, prefix).get(f"{prefix}{path}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert base_of(answer) == base


def test_page_is_requested_again_and_loads_from_here_only(client: TestClient) -> None:
    answers = [client.get("/ui/") for _ in range(2)]
    nonces = [re.findall(r'nonce="([^"]+)"', answer.text)[0] for answer in answers]
    assert nonces[0] != nonces[1]
    policy = answers[0].headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy
    assert f"style-src 'self' 'nonce-{nonces[0]}'" in policy
    assert "unsafe" not in policy
    assert answers[0].headers["cache-control"] == "no-cache"
    assert answers[0].headers["x-frame-options"] == "SAMEORIGIN"
    assert answers[0].headers["x-content-type-options"] == "nosniff"


def test_asset_has_its_type_and_is_kept(client: TestClient) -> None:
    answer = client.get("/ui/assets/index-1.js")
    assert (answer.status_code, answer.text) == (200, "export {}")
    assert answer.headers["content-type"].partition(";")[0] == "text/javascript"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        "assets/none.js",
        "assets/",
        "assets/..%2F.built-from",
        "assets/%2e%2e/%2e%2e/outside.js",
        "assets/..%5c..%5coutside.js",
        "assets/%00.js",
        "assets/" + "a" * 5000,
    ],
)
def test_what_is_no_asset_is_not_found(client: TestClient, path: str) -> None:
    answer = client.get(f"/ui/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.headers["cache-control"] == "no-store"


def test_address_without_its_slash_leads_to_the_page(client: TestClient) -> None:
    answer = client.get("/ui?dag_id=flights")
    assert (answer.status_code, answer.headers["location"]) == (308, "ui/?dag_id=flights")


def test_only_reading_is_possible(client: TestClient) -> None:
    assert client.head("/ui/").status_code == 200
    assert client.post("/ui/").status_code == 405


def test_page_that_was_not_built_explains_how_to_build_it(tmp_path: Path) -> None:
    client = client_of(tmp_path / "none")
    answer = client.get("/ui/jobs/departures")
    assert (answer.status_code, "make ui" in answer.text) == (503, True)
    assert "'nonce-" in answer.headers["content-security-policy"]


def test_page_that_is_built_later_is_found(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    assert client.get("/ui/").status_code == 503
    (tmp_path / "index.html").write_text(HTML)
    assert client.get("/ui/").status_code == 200
