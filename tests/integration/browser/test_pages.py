"""The page in a browser: what people see, type and press, and what comes of it."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from airflow_adaptive._airflow.internals import has
from airflow_adaptive._core.codec import encode_plain
from airflow_adaptive._core.deployment import Preparation
from airflow_adaptive._core.protocol.documents import PreparedQuery, StateSchema
from airflow_adaptive.local.waiting import wait_until
from tests.integration.browser.conftest import Visitor
from tests.lab.scenario import Scenario
from tests.support.airflow import published_jobs as stories
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.deployments import deployed, store_dag
from tests.support.airflow.job_files import master_with_log, place_with_files
from tests.support.airflow.published_documents import TASK, executing, place, place_deleted, published

XSS = '<img src=x onerror=alert(1)> & "quoted"'

BEING_STOPPED = {"suspended": "The job is being suspended", "canceled": "The job is being canceled"}


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


# ---- the list -------------------------------------------------------------------------------------------------------


def test_list_shows_jobs_and_leads_to_them(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    stories.place(airflow_app, stories.waiting("arrivals"))
    page = visitor.open()
    row = page.get_by_role("row").filter(has_text="departures")
    expect(row.get_by_role("link", name="flights")).to_have_attribute("href", re.compile("/dags/flights$"))
    expect(row.get_by_role("link", name="stream")).to_have_attribute(
        "href", re.compile("/dags/flights/runs/.*/tasks/stream$")
    )
    expect(row).to_contain_text("Executing")
    expect(row).to_contain_text(re.compile("3.20"))
    expect(row).to_contain_text("6 / 7")
    expect(row).to_contain_text("Keeps up")
    expect(row.get_by_role("img", name="Slots within the last day, at most 6")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="arrivals")).to_contain_text("Waits for slots")
    page.get_by_role("link", name="departures").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("departures")
    assert page.url.endswith("/adaptive/ui/jobs/departures")
    page.get_by_role("link", name="Adaptive jobs").click()
    expect(row).to_be_visible()


@pytest.mark.long
def test_list_is_sorted_by_a_column_until_the_column_is_chosen_again(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.waiting("arrivals"))
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open()
    first, column = page.get_by_role("row").nth(1), page.get_by_role("button", name="Parallelism")
    expect(first).to_contain_text("arrivals")
    column.click()
    expect(first).to_contain_text("departures")
    expect(page).to_have_url(re.compile("sort=Parallelism"))
    column.click()
    expect(first).to_contain_text("arrivals")


@pytest.mark.long
def test_log_of_the_driver_is_read_from_the_cluster_or_unknown_for_a_reason(
    airflow_app: AirflowApp, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with master_with_log() as master:
        place_with_files(airflow_app, monkeypatch, tmp_path, master, executing())
        page = visitor.open("jobs/departures?tab=log")
        expect(page.get_by_label(re.compile("Standard output of driver-"))).to_have_text("one\ntwo\nthree")
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("no master of spark://127.0.0.1:7077 accepts requests")).to_be_visible()


def test_list_is_filtered_and_keeps_its_filter_in_the_address(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.waiting("arrivals"))
    stories.place(airflow_app, stories.suspended("tickets"))
    page = visitor.open()
    arrivals, tickets = (page.get_by_role("link", name=name) for name in ("arrivals", "tickets"))
    expect(tickets).to_be_visible()
    page.get_by_label("Name").fill("ARR")
    expect(tickets).to_have_count(0)
    expect(arrivals).to_be_visible()
    page.reload()
    expect(page.get_by_label("Name")).to_have_value("ARR")
    expect(arrivals).to_be_visible()
    page.get_by_label("State").select_option("Finished")
    expect(page.get_by_text("No job matches")).to_be_visible()


@pytest.mark.long
def test_filter_is_cleared_and_gone_back_to(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.waiting("arrivals"))
    stories.place(airflow_app, stories.suspended("tickets"))
    page = visitor.open("?name=ARR&state=WaitingForResources")
    name, tickets = page.get_by_label("Name"), page.get_by_role("link", name="tickets")
    expect(page.get_by_role("link", name="arrivals")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(tickets).to_be_visible()
    expect(name).to_have_value("")
    name.fill("tick")
    expect(page).to_have_url(re.compile("name=tick"))
    expect(page.get_by_role("link", name="arrivals")).to_have_count(
        0
    )  # The page shows the filter, as a visitor sees it.
    page.go_back()
    expect(name).to_have_value("")
    page.go_back()
    expect(name).to_have_value("ARR")
    expect(tickets).to_have_count(0)


@pytest.mark.long
def test_many_jobs_come_in_pages(airflow_app: AirflowApp, visitor: Visitor) -> None:
    for number in range(60):
        airflow_app.show(airflow_app.declare(f"job_{number:03}"), {"desired_state": {"value": "running"}})
    page = visitor.open()
    expect(page.get_by_text(re.compile("1.50 of 60"))).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("link", name="job_059")).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_be_disabled()


@pytest.mark.long
def test_empty_list_explains_when_jobs_appear(visitor: Visitor) -> None:
    expect(visitor.open().get_by_text("There are no adaptive jobs yet")).to_be_visible()


@pytest.mark.long
def test_jobs_that_no_control_loop_confirms_are_marked(airflow_app: AirflowApp, visitor: Visitor) -> None:
    """The task of two jobs has ended without the end of the job, and the store of one of them is empty. The task of the third one runs."""
    place_deleted(airflow_app, executing("deleted"))
    stories.place(airflow_app, stories.rescaled_twice())
    stale = stories.rescaled_twice("arrivals")
    summary = {**published(stale)["summary"], "task": {**TASK, "run_id": "later"}}
    airflow_app.show(stories.place(airflow_app, stale), {"summary": summary})
    airflow_app.age(timedelta(minutes=3))
    marks = {"deleted": "No control loop", "departures": "No control loop", "arrivals": "Stale"}
    for name, mark in marks.items():
        page = visitor.open()
        expect(page.get_by_role("row").filter(has_text=name)).to_contain_text(mark)
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        no_loop = page.get_by_text("No control loop controls the driver of this job")
        expect(no_loop).to_have_count(0 if mark == "Stale" else 1)
        expect(page.get_by_role("status").filter(has_text="Stale")).to_have_count(0 if name == "deleted" else 1)


@pytest.mark.long
def test_job_without_a_control_loop_is_canceled_and_vanishes(airflow_app: AirflowApp, visitor: Visitor) -> None:
    place_deleted(airflow_app, executing())
    page = visitor.open("jobs/departures")
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel this job").click()
    if not has("TriggererCallback"):  # Airflow 3.1
        expect(
            page.get_by_role("dialog").get_by_text("only Airflow 3.2 or later can cancel such a job")
        ).to_be_visible()
        return
    expect(page.get_by_text("The job is being canceled")).to_be_visible()
    airflow_app.push({"state": "CANCELED"}, TASK)
    expect(page.get_by_text("There is no adaptive job 'departures'")).to_be_visible()


def test_names_are_text_and_long_ones_have_room(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.failed(XSS))
    stories.place(airflow_app, stories.rescaled_twice("x" * 200))
    page = visitor.open(viewport={"width": 390, "height": 800})
    page.get_by_role("link", name=XSS).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(XSS)
    expect(page.get_by_role("region", name="Health")).to_be_visible()
    assert overflow(page) == 0
    page = visitor.open("jobs/" + "x" * 200, viewport={"width": 390, "height": 800})
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert overflow(page) == 0


# ---- a job ----------------------------------------------------------------------------------------------------------


def test_job_that_changes_is_followed_without_a_reload(airflow_app: AirflowApp, visitor: Visitor) -> None:
    job = stories.minutes_ago(Scenario(graph=stories.pipeline("departures")), 1)
    asset = stories.place(airflow_app, stories.have(job.given_deploying(2), 2))
    page = visitor.open("jobs/departures")
    page.get_by_text("State diagram").click()
    expect(page.get_by_role("img", name="State diagram: Deploying now")).to_be_visible()
    expect(page.get_by_role("region", name="Health")).to_contain_text("Starts")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    airflow_app.show(asset, published(job.when_plan_activated()))
    expect(page.get_by_role("img", name="State diagram: Executing now")).to_be_visible()


@pytest.mark.long
def test_job_whose_loop_sends_no_heartbeat_is_reported_as_stale(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.clock.install()
    page.reload()
    page.clock.fast_forward("05:00")
    expect(page.get_by_text("Stale: 5 m")).to_be_visible()


TABS = {
    "Timeline": "the driver has activated the plan",
    "Rescales": "the query restarted on the running driver",
    "Plan": "worker-20131-10.0.0.22:35002",
    "Failures": "java.net.SocketTimeoutException",
    "Configuration": "executing_stabilization_timeout",
}


def test_tabs_show_their_parts_and_the_address_names_the_tab(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures")
    for tab, text in TABS.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_text(text).first).to_be_visible()
    page.reload()
    expect(page.get_by_role("tab", name="Configuration")).to_have_attribute("aria-selected", "true")


@pytest.mark.long
def test_deployment_is_previewed_while_it_has_not_taken_effect(
    airflow_app: AirflowApp, visitor: Visitor, tmp_path: Path
) -> None:
    running, newest = (store_dag(airflow_app, tmp_path, executor_memory=memory) for memory in ("1g", "2g"))
    count = StateSchema(operator="stateStoreSave", key="carrier string", value="count bigint", partitions=4)
    plan = ("Aggregate", "StreamingRelation", "output carrier string", "output count bigint")
    hours = PreparedQuery(name="hours", sources=("KafkaV2",), state_after=(count,), plan=plan)
    documents = deployed(running, newest)
    documents["deployment"]["preparation"] = encode_plain(Preparation(deployment="new", queries=(hours,)))
    place(airflow_app, executing().when_redeployed("new"), **documents)
    page = visitor.open("jobs/departures")
    row = page.get_by_role("region", name="Pending deployment").get_by_role("row").filter(has_text="executor_memory")
    expect(row).to_have_text("executor_memory1g2ga new driver")
    expect(page.get_by_text("Its driver is being prepared")).to_be_visible()
    expect(page.get_by_text("New query hours: it starts without state")).to_be_visible()
    expect(page.get_by_text("stateStoreSave: key (carrier string), value (count bigint), 4 partitions")).to_be_visible()
    expect(page.get_by_text("+output carrier string")).to_be_visible()
    expect(page.get_by_text("The DAG declares another deployment")).to_have_count(0)


@pytest.mark.long
def test_timeline_is_filtered_by_reason(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures?tab=timeline")
    entries = page.get_by_role("tabpanel").get_by_role("listitem")
    expect(entries.filter(has_text="Scheduling started").first).to_be_visible()
    page.get_by_label("Reason").select_option("Plan activated")
    expect(entries.filter(has_text="Scheduling started")).to_have_count(0)
    expect(entries.filter(has_text="Plan activated").first).to_be_visible()


@pytest.mark.long
def test_charts_are_read_with_the_keyboard_and_as_a_table(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures")
    expect(page.locator("canvas")).to_have_count(5)
    cursor = page.get_by_role("slider")
    cursor.focus()
    cursor.press("Home")
    expect(cursor).to_have_attribute("aria-valuetext", re.compile("."))
    first = cursor.get_attribute("aria-valuetext")
    assert first is not None
    cursor.press("End")
    expect(cursor).not_to_have_attribute("aria-valuetext", first)
    page.get_by_text("Metrics as a table").click()
    expect(page.get_by_role("table", name="Metrics over time")).to_be_visible()


@pytest.mark.long
def test_charts_are_zoomed_together_by_dragging_until_the_zoom_is_reset(
    airflow_app: AirflowApp, visitor: Visitor
) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures")
    charts, reset = page.get_by_role("slider"), page.get_by_role("button", name="Reset zoom")
    begin = charts.get_attribute("aria-valuemin")

    def drag() -> bool:
        """Drag, again if a section that was loaded late has moved the charts meanwhile."""
        charts.scroll_into_view_if_needed()
        area = charts.bounding_box()
        page.mouse.move(area["x"] + 0.5 * area["width"], area["y"] + 40)
        page.mouse.down()
        page.mouse.move(area["x"] + 0.75 * area["width"], area["y"] + 60, steps=5)
        page.mouse.up()
        with suppress(AssertionError):
            expect(reset).to_be_visible(timeout=10_000)
        return bool(reset.is_visible())

    wait_until(drag, 300, "the zoom")
    least, most = (float(charts.get_attribute(f"aria-value{end}")) for end in ("min", "max"))
    assert 700 < most - least < 1_100, "about a quarter of an hour"
    charts.press("-")
    charts.press("-")
    charts.press("-")
    expect(reset).to_have_count(0)
    charts.press("+")
    reset.click()
    expect(charts).to_have_attribute("aria-valuemin", begin)


@pytest.mark.long
def test_backoff_counts_down(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.backing_off("delays"))
    page = visitor.open("jobs/delays")
    clock = page.get_by_role("listitem").filter(has_text="Restart (backoff)")
    expect(clock).to_contain_text("in ")
    before = clock.inner_text()
    expect(clock).not_to_have_text(before)


# ---- changing it ----------------------------------------------------------------------------------------------------


def editor_of(page: Any, upper: str = "8") -> Any:
    page.get_by_role("button", name="Change parallelism").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Upper bound").first).to_have_value(upper)
    return dialog


def test_requirements_are_checked_tried_and_applied(airflow_app: AirflowApp, visitor: Visitor) -> None:
    asset = stories.place(airflow_app, stories.rescaled_twice())
    dialog = editor_of(visitor.open("jobs/departures"))
    apply, upper = dialog.get_by_role("button", name="Apply"), dialog.get_by_label("Upper bound").first
    expect(apply).to_be_disabled()
    upper.fill("99")
    expect(dialog.get_by_text("Must be at most 16")).to_be_visible()
    expect(apply).to_be_disabled()
    upper.fill("3")
    expect(dialog.get_by_text("The job rescales.")).to_be_visible()
    assert airflow_app.requested(asset, "requirements") is None
    apply.click()
    expect(dialog).to_have_count(0)
    assert airflow_app.requested(asset, "requirements")["read"] == {"parallelism": {"lowerBound": 1, "upperBound": 3}}


@pytest.mark.long
def test_requirements_that_another_user_has_changed_are_read_again(airflow_app: AirflowApp, visitor: Visitor) -> None:
    asset = stories.place(airflow_app, stories.rescaled_twice())
    dialog = editor_of(visitor.open("jobs/departures"))
    body = {name: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for name in ("read", "enrich", "aggregate")}
    airflow_app.show(asset, {"requirements": {"value": body}})
    dialog.get_by_label("Upper bound").first.fill("5")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Read them again")
    dialog.get_by_role("button", name="Reload the bounds").click()
    expect(dialog.get_by_label("Upper bound").first).to_have_value("2")
    assert airflow_app.requested(asset, "requirements") == body


@pytest.mark.long
@pytest.mark.parametrize(("button", "desired_state"), [("Suspend", "suspended"), ("Cancel job", "canceled")])
def test_stopping_a_job_is_confirmed_first(
    airflow_app: AirflowApp, visitor: Visitor, button: str, desired_state: str
) -> None:
    asset = stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures")
    opener, dialog = page.get_by_role("button", name=button), page.get_by_role("dialog")
    opener.click()
    expect(dialog.get_by_role("button", name="Back")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    assert airflow_app.requested(asset, "desired_state") == "running"
    opener.click()
    dialog.get_by_role("button", name="Suspend" if desired_state == "suspended" else "Cancel this job").click()
    expect(page.get_by_text(BEING_STOPPED[desired_state], exact=True)).to_be_visible()
    assert airflow_app.requested(asset, "desired_state") == desired_state


@pytest.mark.long
def test_resuming_that_is_refused_gives_the_reason(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.suspended("tickets"))
    page = visitor.open("jobs/tickets")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("does not exist anymore")


# ---- who may not, and what is not there -----------------------------------------------------------------------------


def test_viewer_sees_all_and_may_change_nothing(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures", user="viewer")
    for name in ("Change parallelism", "Suspend", "Cancel job"):
        expect(page.get_by_role("button", name=name)).to_have_attribute("aria-disabled", "true")
    page.get_by_role("button", name="Suspend").click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_user_who_is_logged_out_sees_a_message(visitor: Visitor) -> None:
    expect(visitor.open(user=None).get_by_text("You are logged out")).to_be_visible()


@pytest.mark.long
def test_request_for_an_unknown_job_is_reported(visitor: Visitor) -> None:
    page = visitor.open("jobs/nothing")
    expect(page.get_by_text("There is no adaptive job 'nothing'")).to_be_visible()
    page.get_by_role("link", name="All adaptive jobs").click()
    expect(page.get_by_role("heading", name="Adaptive jobs", exact=True)).to_be_visible()


# ---- inside Airflow -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_theme_is_that_of_airflow(visitor: Visitor) -> None:
    page = visitor.open(theme="dark")
    expect(page.locator("html")).to_have_class("dark")
    page.evaluate("localStorage.theme = 'light'; dispatchEvent(new StorageEvent('storage', {key: 'theme'}))")
    expect(page.locator("html")).to_have_class("light")


@pytest.mark.long
def test_tab_of_a_task_instance_shows_its_job(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice(), "flights", "stream")
    page = visitor.open("?dag_id=flights&run_id=r&task_id=stream&map_index=-1")
    expect(page.get_by_role("heading", level=1)).to_have_text("departures")
    other = visitor.open("?dag_id=flights&run_id=r&task_id=other&map_index=-1")
    expect(other.get_by_text("No adaptive job has published anything for this task")).to_be_visible()


@pytest.mark.long
def test_airflow_shows_the_page_in_its_frame(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("/plugin/adaptive-jobs")
    frame = page.frame_locator("iframe")
    with page.expect_popup() as opened:
        frame.get_by_role("link", name="flights").click()
    assert opened.value.url.endswith("/dags/flights")
    frame.get_by_role("link", name="departures").click()
    expect(frame.get_by_role("heading", level=1)).to_have_text("departures")
    if has("AssetStateStoreAccessor"):  # Before 3.3, Airflow's address does not follow its frames.
        page.wait_for_url("**/plugin/adaptive-jobs/adaptive/ui/jobs/departures")
        page.reload()
    frame.get_by_role("tab", name="Configuration").click()
    with page.expect_popup():  # No master has the address.
        frame.get_by_role("link", name="http://10.0.0.20:8080").click()
