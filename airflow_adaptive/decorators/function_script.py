"""The script of a decorated function: the source of the function, and the imports of the DAG file that the function uses."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import symtable
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final

from airflow_adaptive.declaration.validation import DeclarationError

PARAMETERS: Final = ("spark", "parallelism")
"""Names of the first parameters of a build function. The driver passes their arguments."""

MISSING_ON_DRIVERS: Final = ("airflow", "airflow_adaptive")
"""Packages that drivers do not have."""

PRESENT_ON_DRIVERS: Final = "airflow_adaptive.job"
"""Package that drivers have."""

DEFINED: Final = frozenset({*dir(builtins), "__file__"})
"""Names that every script has."""


@dataclass(frozen=True, slots=True)
class FunctionScript:
    """The script that runs a function in the driver.

    Attributes:
        name: name of the function.
        definition: imports and function, as source code.
    """

    name: str
    definition: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionScript:
        """Return the script of a function.

        Raises:
            DeclarationError: the function cannot run in the driver. The message lists all violations.
        """
        _require(_violations_of_signature(function))
        file, node = _definition(function)
        node.decorator_list.clear()
        names = _names_from_outside(node, function.__code__.co_freevars)
        imports = [statement for statement in file.body if _binds(statement, names)]
        found = {name for statement in imports for name in _bound_names(statement)}
        body = [*imports, node]
        _require(_violations(node.name, names - found, body))
        return cls(node.name, ast.unparse(ast.Module(body=body, type_ignores=[])))

    def text(self, arguments: Mapping[str, Any]) -> str:
        """Return the source code of the script.

        Args:
            arguments: arguments of the function beside `PARAMETERS`.

        Raises:
            DeclarationError: an argument is not a JSON value.
        """
        call = ", ".join(PARAMETERS)
        return "\n".join(
            (
                f'"""The function {self.name} of a DAG file. @task.adaptive_spark has written this script."""',
                "from __future__ import annotations",
                self.definition,
                "from airflow_adaptive.job import AdaptiveJob",
                f"AdaptiveJob(lambda {call}: {self.name}({call}, **{_json_values(self.name, arguments)!r})).run()",
                "",
            )
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


def _definition(function: Callable[..., Any]) -> tuple[ast.Module, ast.FunctionDef]:
    """Return the syntax trees of the file and of the function. Raises `DeclarationError`."""
    code = function.__code__
    try:
        lines, _ = inspect.findsource(function)
    except OSError as error:
        raise DeclarationError(
            [f"the source of function {function.__name__!r} cannot be read ({error}): define it in the DAG file"]
        ) from error
    file = ast.parse("".join(lines))
    for node in ast.walk(file):
        # Python counts the lines of a function from its first decorator.
        if isinstance(node, ast.FunctionDef) and code.co_firstlineno == _first_line(node):
            return file, node
    raise DeclarationError([f"the file of function {function.__name__!r} has changed: parse the DAG file again"])


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _names_from_outside(function: ast.FunctionDef, enclosing: Collection[str]) -> set[str]:
    """Return the names that the function and its default values use, and do not define. Annotations are not evaluated.

    Args:
        function: the function.
        enclosing: variables of an enclosing function that the function uses.
    """
    variables = "".join(f"    {name} = None\n" for name in enclosing)
    text = f"from __future__ import annotations\ndef enclosing():\n{variables}{indent(ast.unparse(function), '    ')}"
    used = {
        symbol.get_name()
        for table in _tables(symtable.symtable(text, function.name, "exec"))
        for symbol in table.get_symbols()
        if symbol.is_global() and (symbol.is_referenced() or symbol.is_declared_global())
    }
    return (used | {*enclosing}) - DEFINED - {function.name}


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _binds(statement: ast.stmt, names: Collection[str]) -> bool:
    return any(name in names for name in _bound_names(statement))


def _bound_names(statement: ast.stmt) -> tuple[str, ...]:
    """Return the names that an import defines; other statements define none."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return ()
    return tuple(alias.asname or alias.name.partition(".")[0] for alias in statement.names)


def _violations(function: str, unknown: Iterable[str], body: Iterable[ast.stmt]) -> Iterator[str]:
    if names := ", ".join(sorted(unknown)):
        yield (
            f"function {function!r} uses what is defined outside of it: {names}. The driver runs only the function, and imports at the top of the "
            f"DAG file: define functions and constants in the function, pass values as its arguments, or import them by name from a module in py_files"
        )
    for node in (node for statement in body for node in ast.walk(statement)):
        for module in _imported_modules(node):
            if module.startswith("."):
                yield f"function {function!r} uses a relative import: import from a module in py_files"
            elif module.partition(".")[0] in MISSING_ON_DRIVERS and not module.startswith(PRESENT_ON_DRIVERS):
                yield f"function {function!r} imports {module}, and drivers do not have it: pass the value as an argument of the function"


def _imported_modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "." * node.level + (node.module or "")


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
