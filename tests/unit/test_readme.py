"""The README, which PyPI renders without the files of the repository."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPOSITORY = re.compile(r"https://github\.com/airflow-adaptive/airflow-adaptive/(?:blob|tree)/main/([^#]+)")

LINKS = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())


def test_every_link_is_absolute() -> None:
    assert [link for link in LINKS if not link.startswith("https://")] == []


def test_linked_files_of_the_repository_exist() -> None:
    linked = [match[1] for match in map(REPOSITORY.match, LINKS) if match]
    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []
