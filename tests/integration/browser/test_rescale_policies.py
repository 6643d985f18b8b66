"""The source of the bounds of a job on the page, and setting and clearing of bounds by users."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from airflow_adaptive._core.requirements.control_requests import REQUIREMENTS
from airflow_adaptive._core.view import HISTORY, POLICY, SUMMARY
from tests.integration.browser.conftest import Visitor
from tests.integration.browser.test_pages import editor_of, overflow
from tests.support.airflow import published_jobs as stories
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.airflow.published_documents import published

pytestmark = pytest.mark.long

RESET = {"parallelism": {"lowerBound": -1, "upperBound": -1}}
REASON = "window 'rush'; query 'q': it is busy for 91% of the time on 2 slot(s): 2 -> 4"


def soon(**length: float) -> str:
    return (datetime.now(UTC) + timedelta(**length)).isoformat()


def requirements_source(origin: str, name: str, **more: Any) -> dict[str, Any]:
    """Source of the active bounds, as the loop publishes it."""
    return {
        "origin": origin,
        "name": name,
        "via": "",
        "since": soon(minutes=-13),
        "until": None,
        "reason": "",
    } | more


def policy(**more: Any) -> dict[str, Any]:
    """A rescale policy and its last advice, as the loop publishes them."""
    advice = {
        "at": soon(seconds=-5),
        "since": soon(minutes=-13),
        "bounds": {name: {"lower": 2, "upper": 4} for name in ("read", "enrich", "aggregate")},
        "source": "calendar and load",
        "reason": REASON,
        "next_at": soon(minutes=95),
    }
    return {"kind": "CombinedPolicy", "dry_run": False, "active": True, "advice": advice, "problem": None} | more


def place(
    airflow_app: AirflowApp, by: dict[str, Any], published_policy: dict[str, Any] | None = None, **more: Any
) -> int:
    """Publish a job with this source of its bounds and this rescale policy, and return the id of its Asset."""
    job = stories.rescaled_twice()
    summary = published(job, **stories.SPARK)[SUMMARY] | {"requirements_source": by}
    if published_policy and published_policy["active"]:
        summary["requirements"] = published_policy["advice"]["bounds"]
    return stories.place(airflow_app, job, **{SUMMARY: summary, POLICY: published_policy or {}, **more})


def bounds_of(page: Any) -> Any:
    return page.get_by_role("region", name="Bounds")


def test_bounds_of_calendar_and_load_have_a_reason_and_a_next_change(airflow_app: AirflowApp, visitor: Visitor) -> None:
    place(
        airflow_app, requirements_source("POLICY", "calendar and load", reason=REASON, until=soon(minutes=95)), policy()
    )
    page = visitor.open("jobs/departures")
    bounds = bounds_of(page)
    expect(bounds).to_contain_text("Set by calendar and load, 13 m ago, next change")
    expect(bounds).to_contain_text("Rescale policy, by calendar and load")
    expect(bounds.get_by_text("Active", exact=True)).to_be_visible()
    expect(bounds).to_contain_text("read 2–4, enrich 2–4, aggregate 2–4")  # noqa: RUF001
    expect(bounds).to_contain_text(re.compile(r"next change in 1 h 3[45] m"))
    expect(bounds).to_contain_text("it is busy for 91% of the time on 2 slot(s): 2 → 4")
    expect(bounds.get_by_role("button", name="Clear the override")).to_have_count(0)
    page.get_by_role("link", name="Adaptive jobs").click()
    expect(page.get_by_role("row").filter(has_text="departures")).to_contain_text("by calendar and load")


def test_dry_run_is_marked_wherever_its_advice_is_reported(airflow_app: AirflowApp, visitor: Visitor) -> None:
    decisions = [
        {
            "at": soon(seconds=-9),
            "state": "Executing",
            "reason_code": "POLICY_DRY_RUN",
            "reason": "dry run: load would set read 2-4 (query 'q': busy)",
        },
        {
            "at": soon(seconds=-7),
            "state": "Executing",
            "reason_code": "REQUIREMENTS_UNCHANGED",
            "reason": "bounds by the DAG: nothing changes",
        },
    ]
    history = {HISTORY: {"transitions": [], "decisions": decisions}}
    place(airflow_app, requirements_source("DAG", "dag"), policy(dry_run=True, active=False), **history)
    page = visitor.open("jobs/departures", theme="dark", viewport={"width": 390, "height": 800})
    expect(page.get_by_text("Dry run", exact=True)).to_have_count(2)
    expect(bounds_of(page)).to_contain_text("Set by the DAG")
    expect(bounds_of(page)).to_contain_text("The policy reports its advice and changes nothing.")
    expect(bounds_of(page)).to_contain_text("Would set read 2–4")  # noqa: RUF001
    assert overflow(page) == 0
    page.get_by_role("tab", name="Timeline").click()
    entry = page.get_by_role("listitem").filter(has_text="load would set")
    expect(entry.get_by_text("Dry run", exact=True)).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Bounds by the DAG")).to_be_visible()


def test_policy_that_can_t_be_followed_gives_the_reason(airflow_app: AirflowApp, visitor: Visitor) -> None:
    problem = "the job has no vertex 'sink': it has 'read', 'enrich', 'aggregate'"
    calendar = requirements_source(
        "CALENDAR", "rush_hour/set_requirements/scheduled__2026-11-21T06:00:00+00:00", via="task"
    )
    place(airflow_app, calendar, policy(active=False, advice=None, problem=problem))
    page = visitor.open("jobs/departures", viewport={"width": 390, "height": 800})
    expect(bounds_of(page)).to_contain_text("Set by calendar: rush_hour/set_requirements")
    expect(bounds_of(page)).to_contain_text(f"Not applied: {problem}")
    assert overflow(page) == 0


def test_job_that_reports_no_bounds_has_no_such_part(airflow_app: AirflowApp, visitor: Visitor) -> None:
    stories.place(airflow_app, stories.rescaled_twice())
    page = visitor.open("jobs/departures")
    expect(page.get_by_role("region", name="State")).to_be_visible()
    expect(bounds_of(page)).to_have_count(0)


# ---- setting and clearing -------------------------------------------------------------------------------------------


def test_bounds_are_set_for_a_while(airflow_app: AirflowApp, visitor: Visitor) -> None:
    asset = place(airflow_app, requirements_source("POLICY", "load"), policy())
    dialog = editor_of(visitor.open("jobs/departures"), upper="4")
    expect(dialog).to_contain_text("Currently set by load")
    expect(dialog).to_contain_text("These bounds override the rescale policy until they expire or you clear them.")
    dialog.get_by_label("Upper bound").first.fill("3")
    dialog.get_by_label("These bounds apply").select_option("for a duration")
    apply, length = dialog.get_by_role("button", name="Apply"), dialog.get_by_label("Duration")
    length.fill("soon")
    expect(dialog.get_by_text("Must be a duration")).to_be_visible()
    expect(apply).to_be_disabled()
    length.fill("90 min")
    apply.click()
    expect(dialog).to_have_count(0)
    assert airflow_app.requested(asset, REQUIREMENTS)["read"] == {"parallelism": {"lowerBound": 2, "upperBound": 3}}
    ends = datetime.fromisoformat(airflow_app.stored(asset, REQUIREMENTS)["until"]) - datetime.now(UTC)
    assert timedelta(minutes=88) < ends <= timedelta(minutes=90)


def test_bounds_that_a_policy_has_set_are_held_until_a_time(airflow_app: AirflowApp, visitor: Visitor) -> None:
    asset = place(airflow_app, requirements_source("POLICY", "load"), policy())
    dialog = editor_of(visitor.open("jobs/departures", timezone_id="Asia/Kathmandu"), upper="4")
    dialog.get_by_label("These bounds apply").select_option("until a time")
    dialog.get_by_label("Date and time").fill("2013-01-01T10:00")
    expect(dialog.get_by_text("Must be in the future.")).to_be_visible()
    dialog.get_by_label("Date and time").fill("2099-01-01T10:00")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    until = datetime.fromisoformat(airflow_app.stored(asset, REQUIREMENTS)["until"])
    assert until == datetime(2099, 1, 1, 4, 15, tzinfo=UTC), "ten o'clock in the viewer's zone"


def test_bounds_of_a_user_are_cleared(airflow_app: AirflowApp, visitor: Visitor) -> None:
    body = {name: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for name in ("read", "enrich", "aggregate")}
    requester = {"by": "alice", "at": soon(minutes=-3), "via": "REST", "until": soon(minutes=57)}
    alice = requirements_source("USER", "alice", via="REST", until=soon(minutes=57))
    asset = place(airflow_app, alice, policy(active=False), **{REQUIREMENTS: {"value": body, **requester}})
    page = visitor.open("jobs/departures")
    expect(bounds_of(page)).to_contain_text(re.compile(r"Set by alice \(REST\), .*, until \d{4}-"))
    expect(bounds_of(page)).to_contain_text("Another source set the active bounds.")
    bounds_of(page).get_by_role("button", name="Clear the override").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Back")).to_be_focused()
    expect(dialog).to_contain_text("The rescale policy (by calendar and load) sets the bounds again.")
    dialog.get_by_role("button", name="Clear").click()
    expect(dialog).to_have_count(0)
    assert airflow_app.requested(asset, REQUIREMENTS) == dict.fromkeys(body, RESET)


def test_viewer_can_t_clear_bounds(airflow_app: AirflowApp, visitor: Visitor) -> None:
    place(airflow_app, requirements_source("USER", "alice", via="REST"))
    page = visitor.open("jobs/departures", user="viewer")
    expect(bounds_of(page)).to_contain_text("until they are cleared")
    expect(bounds_of(page).get_by_role("button", name="Clear the override")).to_be_disabled()
