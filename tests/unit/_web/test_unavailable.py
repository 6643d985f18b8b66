"""The app that explains why the REST API and the page cannot be imported."""

from __future__ import annotations

from starlette.testclient import TestClient

from airflow_adaptive._web import unavailable


def test_error_text_is_not_published() -> None:
    """The text of an import error contains paths of the server, and the page requires no login."""
    client = TestClient(
        unavailable.create_app(ImportError("cannot import name 'x' from 'y' (/home/airflow/secret.py)"))
    )
    page = client.get("/ui/?dag_id=a")
    assert "ImportError" in page.text
    assert "secret" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
