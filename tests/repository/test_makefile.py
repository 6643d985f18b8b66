"""The targets of the Makefile run every test."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.repository import ROOT

TESTS = ROOT / "tests"
NIGHTLY = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
LONG = re.compile(r"^(test-long|test-faults|test-weeks|explore|fleet-\w+|mutants\S*|bench-\w+):", re.MULTILINE)
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


def test_unit_tests_run_in_the_unit_target():
    unit = [TESTS / "unit", TESTS / "repository", TESTS / "benchmarks", TESTS / "faults" / "unit"]
    assert left_out(unit, directories()["unit"]) == []


def test_integration_tests_run_in_the_targets_of_make_test_or_on_real_servers():
    targets = directories()
    names = ("test-airflow", "test-spark", "test-kubernetes", "test-postgresql", "test-kafka")
    folders = [folder for name in names for folder in targets[name]]
    assert left_out([TESTS / "integration"], folders) == []
    assert left_out([TESTS / "integration"], targets["test-long"]) == []


def test_nightly_run_calls_every_long_target():
    long = set(LONG.findall((ROOT / "Makefile").read_text()))
    called = re.findall(r"(?:target: |- )([a-z-]+)(?:,.*|)$|run: .*\bmake ([a-z-]+)", NIGHTLY, re.MULTILINE)
    assert long - {name for names in called for name in names} == set()


def test_shards_of_the_nightly_run_are_complete():
    shards: dict[str, set[int]] = {}
    for number, count in re.findall(r"(\d+)/(\d+)", NIGHTLY):
        shards.setdefault(count, set()).add(int(number))
    assert shards == {count: set(range(1, int(count) + 1)) for count in shards}
