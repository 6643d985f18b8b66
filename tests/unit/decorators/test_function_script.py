"""The script of a decorated function, and what a function must not use."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from airflow_adaptive.declaration.validation import DeclarationError
from airflow_adaptive.decorators.function_script import FunctionScript

Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return the function `build` of a DAG file with this text."""

    def load(text: str, name: str = "build") -> Any:
        file = tmp_path / "dag_file.py"
        file.write_text(dedent(text))
        spec = importlib.util.spec_from_file_location("dag_file", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return load


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


def test_script_calls_the_function_with_its_imports_and_arguments(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load(
        '''
        import json, math as m
        import os.path
        from collections import OrderedDict as Ordered
        import airflow

        ELSEWHERE = 1

        def build(spark, parallelism, path, *, end="parquet", sizes=(1, 2)):
            """Say "hello"."""
            # A text with the beginning of a comment.
            text = """
            # kept
            """
            def nested():
                return [Ordered, m.floor(x)] if (x := sizes[0] + 0.5) else None
            return spark, parallelism["job"], os.path.join(path, end), nested()[1], json.dumps(text.strip())
        '''
    )
    script = FunctionScript.of(build)
    assert script.name == "build"
    assert "airflow\n" not in script.definition
    assert "ELSEWHERE" not in script.definition
    assert run(script, monkeypatch, path="/data") == ("session", 2, "/data/parquet", 1, '"# kept"')


def test_function_inside_of_a_with_block_or_a_function_loses_its_indentation_and_its_decorators(load: Load) -> None:
    make = load(
        """
        def keep(function):
            return function

        def make():
            if True:
                @keep
                @keep
                def build(spark, parallelism):
                    return 1
            return build
        """,
        "make",
    )
    assert FunctionScript.of(make()).definition == "def build(spark, parallelism):\n    return 1"


def test_annotations_are_not_evaluated(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load(
        """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from pyspark.sql import SparkSession, DataFrame

        def build(spark: SparkSession, parallelism: dict[str, Undefined]) -> DataFrame:
            found: DataFrame = spark
            return found
        """
    )
    assert run(FunctionScript.of(build), monkeypatch) == "session"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("LIMIT = 3\ndef build(spark, parallelism):\n    return LIMIT", "LIMIT"),
        ("PATH = '/'\ndef build(spark, parallelism, path=PATH):\n    return path", "PATH"),
        ("def helper(): ...\ndef build(spark, parallelism):\n    return [helper() for _ in 'a']", "helper"),
        ("def build(spark, parallelism):\n    def nested():\n        return missing\n    return nested()", "missing"),
        ("def build(spark, parallelism):\n    global count\n    count += 1", "count"),
        ("from math import *\ndef build(spark, parallelism):\n    return floor(1)", "floor"),
        ("class A: ...\nB = 1\ndef build(spark, parallelism):\n    return lambda: (A, B)", "A, B"),
        ("try:\n    import json\nexcept ImportError: ...\ndef build(spark, parallelism):\n    return json", "json"),
    ],
)
def test_names_from_outside_are_refused_with_the_remedy(load: Load, text: str, names: str) -> None:
    found = violations(load(text))
    assert f"function 'build' uses what is defined outside of it: {names}. " in found
    assert "define functions and constants in the function, pass values as its arguments" in found


def test_variables_of_an_enclosing_function_are_refused(load: Load) -> None:
    make = load(
        """
        def make(limit):
            def build(spark, parallelism):
                nonlocal limit
                return limit
            return build
        """,
        "make",
    )
    assert "outside of it: limit." in violations(make(3))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("build = lambda spark, parallelism: 1", "is not a function that `def` defines"),
        ("class Build:\n    def __call__(self, spark, parallelism): ...\nbuild = Build()", "is not a function"),
        ("def build(spark): ...", "the first parameters of function 'build' must be `spark` and `parallelism`"),
        ("def build(): ...", "the first parameters of function 'build' must be"),
        ("def build(parallelism, spark): ...", "the first parameters of function 'build' must be"),
        ("async def build(spark, parallelism): ...", "is a generator or a coroutine: return the queries"),
        ("def build(spark, parallelism):\n    yield 1", "is a generator or a coroutine: return the queries"),
        (
            "import functools\n@functools.cache\ndef other(): ...\n@functools.wraps(other)\ndef build(spark, parallelism): ...",
            "has another decorator below @task.adaptive_spark: remove it",
        ),
        (
            "from airflow.sdk import Variable\ndef build(spark, parallelism):\n    return Variable.get('x')",
            "imports airflow.sdk, and drivers do not have it: pass the value as an argument",
        ),
        (
            "def build(spark, parallelism):\n    from airflow_adaptive.graph import JobGraph",
            "imports airflow_adaptive.graph, and drivers do not have it",
        ),
        ("def build(spark, parallelism):\n    from . import other", "uses a relative import: import from a module in"),
    ],
)
def test_functions_that_a_driver_cannot_run_are_refused(load: Load, text: str, error: str) -> None:
    assert error in violations(load(text))


def test_one_error_lists_all_violations(load: Load) -> None:
    build = load("import airflow\nA = 1\ndef build(spark, parallelism):\n    return A, airflow")
    assert violations(build).count("function 'build'") == 2


def test_driver_has_the_package_of_the_runtime(load: Load) -> None:
    build = load("def build(spark, parallelism):\n    from airflow_adaptive.job import AdaptiveJob")
    assert "AdaptiveJob" in FunctionScript.of(build).definition


def test_function_without_source_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("def build(spark, parallelism): ...", names)
    assert "the source of function 'build' cannot be read" in violations(names["build"])


def test_function_whose_file_has_changed_is_refused(load: Load, tmp_path: Path) -> None:
    build = load("\n\n\ndef build(spark, parallelism): ...")
    (tmp_path / "dag_file.py").write_text("def build(spark, parallelism): ...\n\n\n\n\n")
    assert "the file of function 'build' has changed" in violations(build)


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, b"x"])
def test_arguments_are_json_values(load: Load, value: Any) -> None:
    script = FunctionScript.of(load("def build(spark, parallelism, it): ..."))
    with pytest.raises(DeclarationError, match="argument 'it' of function 'build' must be a JSON value"):
        script.text({"it": value})


def test_arguments_become_literals(load: Load) -> None:
    script = FunctionScript.of(load("def build(spark, parallelism, it): ..."))
    text = script.text({"it": [None, True, 1.5, 'quote"', (1,)]})
    assert "{'it': [None, True, 1.5, 'quote\"', [1]]}" in text
    ast.parse(text)
