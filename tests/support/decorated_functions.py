"""Functions of DAG files, and the scripts that a driver runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration.function_script import FunctionScript
from airflow_adaptive._airflow.declaration.validation import DeclarationError

Load = Callable[..., Any]

USE = "def build(spark, parallelism):\n    return "
"""The beginning of a function that returns the following expression."""


def violations(function: Any) -> str:
    with pytest.raises(DeclarationError) as raised:
        FunctionScript.of(function)
    return str(raised.value)


class RecordedJob:
    """Stands for the `AdaptiveJob` of the driver."""

    built: Any = None

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build

    def run(self) -> None:
        RecordedJob.built = self.build("session", {"job": 2})


def run(script: FunctionScript, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> Any:
    """Run a script with a job that only calls the function, and return what the function returns."""
    monkeypatch.setitem(sys.modules, "airflow_adaptive.job", type(sys)("airflow_adaptive.job"))
    monkeypatch.setattr(sys.modules["airflow_adaptive.job"], "AdaptiveJob", RecordedJob, raising=False)
    exec(compile(script.text(arguments), "script.py", "exec"), {"__name__": "__main__"})
    return RecordedJob.built


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return the function `build` of a DAG file with this text."""

    def load(text: str, name: str = "build", **names: Any) -> Any:
        file = tmp_path / "dag_file.py"
        file.write_text(dedent(text))
        spec = importlib.util.spec_from_file_location("dag_file", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        vars(module).update(names)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return load
