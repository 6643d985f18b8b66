"""The directories: `tests/unit` mirrors the package."""

from __future__ import annotations

from pathlib import Path

from tests.support.repository import ROOT

PACKAGE = ROOT / "airflow_adaptive"
UNIT = ROOT / "tests" / "unit"

TESTED_ELSEWHERE = {
    "scheduler/state_transitions": "The tests of the states cover every branch of the transitions (tests/unit/scheduler/states).",
}
"""Directories of the package without unit tests of their own, with the reason."""


def modules_of(test: Path) -> list[str]:
    """Return the names of the modules in the package directory that mirrors the directory of a test."""
    folder = PACKAGE / test.parent.relative_to(UNIT)
    return [module.stem.strip("_") for module in folder.glob("*.py")]


def test_every_directory_of_unit_tests_mirrors_a_package():
    folders = {file.parent for file in UNIT.rglob("*") if file.is_file() and file.parent.name != "__pycache__"}
    assert [folder for folder in folders if not (PACKAGE / folder.relative_to(UNIT)).is_dir()] == []


def test_every_directory_of_the_package_has_unit_tests_or_a_reason_to_have_none():
    modules = (file for file in PACKAGE.rglob("*.py") if "node_modules" not in file.parts and file.stem != "__init__")
    folders = {module.parent.relative_to(PACKAGE) for module in modules}
    untested = {folder.as_posix() for folder in folders if not any((UNIT / folder).glob("test_*.py"))}
    assert untested == set(TESTED_ELSEWHERE)


def test_every_unit_test_has_the_name_of_a_module():
    tests = sorted(UNIT.rglob("test_*.py"))
    assert [test for test in tests if not names_a_module(test)] == []


def names_a_module(test: Path) -> bool:
    """Tell whether the mirrored directory has the module of `test_<module>.py` or `test_<module>_<aspect>.py`."""
    name = test.stem.removeprefix("test_")
    return any(name == module or name.startswith(f"{module}_") for module in modules_of(test))
