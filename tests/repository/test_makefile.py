"""The targets of the Makefile run every test, and the nightly run calls every target that measures."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.support.repository import ROOT

TESTS = ROOT / "tests"
NIGHTLY = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
CI = (ROOT / ".ci" / "run").read_text()
MEASURING = re.compile(r"^((?:test|fleet|mutants|bench)[a-z-]*|explore|chaos):.*## ", re.MULTILINE)
"""A documented target that runs tests or measures."""

COMMANDS = re.compile(
    r"^(test-airflow|test-spark|test-kubernetes|test-kafka|test-databases|test-postgresql|test-long|test-faults|unit):.*\n((?:\t.*\n)+)",
    re.MULTILINE,
)


def directories() -> dict[str, list[Path]]:
    """Return the directories that each target passes to pytest."""
    return {
        target: [ROOT / path for path in re.findall(r"(?<!--ignore )\btests/\S+", commands)]
        for target, commands in COMMANDS.findall((ROOT / "Makefile").read_text())
    }


def left_out(folders: list[Path], by: list[Path]) -> list[Path]:
    """Return the test modules in some directories that are in none of the other directories."""
    modules = [module for folder in folders for module in folder.rglob("test_*.py")]
    return [module for module in modules if not any(module.is_relative_to(folder) for folder in by)]


def test_targets_name_directories_only():
    assert [path for paths in directories().values() for path in paths if not path.is_dir()] == []


def test_every_module_belongs_to_a_target():
    assert left_out([TESTS], [path for paths in directories().values() for path in paths]) == []


def nightly_commands() -> set[str]:
    """Return the targets that the nightly run calls, with their arguments."""
    matrix = yaml.safe_load(NIGHTLY)["jobs"]["test"]["strategy"]["matrix"]
    included = {f"{entry['target']} {entry['arguments']}" for entry in matrix["include"]}
    return {*matrix["target"], *included, *re.findall(r"run: .*\bmake ([a-z-]+)", NIGHTLY)}


def test_nightly_run_calls_every_target_that_other_runs_do_not_call():
    targets = set(MEASURING.findall((ROOT / "Makefile").read_text()))
    called = {*re.findall(r"^make ([a-z-]+)", CI, re.MULTILINE), "fleet"}  # `make test` includes `fleet`
    assert targets - called - {command.partition(" ")[0] for command in nightly_commands()} == set()
