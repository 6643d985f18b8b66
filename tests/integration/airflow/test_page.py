"""A person follows and steers a running job in Airflow's UI: a real browser, a real Airflow, a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Begin, begin  # noqa: F401  a fixture
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.browser_fixture import TIMEOUT_MS


@pytest.fixture
def page(airflow: AirflowUnderTest, browser: Any) -> Iterator[Any]:
    """Airflow's UI for a user who has logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
    token = airflow.api._client.headers["Authorization"].removeprefix("Bearer ")
    context.add_cookies([{"name": "_token", "value": token, "url": airflow.url}])
    context.set_default_timeout(TIMEOUT_MS)
    yield context.new_page()
    context.close()


def confirm(frame: Any, button: str) -> None:
    """Press a button, and the one of the same name that asks whether it is meant."""
    frame.get_by_role("button", name=button).click()
    frame.get_by_role("dialog").get_by_role("button", name=button).click()


def test_user_gives_a_job_more_suspends_and_resumes_it(
    airflow: AirflowUnderTest,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
    page: Any,
) -> None:
    run = begin("watched")
    spark_cluster.add_worker(cores=1, memory_mb=1024)
    page.goto(airflow.url)
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="Adaptive jobs").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="watched").first.click()  # the second one leads to the DAG, which has the same name
    expect(frame.get_by_role("region", name="State")).to_contain_text("The job is running with its plan.")
    bounds = frame.get_by_role("region", name="Bounds")
    expect(bounds).to_contain_text("Set by calendar")

    frame.get_by_role("button", name="Change parallelism").click()
    dialog = frame.get_by_role("dialog")
    dialog.get_by_label("Upper bound").fill("2")
    expect(dialog.get_by_text("Slots:")).to_be_visible()
    dialog.get_by_role("button", name="Apply").click()
    expect(frame.get_by_text("2 of 1\u20132", exact=True)).to_be_visible()
    run.until_executing(2)
    expect(frame.get_by_role("region", name="State")).to_contain_text("The job is running with its plan.")
    expect(bounds).to_contain_text("Set by admin")
    frame.get_by_role("tab", name="Plan").click()
    expect(frame.get_by_text("Workers and their slots")).to_be_visible()
    frame.get_by_role("tab", name="Timeline").click()
    expect(frame.get_by_text("Transitions and decisions")).to_be_visible()

    confirm(frame, "Suspend")
    run.until_task("success")
    expect(frame.get_by_role("button", name="Resume")).to_be_visible()
    wait_until(lambda: airflow.api.run_state("watched", run.run_id) == "success", TIMEOUT_S, "the end of the run")
    confirm(frame, "Resume")
    run.until_executing(2)
    frame.get_by_role("link", name="Adaptive jobs").click()
    expect(frame.get_by_role("row").filter(has_text="watched")).to_contain_text("Executing")

    page.goto(f"{airflow.url}/dags/watched/runs/{run.run_id}/tasks/job")
    page.get_by_role("link", name="Adaptive job", exact=True).click()
    expect(page.frame_locator("iframe").get_by_role("heading", level=1)).to_have_text("watched")
