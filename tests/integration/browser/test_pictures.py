"""The pictures of docs/reference/page.md, in the light and the dark theme. `WRITE_PICTURES=1` writes them to docs/pictures."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.integration.browser.conftest import Visitor
from tests.integration.browser.test_pages import editor_of, overflow
from tests.integration.browser.test_rescale_policies import REASON, bounds_of, place, policy, requirements_source, soon
from tests.support.airflow import published_jobs as stories
from tests.support.airflow.airflow_app import AirflowApp
from tests.support.repository import ROOT

WIDTH = 1280


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_pictures_of_the_documentation_are_those_of_the_page(
    airflow_app: AirflowApp, visitor: Visitor, tmp_path: Path, theme: str
) -> None:
    folder = ROOT / "docs" / "pictures" if os.environ.get("WRITE_PICTURES") else tmp_path
    # The bounds of the plan with 6 slots, in which the advice of 8 was set when the job had 2 slots.
    bounds, since = {"read": (1, 8), "enrich": (1, 8), "aggregate": (1, 4)}, soon(minutes=-53)
    set_by = {"reason": REASON.replace("-> 4", "-> 8"), "since": since}
    by = requirements_source("POLICY", "calendar and load", until=soon(minutes=95), **set_by)
    advised = {name: {"lower": lower, "upper": upper} for name, (lower, upper) in bounds.items()}
    place(airflow_app, by, policy(advice=policy()["advice"] | set_by | {"bounds": advised}))
    for job in (stories.waiting("arrivals"), stories.backing_off("delays"), stories.suspended("tickets")):
        stories.place(airflow_app, job)
    page = visitor.open(theme=theme, color_scheme=theme, viewport={"width": WIDTH, "height": 200})
    expect(page.get_by_role("img", name="Slots within the last day").first).to_be_visible()
    page.screenshot(path=folder / f"jobs-{theme}.png", full_page=True)
    page.get_by_role("link", name="departures").click()
    expect(page.locator("canvas").last).to_be_visible()
    page.screenshot(path=folder / f"job-{theme}.png", full_page=True)
    bounds_of(page).screenshot(path=folder / f"bounds-{theme}.png")
    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_text("Workers and their slots")).to_be_visible()
    page.screenshot(path=folder / f"plan-{theme}.png", full_page=True)
    page.set_viewport_size({"width": WIDTH, "height": 1000})
    page.get_by_role("tab", name="Timeline").click()
    expect(page.get_by_text("Transitions and decisions")).to_be_visible()
    page.screenshot(path=folder / f"timeline-{theme}.png")
    page.get_by_role("tab", name="Overview").click()
    dialog = editor_of(page)
    dialog.get_by_label("Upper bound").first.fill("2")
    expect(dialog.get_by_text("The job rescales.")).to_be_visible()
    page.screenshot(path=folder / f"requirements-{theme}.png")
    assert overflow(page) == 0
    used = re.findall(r"pictures/(.+)-light\.png", (ROOT / "docs" / "reference" / "page.md").read_text())
    assert sorted(f"{name}-{theme}.png" for name in used) == sorted(it.name for it in folder.glob(f"*-{theme}.png"))
