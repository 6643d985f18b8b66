"""Code, documentation and UI use the terms of the glossary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.repository import retired_terms


def test_no_retired_term_is_in_code_tests_documentation_or_ui() -> None:
    assert list(retired_terms.violations()) == []


@pytest.mark.parametrize("row", retired_terms.ROWS, ids=lambda row: row["retired"][0])
def test_each_retired_term_has_a_rule_or_an_exemption(row: dict[str, Any]) -> None:
    exempt = row.get("exempt", {})
    assert [term for term in row["retired"] if retired_terms.has_rule(term) == (term in exempt)] == []
    assert set(exempt) <= set(row["retired"])
    assert row["use"]


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
