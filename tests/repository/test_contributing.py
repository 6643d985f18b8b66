"""CONTRIBUTING.md names files that exist, and definitions that the files contain; what it names for a state knows every state."""

from __future__ import annotations

import re

from airflow_adaptive._core.scheduler.state import TRAITS
from airflow_adaptive._web.data.published_state import NOT_RUNNING
from tests.support.repository import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FILE = r"`((?:airflow_adaptive|tests|docs)/[\w/.-]+)`"
LINK = r"\]\((?!http)([^)]+)\)"


def test_files_exist() -> None:
    files = [*re.findall(FILE, PAGE), *re.findall(LINK, PAGE)]
    assert len(files) > 20
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_definitions_are_in_their_files() -> None:
    definitions = re.findall(rf"`(\w+)`\s+(?:in|of)\s+{FILE}", PAGE)
    assert len(definitions) > 5
    assert [
        (name, file) for name, file in definitions if not re.search(rf"\b{name}\b", (ROOT / file).read_text())
    ] == []


def test_every_state_has_a_health() -> None:
    assert {*NOT_RUNNING, "Executing", "RestartingLocally"} == {"unknown", *(state.__name__ for state in TRAITS)}
