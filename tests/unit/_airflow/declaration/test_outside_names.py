"""The names that a decorated function uses from outside have the objects of the DAG file, or are refused."""

from __future__ import annotations

import re
import string
from contextlib import suppress
from textwrap import indent
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_adaptive._airflow.declaration.function_script import FunctionScript
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from tests.support.decorated_functions import USE, Load, run, violations


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("LIMIT = 3\n" + USE + "LIMIT", "LIMIT (line 3)"),
        ("PATH = '/'\ndef build(spark, parallelism, path=PATH):\n    return path", "PATH (line 2)"),
        ("def helper(): ...\n" + USE + "[helper() for _ in 'a']", "helper (line 3)"),
        (
            "def build(spark, parallelism):\n    def nested():\n        return missing\n    return nested()",
            "missing (line 3)",
        ),
        (
            "def build(spark, parallelism):\n    global count\n    count = 1\n    return count",
            "count (line 3, which the function assigns)",
        ),
        ("class A: ...\nB = 1\n" + USE + "lambda: (A, B)", "A (line 4), B (line 4)"),
        ("try:\n    import nowhere\nexcept ImportError: ...\n" + USE + "nowhere", "nowhere (line 5)"),
        (USE + "__file__, __name__", "__file__ (line 2), __name__ (line 2)"),
        (USE + "eval('1')", "eval (line 2, which reads names at run time)"),
        ("def hash(it): ...\n" + USE + "hash(1)", "hash (line 3)"),
        ("Frame = dict\n" + USE.replace("):", ") -> Frame:") + "1", "Frame (line 2)"),
        ("def build(spark, parallelism):\n    class A:\n        B = C\n", "C (line 3)"),
    ],
)
def test_names_from_outside_are_refused_with_line_and_remedy(load: Load, text: str, names: str) -> None:
    found = violations(load(text))
    assert f"function 'build' uses what is defined outside of it: {names}. " in found
    assert "define functions and constants in the function, pass values as its arguments" in found


@pytest.mark.parametrize(
    "change",
    [
        "digits = '1'",
        "digits += '1'",
        "digits: str = '1'",
        "for digits in 'ab': ...",
        "with open(__file__) as digits: ...",
        "if (digits := '1'): ...",
        "def digits(): ...",
        "class digits: ...",
        "match 1:\n    case digits: ...",
        "import math as digits; digits = 1",
    ],
)
def test_import_that_is_bound_again_is_refused_before_and_after_the_function(load: Load, change: str) -> None:
    use = USE + "digits"
    assert "digits (line " in violations(load(f"from string import digits\n{change}\n{use}"))
    later = load(f"from string import digits\n{use}\ndef change():\n    global digits\n    digits = 1\n")
    assert "digits (line 3, bound again in line 5)" in violations(later)
    found = "def build(spark, parallelism):\n    return digits\n"
    module = load(f"from string import digits\n{found}{change}\n", "__dict__")
    module["digits"] = string.digits  # as while Airflow executes the file up to the function
    assert re.search(r"digits \(line 3, bound again in line [45]\)", violations(module["build"]))


@pytest.mark.parametrize(
    "later", ["from math import floor as sum", "def sum(): ...", "from nowhere_to_be_found import *"]
)
def test_name_of_python_that_the_file_binds_after_the_function_is_refused(load: Load, later: str) -> None:
    text = f"{USE}sum([1])\nif not __name__:\n    {later}\n"
    assert "sum (line 2, bound again in line 4)" in violations(load(text))


def test_repeated_imports_of_the_same_object_are_accepted(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    build = load("import json\n" + USE + "json.dumps(1)\nimport json\nfrom string import *\n")
    assert run(FunctionScript.of(build), monkeypatch) == "1"


def test_loop_around_the_function_that_binds_the_name_of_an_import_is_refused(load: Load) -> None:
    text = "from string import digits\nfor it in '1':\n    def build(spark, parallelism):\n        return digits\n    digits = digits\n"
    assert "digits (line 4, bound again in line 5)" in violations(load(text))


def test_name_that_is_bound_again_after_the_analysis_fails_the_task(load: Load) -> None:
    build = load("from string import digits\n" + USE + "digits, sum")
    script = FunctionScript.of(build)
    build.__globals__.update(digits="1", sum=1)
    with pytest.raises(DeclarationError, match=r"uses digits, which the DAG file binds again.*uses sum, which"):
        script.text({})


@pytest.mark.parametrize(
    "change",
    [
        "string.digits = '1'",
        "string.digits += '1'",
        "del string.digits",
        "setattr(string, 'digits', '1')",
        "import string as s\ns.digits = '1'",
        "for string.digits in '1': ...",
    ],
)
@pytest.mark.parametrize(
    ("imported", "use"),
    [
        ("", "string.digits"),
        ("", "string.digits.upper()"),
        ("", "string"),
        ("\nfrom string import digits", "digits"),
        ("\nimport string as other", "other.digits"),
    ],
)
def test_change_of_an_imported_object_is_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch, change: str, imported: str, use: str
) -> None:
    monkeypatch.setattr("string.digits", string.digits)  # restores the module
    found = violations(load(f"import string{imported}\n{USE}{use}\n{change}\n"))
    assert f"function 'build' uses {use.removesuffix('.upper()')}" in found
    assert "which the DAG file changes in line " in found


@pytest.mark.parametrize(
    ("change", "use"),
    [
        ("os.environ['A'] = '1'", "os.environ.get('A')"),
        ("os.environ.update(A='1')", "os.environ"),
        ("keyword.kwlist[0] = 'x'", "keyword.kwlist"),
        ("kwlist.append('x')", "keyword.kwlist"),
        ("kwlist += ['x']", "kwlist"),
        ("build.limit = 3", "build.limit"),
    ],
)
def test_change_of_an_object_in_place_is_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch, change: str, use: str
) -> None:
    monkeypatch.setattr("keyword.kwlist", ["a"])
    monkeypatch.setenv("A", "0")
    imports = "import os, keyword\nfrom keyword import kwlist\n"
    assert "the DAG file changes in line " in violations(load(f"{imports}{USE}{use}\n{change}\n"))


def test_function_of_the_dag_file_in_another_module_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("string.capwords", string.capwords)
    text = "import string\ndef change(module):\n    module.capwords = lambda it: it\nchange(string)\n"
    assert "uses string.capwords (line 6), which the DAG file replaces" in violations(
        load(text + USE + "string.capwords('a')")
    )


def test_changes_of_other_objects_and_in_other_functions_are_accepted(load: Load) -> None:
    text = "import os, string\nos.environ['A'] = '1'\ndef other():\n    string.digits = 'x'\nos.remove\n"
    FunctionScript.of(load(text + USE + "os.path.join('a', string.digits)"))


@pytest.mark.parametrize(
    "text",
    [
        "from json import dumps as print\n" + USE + "print",
        "import os.path as p\n" + USE + "p",
        "import xml.dom\nimport xml.sax\n" + USE + "xml.dom, xml.sax",
        "from xml import dom as d\n" + USE + "d",
        "from string import *\n" + USE + "digits",
        "try:\n    import nowhere as json\nexcept ImportError:\n    import json\n" + USE + "json",
        "if True:\n    from math import floor\nelse:\n    from math import ceil as floor\n" + USE + "floor",
        "digits = None\nfrom string import digits\n" + USE + "digits",
        "digits = None\ndel digits\nfrom string import digits\n" + USE + "lambda: [digits for _ in 'a']",
        "from math import floor as sum\ndel sum\n" + USE + "sum",
        "from math import floor\ndef build(spark, parallelism, it=floor, *, size=-(60 * 2)):\n    return it, size",
        "def build(spark, parallelism):\n    return build.__name__",
    ],
)
def test_driver_has_the_objects_of_the_dag_file(load: Load, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    build = load(text)
    found, expected = run(FunctionScript.of(build), monkeypatch), build("session", {"job": 2})
    assert (found() == expected()) if callable(found) and found.__name__ == "<lambda>" else found == expected


def test_default_value_that_may_differ_in_the_driver_is_refused(load: Load) -> None:
    build = load("import os\ndef build(spark, parallelism, a=1, *, b=os.environ.get('HOME')): ...")
    assert "function 'build' computes the default value of 'b' (line 2)" in violations(build)


def test_name_of_an_enclosing_function_in_a_default_value_is_refused(load: Load) -> None:
    text = "from string import digits\ndef make(digits):\n    def build(spark, parallelism, it=digits): ...\n    return build"
    assert "digits (line 3, a variable of an enclosing function)" in violations(load(text, "make")("1"))


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("annotation", ["decimal.Decimal", "'decimal.Decimal'"])
def test_annotations_of_nested_functions_mean_the_same_in_the_driver(
    load: Load, monkeypatch: pytest.MonkeyPatch, future: str, annotation: str
) -> None:
    """Pandas UDFs evaluate the annotations of their functions."""
    text = f"{future}import decimal\ndef build(spark, parallelism):\n    def plus(it: {annotation}) -> {annotation}: ...\n    return plus"
    build = load(text)
    plus, shipped = build(None, {}), run(FunctionScript.of(build), monkeypatch)
    assert shipped.__annotations__ == plus.__annotations__
    assert get_type_hints(shipped) == get_type_hints(plus)


NAMES = ("digits", "dumps", "sum", "json", "path", "floor")
BINDINGS = (
    *(
        "from string import digits",
        "from string import *",
        "import json",
        "from json import dumps",
        "from math import *",
    ),
    *(
        "from math import floor as sum",
        "from json import dumps as sum",
        "import os.path as path",
        "from os import path",
    ),
    *(
        "sum = 3",
        "digits = digits[1:] if 'digits' in globals() else 1",
        "json = path = None",
        "del sum",
        "def dumps(): ...",
    ),
    *(
        "class floor: ...",
        "for sum in (1, 2): ...",
        "(floor := 4)",
        "try:\n    import nowhere as json\nexcept ImportError:\n    import json",
    ),
    *("if not __name__:\n    import math as json", "def later():\n    global path\n    path = 2", "later()"),
)


@given(
    before=st.lists(st.sampled_from(BINDINGS), max_size=5),
    after=st.lists(st.sampled_from(BINDINGS), max_size=3),
    used=st.sets(st.sampled_from(NAMES), min_size=1, max_size=3),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_global_of_the_script_equals_the_one_of_the_dag_file(
    load: Load, before: list[str], after: list[str], used: set[str]
) -> None:
    """A function is refused while the file is executed, or by the task after the file was executed, or sees the same objects."""
    scripts: list[FunctionScript] = []
    function = ["def build(spark, parallelism):", f"    return {', '.join(sorted(used))},", "decorate(build)"]
    text = "\n".join([*map(guarded, before), *function, *map(guarded, after)])
    with suppress(DeclarationError):
        build = load(text, decorate=lambda it: scripts.append(FunctionScript.of(it)))
        shipped = scripts[0].text({}).partition("from airflow_adaptive.job")[0]
        names: dict[str, Any] = {}
        exec(shipped, names)
        assert names["build"](None, {}) == build(None, {})


def guarded(statement: str) -> str:
    """Return a statement that does nothing if it fails."""
    return f"try:\n{indent(statement, '    ')}\nexcept Exception: ..."
