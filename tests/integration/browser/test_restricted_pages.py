"""The page for a user who may not read everything, and for a server that cannot read the state of jobs."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.integration.browser.conftest import Visitor
from tests.support.airflow import published_jobs as stories
from tests.support.airflow.airflow_app import AirflowApp


@pytest.fixture
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users may read everything except the logs of tasks."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager  # noqa: PLC0415

    def is_authorized_dag(*_: Any, access_entity: Any = None, **__: Any) -> bool:
        return access_entity is None or access_entity.value != "TASK_LOGS"

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)


@pytest.mark.usefixtures("no_logs")
def test_tabs_that_a_user_may_not_read_name_the_missing_permission(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.failed("departures"))
    page = visitor.open("jobs/departures")
    expect(page.get_by_role("heading", level=1)).to_have_text("departures")
    expect(page.get_by_text(stories.HOPELESS.message)).to_have_count(0)
    for tab in ("Timeline", "Rescales", "Failures"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_text("permission to read the task logs").first).to_be_visible()


@pytest.mark.long
def test_page_explains_that_the_server_cannot_read_the_state_of_jobs(airflow_app: AirflowApp, visitor: Visitor) -> None:
    """With `[workers] state_store_backend`, the database contains references instead of the documents of a job."""
    asset = airflow_app.declare("departures")
    airflow_app.show(asset, {key: {"__airflow_state_ref__": f"s3://bucket/{key}"} for key in ("summary", "scheduler")})
    expect(visitor.open().get_by_text("state_store_backend")).to_be_visible()
    page = visitor.open("jobs/departures")
    expect(page.get_by_text("state_store_backend")).to_be_visible()
    expect(page.get_by_text("has not published anything yet")).to_have_count(0)
