"""The script of a decorated function, and what a function must not use."""

from __future__ import annotations

import ast
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration.function_script import FunctionScript
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._core.protocol.failures import report_build_failure
from tests.support.decorated_functions import USE, Load, run, violations


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
    assert [line for number, line in sorted(script.lines.items()) if number < 10] == [
        "import json; import math as m",
        "import os.path",
        "from collections import OrderedDict as Ordered",
        'def build(spark, parallelism, path, *, end="parquet", sizes=(1, 2)):',
    ]
    assert run(script, monkeypatch, path="/data") == ("session", 2, "/data/parquet", 1, '"# kept"')


def test_function_inside_of_a_block_or_a_function_keeps_its_lines_without_decorators(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = load(
        '''
        def keep(function):
            return function

        def make():
            if True:
                @keep
                @keep
                def build(spark, parallelism):
                    return """1
            2"""
            return build
        ''',
        "make",
    )
    script = FunctionScript.of(make())
    assert script.lines == {
        8: "if True:",
        9: "        def build(spark, parallelism):",
        10: '            return """1',
        11: '    2"""',
    }
    assert run(script, monkeypatch) == "1\n    2"


def test_import_above_an_indented_function_is_shipped(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load("if True:\n    import json\n    def build(spark, parallelism):\n        return json.dumps(1)")
    script = FunctionScript.of(build)
    assert script.lines[1] == "import json"
    assert run(script, monkeypatch) == "1"


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


def test_error_names_the_line_of_the_dag_file(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load(
        """
        import json

        if True:
            def build(spark, parallelism):
                values = {}

                return json.loads(values["key"])
        """
    )
    with pytest.raises(KeyError) as raised:
        run(FunctionScript.of(build), monkeypatch)
    frame = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno, frame.line) == ("dag_file.py", 8, 'return json.loads(values["key"])')
    assert report_build_failure(raised.value).message.endswith("(dag_file.py:8)")


def test_import_that_the_driver_lacks_fails_with_the_line_of_the_dag_file(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "airports", ModuleType("airports"))
    script = FunctionScript.of(load("\n\nimport airports\n" + USE + "airports"))
    text = script.text({})
    monkeypatch.delitem(sys.modules, "airports")
    with pytest.raises(ModuleNotFoundError) as raised:
        exec(text, {"__name__": "__main__"})
    assert report_build_failure(raised.value).message.endswith("(dag_file.py:3)")


@pytest.mark.parametrize(
    "text",
    [
        "df.writeStream.format('noop').start()",
        "df.writeStream.toTable('t')",
        "df.writeStream.start().awaitTermination()",
        "[df.writeStream.option('a', 'b').start()]",
    ],
)
def test_started_query_is_refused_with_the_remedy(load: Load, text: str) -> None:
    found = violations(load(f"def build(spark, parallelism):\n    df = spark.table('a')\n    return {text}"))
    method = "toTable" if "toTable" in text else "start"
    assert f"function 'build' calls {method}() (line 3): return the writer, do not call {method}()" in found


@pytest.mark.parametrize(
    "option", ["option('checkpointLocation', '/c')", "options(path='/a', checkpointlocation='/c')"]
)
def test_location_of_a_checkpoint_is_refused_with_the_remedy(load: Load, option: str) -> None:
    text = f"def build(spark, parallelism):\n    w = spark.a.writeStream\n    return w.format('noop').{option}"
    assert "function 'build' sets checkpointLocation (line 3): leave it out" in violations(load(text))


def test_writer_in_a_variable_must_not_be_started(load: Load) -> None:
    text = "def build(spark, parallelism):\n    w = spark.a.writeStream\n    x = w.format('noop')\n    return x.start()"
    assert "calls start() (line 4)" in violations(load(text))


def test_other_methods_named_start_are_accepted(load: Load) -> None:
    FunctionScript.of(load("import threading\n" + USE + "threading.Thread().start()"))


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
    assert "outside of it: limit (line 5, a variable of an enclosing function)." in violations(make(3))


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
            "imports airflow.sdk (line 1), and drivers do not have it: pass the value as an argument",
        ),
        (
            "def build(spark, parallelism):\n    from airflow_adaptive.graph import JobGraph",
            "imports airflow_adaptive.graph (line 2), and drivers do not have it",
        ),
        (
            "def build(spark, parallelism):\n    from . import other",
            "uses a relative import (line 2): import from a module in",
        ),
    ],
)
def test_functions_that_a_driver_cannot_run_are_refused(load: Load, text: str, error: str) -> None:
    assert error in violations(load(text))


def test_one_error_lists_all_violations(load: Load) -> None:
    build = load("import airflow\nA = 1\ndef build(spark, parallelism):\n    return A, airflow")
    assert violations(build).count("function 'build'") == 2


def test_driver_has_the_package_of_the_runtime(load: Load) -> None:
    build = load("def build(spark, parallelism):\n    from airflow_adaptive.job import AdaptiveJob")
    assert "AdaptiveJob" in FunctionScript.of(build).lines[2]


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


def test_name_of_the_file_is_ascii(load: Load) -> None:
    names = [FunctionScript.of(load(f"def {it}(spark, parallelism): ...", it)).file_name for it in ("build", "flüge")]
    assert names == ["build_job.py", "function_job.py"]


def test_name_of_a_library_in_a_file_name_does_not_hide_its_lines() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile("\n1 / 0", "pyspark_flights.py", "exec"))
    assert report_build_failure(raised.value).message.endswith("(pyspark_flights.py:2)")
