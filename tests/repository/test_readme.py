"""The README, which PyPI renders without the files of the repository."""

from __future__ import annotations

import re

from airflow_adaptive import __version__
from tests.support.repository import ROOT

REPOSITORY = re.compile(r"https://github\.com/airflow-adaptive/airflow-adaptive/(?:blob|tree)/main/([^#]+)")

TEXT = (ROOT / "README.md").read_text()
DEFINITIONS = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", TEXT, re.MULTILINE))
LINKS = [*re.findall(r"\]\(([^)]+)\)", TEXT), *DEFINITIONS.values()]


def test_every_link_is_absolute() -> None:
    assert [link for link in LINKS if not link.startswith("https://")] == []


def test_every_reference_is_defined() -> None:
    assert set(re.findall(r"\]\[([^\]]+)\]", TEXT)) == DEFINITIONS.keys()


def test_status_names_the_version() -> None:
    assert f"**Status**: {__version__}," in TEXT


def test_linked_files_of_the_repository_exist() -> None:
    linked = [match[1] for match in map(REPOSITORY.match, LINKS) if match]
    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []
