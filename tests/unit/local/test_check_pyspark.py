"""Whether the installed pyspark is intact, and how to repair it."""

from __future__ import annotations

import base64
import hashlib
import sys
import tomllib
from importlib.metadata import Distribution, FileHash, PackageNotFoundError, PackagePath
from pathlib import Path

import pytest

from airflow_adaptive.local import check_pyspark
from airflow_adaptive.local.check_pyspark import REQUIREMENT, first_damaged, main, repair_command


def installed(folder: Path, name: str, recorded: str, content: str | None) -> PackagePath:
    """A file with the recorded content's hash and another content, None if it is missing."""
    if content is not None:
        (folder / name).write_text(content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(recorded.encode()).digest()).rstrip(b"=").decode()
    file = PackagePath(name)
    file.hash = FileHash(f"sha256={digest}")
    file.dist = Distribution.at(folder / "pyspark.dist-info")
    return file


def test_intact_file_is_not_damaged(tmp_path: Path) -> None:
    assert first_damaged([installed(tmp_path, "sql.py", "a = 1", "a = 1")]) is None


@pytest.mark.parametrize("content", ["a = 2", None])
def test_overwritten_and_missing_files_are_damaged(tmp_path: Path, content: str | None) -> None:
    file = installed(tmp_path, "sql.py", "a = 1", content)
    assert first_damaged([file]) is file


def test_files_that_pyspark_client_does_not_contain_are_not_read(tmp_path: Path) -> None:
    assert first_damaged([installed(tmp_path, "spark-core.jar", "jar", None)]) is None


def test_this_environment_is_intact() -> None:
    assert repair_command() is None
    assert main() == 0


def test_damaged_pyspark_is_reinstalled_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_pyspark, "first_damaged", lambda files: next(iter(files)))
    command = repair_command()
    assert command is not None
    assert command.startswith(f"{sys.executable} -m pip install --force-reinstall --no-deps pyspark==4.")
    assert main() == 1
    assert capsys.readouterr().err.splitlines()[-1] == command


def test_missing_pyspark_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(check_pyspark, "distribution", distribution)
    assert repair_command() == f"{sys.executable} -m pip install '{REQUIREMENT}'"


def test_requirement_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert REQUIREMENT in project["optional-dependencies"]["local"]
