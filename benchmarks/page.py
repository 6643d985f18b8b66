"""The sections of docs/benchmarks.md that programs write: what lies between two comments that name the program."""

from __future__ import annotations

import re
from pathlib import Path


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
