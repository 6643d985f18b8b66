"""What `make test` runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_test_on_real_processes_is_left_out():
    """`make test` names the folders of those that it runs, to find them sooner."""
    lanes = re.findall(r"^test-(?:airflow|cluster):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folders = [ROOT / folder for lane in lanes for folder in re.findall(r"tests/\S+", lane)]
    marked = [file for file in (ROOT / "tests").rglob("test_*.py") if _is_run(file.read_text())]
    assert len(lanes) == 2
    assert [file for file in marked if not any(file.is_relative_to(folder) for folder in folders)] == []


def _is_run(source: str) -> bool:
    return "mark.long" not in source and re.search(r"mark\.(airflow|browser|cluster)\b", source) is not None
