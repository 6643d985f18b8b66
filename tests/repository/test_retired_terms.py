"""Code, documentation and UI use the terms of the glossary."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository import retired_terms


def test_no_retired_term_is_in_code_documentation_or_ui() -> None:
    assert list(retired_terms.violations()) == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("module.py", "def tell_job(): ...\n", [(1, "tell_job")]),
        ("module.py", "x = 1  # the plan in force\n", [(1, "in force")]),
        ("module.py", "class Look: ...\n", [(1, "Look")]),
        ("module.py", "look = 1\n", []),
        ("Page.tsx", "const wishDialog = 1;\n", [(1, "wishDialog")]),
        ("page.md", "The wishes of a user.\n", [(1, "wishes")]),
        ("page.md", "The requests of a user.\n", []),
    ],
)
def test_retired_terms_are_found(tmp_path: Path, name: str, text: str, found: list[tuple[int, str]]) -> None:
    assert list(retired_terms.in_file(tmp_path / name, text)) == found
