"""The Makefile and the tasks of the laboratory run every test, and the nightly run calls all of them that other runs do not call."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.lab.__main__ import TASKS
from tests.support import published_tables
from tests.support.repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
NIGHTLY = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
TESTS = re.compile(r"(?<!--ignore )\btests/[\w/.]+")


def run_paths() -> list[Path]:
    """Return what the targets and the tasks pass to pytest."""
    return [
        ROOT / path for text in (MAKEFILE, *(task.command for task in TASKS.values())) for path in TESTS.findall(text)
    ]


def nightly_targets() -> list[str]:
    """Return what the nightly run passes to `make`."""
    found: list[str] = yaml.safe_load(NIGHTLY)["jobs"]["test"]["strategy"]["matrix"]["target"]
    return found


def test_commands_name_paths_that_exist():
    assert [path for path in run_paths() if not path.exists()] == []


def test_every_module_is_run():
    paths = run_paths()
    assert [
        module for module in (ROOT / "tests").rglob("test_*.py") if not any(map(module.is_relative_to, paths))
    ] == []


def test_nightly_run_calls_every_task_and_every_server():
    called = " ".join(nightly_targets())
    (servers,) = re.findall("^SERVERS := (.+)$", MAKEFILE, re.MULTILINE)
    assert set(re.findall(r"TASK='?([\w-]+)", called)) == set(TASKS)
    assert re.findall(r"SERVERS=(\w+)", called) == servers.split()


def test_tables_name_tasks():
    assert set(published_tables.TASKS.values()) <= set(TASKS)
