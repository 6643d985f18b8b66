"""A headless Chromium of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

TIMEOUT_MS = 180_000
"""For what a page does and shows: other tests may have the processors, too."""

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """For tests of the page. Its event loop stays in this process, so these come last."""
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415

    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.fail(f"none of {', '.join(CHROMIUM)} is installed (Debian, Ubuntu: apt-get install chromium)")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield chromium
        chromium.close()
