"""The code in README and docs: DAG files are read as Airflow reads them, Python parses and names what exists, and shell commands parse.

`tests/integration/spark/driver/test_tables.py` runs the DAG files of tables, and `make docs` builds the site.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from airflow.cli import cli_parser
from airflow.dag_processing.dagbag import DagBag

from tests.support.page_dags import PageDag, page_dags
from tests.support.repository import ROOT
from tests.support.tables.jars import DELTA, ICEBERG

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
KNOWN = {
    *("AdaptiveJob", "AdaptiveJobEventTrigger", "AdaptiveSparkOperator", "CombinedPolicy", "LoadPolicy"),
    *("calendar", "policy", "records", "spark", "flights", "task", "os", "datetime", "timedelta", "UTC"),
    *("BATCHES", "CHECKPOINT", "INPUT", "OUTPUT", "SCHEMA", "SINK", "SOURCE", "departures", "F", "max_by"),
}
"""Names that a fragment may use without defining them: earlier blocks of its page, or its text, introduce them."""


def blocks(*languages: str) -> dict[str, str]:
    found = {}
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text())):
            if match[2] in languages:
                lines = [line.removeprefix(match[1]) for line in match[3].splitlines()]
                found[f"{page.relative_to(ROOT)}:{number}"] = "\n".join(lines) + "\n"
    return found


PYTHON = blocks("python")
PROVIDED = sorted(
    {*re.findall(r"^from (airflow\.providers\.(\w+)\S+) import (\w+)", "\n".join(PYTHON.values()), re.MULTILINE)}
)
INSTALLED = [(module, name) for module, provider, name in PROVIDED if find_spec(f"airflow.providers.{provider}")]
COMPLETE = {name: code for name, code in PYTHON.items() if "with DAG(" in code and "import DAG" in code}
SHELL = blocks("bash")


def test_a_guide_has_at_most_40_lines_beside_its_dag_file() -> None:
    guides = [page for page in (ROOT / "docs" / "guides").rglob("*.md") if page.name != "index.md"]
    texts = {
        page.name: re.sub(r"^```python\n# dags/.*?^```$", "", page.read_text(), flags=re.M | re.S) for page in guides
    }
    assert [name for name, text in texts.items() if len(text.splitlines()) > 40] == []


@pytest.mark.parametrize("name", PYTHON)
def test_python_defines_the_names_that_it_uses(name: str, tmp_path: Path) -> None:
    file = tmp_path / "block.py"
    file.write_text(PYTHON[name])
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select=F821,E9",
        f"--config=builtins = {sorted(KNOWN)}",
    ]
    done = subprocess.run([*ruff, "--no-cache", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("module", "name"), INSTALLED)
def test_classes_of_installed_providers_exist(module: str, name: str) -> None:
    assert hasattr(import_module(module), name)


@pytest.mark.parametrize("name", COMPLETE)
def test_airflow_reads_the_dag_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(COMPLETE[name])
    assert not DagBag(tmp_path).import_errors


@pytest.mark.parametrize("name", SHELL)
def test_shell_parses(name: str) -> None:
    done = subprocess.run(["bash", "-n"], input=SHELL[name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SHELL)
def test_commands_of_the_package_exist(name: str) -> None:
    parser: ArgumentParser = cli_parser.get_parser()
    for line in SHELL[name].replace("\\\n", " ").splitlines():
        if line.startswith("airflow adaptive "):
            parser.parse_args(shlex.split(line, comments=True)[1:])


@pytest.fixture(params=page_dags().values(), ids=lambda found: found.name)
def found(request: pytest.FixtureRequest) -> PageDag:
    return request.param


def test_name_of_the_job_is_that_of_the_file(found: PageDag) -> None:
    assert found.job.name in found.name
    assert found.parameters["job"] == found.name


def test_packages_of_tables_are_those_of_the_tests(found: PageDag) -> None:
    tested = {name for packages in (*DELTA.values(), *ICEBERG.values()) for name in packages.names}
    named: list[Any] = [package for package in found.parameters.get("packages", ()) if "kafka" not in package]
    assert set(named) <= tested
