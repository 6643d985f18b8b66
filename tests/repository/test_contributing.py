"""CONTRIBUTING.md names files that exist, and definitions that the files contain."""

from __future__ import annotations

import re

from tests.support.repository import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FILE = r"`((?:airflow_adaptive|tests|docs)/[\w/.-]+)`"


def test_files_exist() -> None:
    files = re.findall(FILE, PAGE)
    assert len(files) > 20
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_definitions_are_in_their_files() -> None:
    definitions = re.findall(rf"`(\w+)`\s+(?:in|of)\s+{FILE}", PAGE)
    assert len(definitions) > 5
    assert [
        (name, file) for name, file in definitions if not re.search(rf"\b{name}\b", (ROOT / file).read_text())
    ] == []
