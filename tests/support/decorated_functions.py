"""Functions of DAG files, and the scripts that a driver runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from airflow_adaptive.declaration.validation import DeclarationError
from airflow_adaptive.decorators.function_script import FunctionScript

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
