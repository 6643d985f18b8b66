"""The packages that DAG authors and job scripts import, the examples that must import no deeper module, and names that occur once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT

DAG_FACADES: Final = (
    "airflow_adaptive.operators",
    "airflow_adaptive.sensors",
    "airflow_adaptive.triggers",
    "airflow_adaptive.timetables",
    "airflow_adaptive.autoscaling",
    "airflow_adaptive.graph",
)
FACADES: Final = (*DAG_FACADES, "airflow_adaptive.job", "airflow_adaptive.testing")
CODE_BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
IMPORT: Final = re.compile(r"^\s*(?:from|import) (airflow_adaptive[\w.]*)", re.MULTILINE)


def examples() -> dict[str, str]:
    """Source of each example: DAG files, job scripts, and the Python code blocks of the documentation."""
    found = {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / "dags").rglob("*.py")}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        found[str(page.relative_to(ROOT))] = "\n".join(CODE_BLOCK.findall(page.read_text()))
    return found


@pytest.mark.parametrize(("name", "source"), examples().items(), ids=[*examples()])
def test_example_imports_facades_only(name: str, source: str) -> None:
    assert set(IMPORT.findall(source)) <= set(FACADES)


def test_examples_use_every_facade_that_a_quickstart_needs() -> None:
    used = {module for source in examples().values() for module in IMPORT.findall(source)}
    assert used >= set(FACADES) - {"airflow_adaptive.timetables"}


@pytest.mark.parametrize("facade", FACADES)
def test_facade_exports_what_it_names(facade: str) -> None:
    module = import_module(facade)
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=f"module '{facade}' has no attribute 'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize("facade", DAG_FACADES)
def test_names_for_type_checkers_are_those_for_the_interpreter(facade: str) -> None:
    module = import_module(facade)
    imported = {
        alias.name
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module
        not in ("__future__", "typing", "airflow_adaptive._airflow.internals", "airflow_adaptive._core.lazy_exports")
        for alias in node.names
    }
    assert sorted(imported) == sorted(module.__all__)


@pytest.mark.long
def test_one_trigger_is_loaded_without_operators_and_without_the_other_triggers() -> None:
    source = "import airflow_adaptive.triggers.job_state, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    modules = loaded.split()
    assert "airflow_adaptive.triggers.job_state" in modules
    assert "airflow_adaptive.triggers.adaptive_job" not in modules
    assert not [module for module in modules if module.startswith("airflow_adaptive.operators")]


AIRFLOW_FOLDERS: Final = {"decorators", "hooks", "links", "operators", "sensors", "timetables", "triggers"}
"""Airflow names their modules after what they contain, as in `operators.adaptive_spark` and `hooks.adaptive_spark`."""


def test_no_class_name_occurs_twice_and_no_module_name_three_times() -> None:
    files = [file for file in (ROOT / "airflow_adaptive").rglob("*.py") if "node_modules" not in file.parts]
    classes = Counter(
        node.name for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
    )
    modules = Counter(file.stem for file in files if file.parent.name not in AIRFLOW_FOLDERS and file.stem[:2] != "__")
    assert [name for name, count in classes.items() if count > 1] == []
    assert [name for name, count in modules.items() if count > 2] == []
