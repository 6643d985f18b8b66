"""Which example DAGs the demo runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local.demo.environment import example_dags


def add_examples(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "flight_departures.py").touch()
    return folder


def test_wheel_has_its_examples_in_the_package(tmp_path: Path) -> None:
    package = tmp_path / "airflow_adaptive"
    add_examples(tmp_path / "dags")
    examples = add_examples(package / "example_dags")
    assert example_dags(package) == examples


def test_clone_has_its_examples_beside_the_package(tmp_path: Path) -> None:
    examples = add_examples(tmp_path / "dags")
    assert example_dags(tmp_path / "airflow_adaptive") == examples


def test_missing_examples_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()  # a folder of another package
    with pytest.raises(FileNotFoundError, match=r"neither in .*example_dags nor in .*dags"):
        example_dags(tmp_path / "airflow_adaptive")
