"""The directories: `tests/unit` mirrors the package."""

from __future__ import annotations

from tests.support.repository import ROOT

PACKAGE = ROOT / "airflow_adaptive"
UNIT = ROOT / "tests" / "unit"


def test_every_directory_of_unit_tests_mirrors_a_package():
    folders = {file.parent for file in UNIT.rglob("*") if file.is_file() and file.parent.name != "__pycache__"}
    assert [folder for folder in folders if not (PACKAGE / folder.relative_to(UNIT)).is_dir()] == []
