"""The sections of the docs that programs write: what lies between two comments that name the program."""

from __future__ import annotations

import re
from pathlib import Path


def section(page: Path, name: str) -> str:
    """The body of the section of that name, "" if the page has none."""
    return page.read_text().partition(f"<!-- {name}: begin -->\n")[2].partition(f"<!-- {name}: end -->")[0]


def replace_section(page: Path, name: str, body: str) -> None:
    """Put a new body into the section of that name.

    Raises:
        ValueError: the page has no such section.
    """
    text, found = re.subn(
        rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)",
        lambda marks: f"{marks[1]}{body}\n{marks[2]}",
        page.read_text(),
        flags=re.DOTALL,
    )
    if not found:
        raise ValueError(f"{page} has no section {name!r}")
    page.write_text(text)
