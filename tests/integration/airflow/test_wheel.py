"""The wheel as users install it: into an environment of its own, without the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.repository import ROOT

if TYPE_CHECKING:
    from s3fs import S3FileSystem

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
        self._wheel = wheel
        self.install()

    def install(self, extras: str = "") -> None:
        """Install the wheel with extras, as `[s3]`."""
        constraints = str(ROOT / "constraints.txt")
        self.call("python", "-m", "pip", "install", "--quiet", "--constraint", constraints, f"{self._wheel}{extras}")

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


STAGE = """
import asyncio, sys
from airflow.sdk import DAG
from airflow_adaptive.operators import AdaptiveSparkOperator

place = f"s3a://aws_test@{sys.argv[1]}"
with DAG("flights", schedule=None):
    job = AdaptiveSparkOperator(task_id="job", job="departures", application=f"{place}/job.py", job_directory=f"{place}/jobs", parallelism=1)
print(asyncio.run(job._declared.stage("attempt")).script)
"""


def test_extra_s3_stages_a_script_on_s3_with_the_credentials_of_a_connection(
    environment: Environment, s3: S3FileSystem, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's provider of S3 cannot read credentials while an event loop runs, so that no job could be staged."""
    extra = {"endpoint_url": s3.endpoint_url, "region_name": "us-east-1"}
    aws = {"conn_type": "aws", "login": s3.key, "password": s3.secret, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_TEST", json.dumps(aws))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "spark://127.0.0.1:1"}))
    s3.pipe_file(f"{bucket}/job.py", b"print(1)")
    environment.install("[s3]")
    script = environment.call("python", "-c", STAGE, bucket).splitlines()[-1]
    assert script.startswith(f"s3a://{bucket}/jobs/departures/code/")
    assert s3.exists(script.replace("s3a://", ""))
