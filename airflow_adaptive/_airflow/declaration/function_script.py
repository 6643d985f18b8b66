"""The script of a decorated function: the source of the function, and the imports of the DAG file that the function uses."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType
from typing import Any, Final

from airflow_adaptive._airflow.declaration.outside_names import POSTPONED, Analysis, ImportedName, OutsideNames
from airflow_adaptive._airflow.declaration.validation import DeclarationError

PARAMETERS: Final = ("spark", "parallelism")
"""Names of the first parameters of a build function. The driver passes their arguments."""

MISSING_ON_DRIVERS: Final = ("airflow", "airflow_adaptive")
"""Packages that drivers do not have."""

PRESENT_ON_DRIVERS: Final = "airflow_adaptive.job"
"""Package that drivers have."""

STARTS: Final = ("start", "toTable")
"""Methods of a `DataStreamWriter` that start its query."""

CHECKPOINT: Final = "checkpointLocation"
"""Option of a `DataStreamWriter` that the runtime determines."""

SCRIPT: Final = '''"""The function {name} of the DAG file {file}. @task.adaptive_spark has written this script."""
import functools
import linecache

FILE = {file!r}
LINES = {{
{lines}}}
SOURCE = [LINES.get(number, "") + "\\n" for number in range(1, max(LINES) + 1)]
linecache.cache[FILE] = (0, None, SOURCE, FILE)
exec(compile("".join(SOURCE), FILE, "exec", {flags}, dont_inherit=True), globals())

from airflow_adaptive.job import AdaptiveJob

AdaptiveJob(functools.partial({name}, **{arguments!r})).run()
'''
"""The function keeps the name of its file and the numbers of its lines, so that errors name the line of the DAG file."""


@dataclass(frozen=True, slots=True)
class FunctionScript:
    """The script that runs a function in the driver.

    Attributes:
        name: name of the function.
        file: name of the DAG file.
        lines: line of the DAG file -> source code: the function, and the imports that it uses.
        flags: flags of the compiler for the features that the DAG file imports from `__future__`.
        outside: the names that the function uses from outside.
    """

    name: str
    file: str
    lines: Mapping[int, str]
    flags: int
    outside: OutsideNames

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionScript:
        """Return the script of a function. Raises `DeclarationError`: the function cannot run in the driver. The message lists all violations."""
        _require(_violations_of_signature(function))
        lines, (*parents, node) = _definition(function)
        outside = Analysis(function, parents, node).names()
        imports = [(imported, name) for name, found in outside.imports.items() for imported in found]
        _require(
            f"function {node.name!r} {violation}"
            for violation in (*outside.violations, *_foreign_imports(imports, node), *_misused_writers(node))
        )
        return cls(
            name=node.name,
            file=PurePath(function.__code__.co_filename).name,
            lines=_shipped_lines(imports, lines, node),
            flags=function.__code__.co_flags & POSTPONED,
            outside=outside,
        )

    @property
    def file_name(self) -> str:
        """Name of the file of the script. A module of Python may have the name of the function, and Spark's lists and URIs are ASCII."""
        return f"{self.name if self.name.isascii() else 'function'}_job.py"

    def text(self, arguments: Mapping[str, Any]) -> str:
        """Return the source code of the script.

        Raises:
            DeclarationError: an argument is not a JSON value, or the DAG file has bound a name again since the definition.
        """
        _require(
            f"function {self.name!r} uses {name}, which the DAG file binds again after the function: use another name"
            for name in self.outside.rebound()
        )
        return SCRIPT.format(
            name=self.name,
            file=self.file,
            lines="".join(f"    {number}: {text!r},\n" for number, text in sorted(self.lines.items())),
            flags=self.flags,
            arguments=_json_values(self.name, arguments),
        )


def _violations_of_signature(function: Callable[..., Any]) -> Iterator[str]:
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        yield f"{function!r} is not a function that `def` defines: decorate such a function"
        return
    name = function.__name__
    if hasattr(function, "__wrapped__"):
        yield f"function {name!r} has another decorator below @task.adaptive_spark: remove it, because the driver would not apply it"
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        yield f"function {name!r} is a generator or a coroutine: return the queries"
    if function.__code__.co_varnames[: min(function.__code__.co_argcount, len(PARAMETERS))] != PARAMETERS:
        yield f"the first parameters of function {name!r} must be `spark` and `parallelism`"


def _definition(function: Callable[..., Any]) -> tuple[list[str], Sequence[Any]]:
    """Return the lines of the file, and the nodes of its syntax tree from the module to the function. Raises `DeclarationError`."""
    name, code = function.__name__, function.__code__
    try:
        lines, _ = inspect.findsource(function)
    except OSError as error:
        raise DeclarationError(
            [f"the source of function {name!r} cannot be read ({error}): define it in the DAG file"]
        ) from error
    text = "".join(lines)
    with suppress(SyntaxError):
        if code in _codes(compile(text, code.co_filename, "exec", dont_inherit=True)):
            file = ast.parse(text)
            return lines, [file, *_nodes_to(file, code)]
    raise DeclarationError([f"the file of function {name!r} has changed: parse the DAG file again"])


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a file and of all functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _nodes_to(node: ast.AST, code: CodeType) -> list[ast.AST]:
    """Return the nodes from below a node to the function with this code, none if it is elsewhere."""
    for child in ast.iter_child_nodes(node):
        # Python counts the lines of a function from its first decorator.
        if isinstance(child, ast.FunctionDef) and _first_line(child) == code.co_firstlineno:
            return [child]
        if found := _nodes_to(child, code):
            return [child, *found]
    return []


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _shipped_lines(
    imports: Iterable[tuple[ImportedName, str]], lines: Sequence[str], node: ast.FunctionDef
) -> dict[int, str]:
    """Return line number -> source code of a function without its decorators, and of imports of names."""
    shipped = {number: lines[number - 1].rstrip("\r\n") for number in range(node.lineno, (node.end_lineno or 0) + 1)}
    above = node.lineno - 1
    for imported, name in imports:
        line = imported.line - 1 if node.col_offset and imported.line == above else imported.line
        statements = dict.fromkeys([*filter(None, shipped.get(line, "").split("; ")), imported.statement(name)])
        shipped[line] = "; ".join(statements)
    if node.col_offset:
        shipped[above] = "if True:"  # The function keeps its indentation, because the lines of a text may have less.
    return shipped


def _foreign_imports(imports: Iterable[tuple[ImportedName, str]], node: ast.FunctionDef) -> Iterator[str]:
    """Yield a violation for each import that a driver cannot execute."""
    modules = [(imported.module, imported.line) for imported, _ in imports]
    for statement in ast.walk(node):
        if isinstance(statement, ast.Import):
            modules += [(alias.name, statement.lineno) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            modules.append(("." * statement.level + (statement.module or ""), statement.lineno))
    for module, line in dict.fromkeys(modules):
        if module.startswith("."):
            yield f"uses a relative import (line {line}): import from a module in py_files"
        elif module.partition(".")[0] in MISSING_ON_DRIVERS and not module.startswith(PRESENT_ON_DRIVERS):
            yield f"imports {module} (line {line}), and drivers do not have it: pass the value as an argument of the function"


def _misused_writers(node: ast.FunctionDef) -> Iterator[str]:
    """Yield a violation for each call of a `writeStream` that starts its query, or sets the location of its checkpoint."""
    writers: set[str] = set()
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign) and _is_writer(statement.value, writers):
            writers |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if not _is_writer(call.func.value, writers):
            continue
        method, line = call.func.attr, call.func.end_lineno
        if method in STARTS:
            yield f"calls {method}() (line {line}): return the writer, do not call {method}(), because the runtime starts the query"
        named: list[object] = [it.value for it in call.args[:1] if isinstance(it, ast.Constant)]
        named += [it.arg for it in call.keywords]
        if method in ("option", "options") and CHECKPOINT.lower() in {str(it).lower() for it in named}:
            yield (
                f"sets {CHECKPOINT} (line {line}): leave it out, because the runtime keeps the checkpoint in the job directory. To continue "
                "from another checkpoint, copy it there"
            )


def _is_writer(node: ast.AST, writers: set[str]) -> bool:
    """Return whether an expression is a `writeStream`, or one of its methods, with or without a variable in between."""
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr == "writeStream":
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in writers


def _json_values(function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, value in arguments.items():
        try:
            values[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise DeclarationError(
                [f"argument {name!r} of function {function!r} must be a JSON value: {error}"]
            ) from error
    return values


def _require(violations: Iterable[str]) -> None:
    if found := [*violations]:
        raise DeclarationError(found)
