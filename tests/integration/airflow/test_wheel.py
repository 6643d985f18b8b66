"""The wheel as users install it: into an environment of its own, without the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.repository import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

INSTALL_S = 900
"""Longest duration of an installation. Airflow has many packages, and the network may be slow."""


class Environment:
    """A virtual environment that contains the wheel with the constraints of the project, and nothing of the repository."""

    def __init__(self, folder: Path) -> None:
        self._programs = folder / "environment" / "bin"
        self._folder = folder
        self._run(sys.executable, "-m", "venv", str(folder / "environment"))
        self._run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
        (wheel,) = folder.glob("airflow_adaptive-*.whl")
        self.call(
            "python", "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel)
        )

    def call(self, program: str, *arguments: str) -> str:
        """Run a program of the environment, and return its output."""
        return self._run(str(self._programs / program), *arguments)

    def airflow(self, *arguments: str) -> Any:
        """Return the JSON that a command of Airflow prints. Airflow may log before it."""
        output = self.call("airflow", *arguments, "--output", "json")
        return json.loads(output[output.index("[") :].splitlines()[-1])

    def _run(self, *command: str) -> str:
        others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = f"{self._programs}{os.pathsep}{os.environ['PATH']}"
        env = {**others, "AIRFLOW_HOME": str(self._folder / "airflow"), "PATH": path}
        ran = subprocess.run(
            command, cwd=self._folder, env=env, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("package"))


def test_all_requirements_fit_together(environment: Environment) -> None:
    assert environment.call("python", "-m", "pip", "check").strip() == "No broken requirements found."


def test_airflow_finds_the_provider_and_the_plugin(environment: Environment) -> None:
    assert "airflow-adaptive" in {provider["package_name"] for provider in environment.airflow("providers", "list")}
    assert "airflow_adaptive" in {plugin["name"] for plugin in environment.airflow("plugins")}


def test_the_wheel_contains_the_page_and_the_examples_which_can_be_imported(environment: Environment) -> None:
    where = "import airflow_adaptive, pathlib; print(pathlib.Path(airflow_adaptive.__file__).parent)"
    package = Path(environment.call("python", "-c", where).strip())
    assert (package / "plugin" / "ui" / "dist" / "index.html").is_file()
    assert {file.name for file in (package / "example_dags").glob("*.py")} == {
        file.name for file in (ROOT / "dags").glob("*.py")
    }
    for file in (package / "example_dags").glob("*.py"):
        environment.call("python", str(file))
