"""The places of the plugin that execute SQL statements: those that the source code has, and those that a test executed.

A place is a call in the source code. A statement belongs to the innermost place of the plugin on the stack.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from tests.support.repository import ROOT

PACKAGE: Final = ROOT / "airflow_adaptive"

DATA: Final = PACKAGE / "_web" / "data"
"""The only package that may execute statements. The other modules of the plugin call it, and code of Airflow that executes statements."""

EXECUTING: Final = frozenset({"execute", "scalar", "scalars", "get", "flush", "query", "merge", "refresh"})
"""Methods of a session that execute statements. `commit` may flush objects that `add` has collected."""

SDK: Final = "airflow.sdk"
"""The Task SDK calls the API server, and executes no statements."""

INTERNALS: Final = "airflow_adaptive._airflow.internals"
"""The module from which the plugin imports Airflow's code."""

MODELS_WITHOUT_SESSION: Final = frozenset({"VariableModel"})
"""Classes of Airflow whose methods open a session of their own."""


class Place(NamedTuple):
    """A call that executes statements.

    Attributes:
        module: path of the module in the repository.
        first_line: line at which the call begins.
        last_line: line at which the call ends.
        is_own: whether the plugin wrote the statement, which it passes to a session. Otherwise, Airflow wrote the statement.
    """

    module: str
    first_line: int
    last_line: int
    is_own: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.first_line}"


def places() -> set[Place]:
    """Return all places of the package. The plugin is the only part that uses the metadata database."""
    return {place for module in sorted(PACKAGE.rglob("*.py")) for place in _places_of(module)}


@contextmanager
def recorded(engine: Any) -> Iterator[tuple[set[Place], set[str]]]:
    """Record the places that execute statements during the block, and the statements of the plugin that belong to no place."""
    found: set[Place] = set()
    unknown: set[str] = set()
    with _called(engine) as calls:
        yield found, unknown
    known = places()
    for (module, line), statement in calls:
        here = {place for place in known if place.module == module and place.first_line <= line <= place.last_line}
        found.update(here)
        if not here:
            unknown.add(f"{module}:{line}: {statement}")


@contextmanager
def own_statements(engine: Any) -> Iterator[dict[Place, Any]]:
    """Record, during the block, the statements that the plugin wrote, as expressions of SQLAlchemy that any dialect can compile."""
    found: dict[Place, Any] = {}
    with _called(engine) as calls:
        yield found
    for place in (place for place in places() if place.is_own):
        for (module, line), statement in calls:
            if place.module == module and place.first_line <= line <= place.last_line:
                found[place] = statement


@contextmanager
def _called(engine: Any) -> Iterator[list[tuple[tuple[str, int], Any]]]:
    """Record the statements of the plugin with the module and the line of their call."""
    from sqlalchemy import event  # noqa: PLC0415

    calls: list[tuple[tuple[str, int], Any]] = []

    def record(_connection: Any, statement: Any, *_: Any) -> None:
        if (called := _innermost(sys._getframe())) is not None:
            calls.append((called, statement))

    event.listen(engine, "before_execute", record)
    try:
        yield calls
    finally:
        event.remove(engine, "before_execute", record)


def _places_of(module: Path) -> Iterator[Place]:
    tree = ast.parse(module.read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != SDK
        for alias in node.names
        if f"{node.module}.".startswith("airflow.") or INTERNALS in (node.module, f"{node.module}.{alias.name}")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _executes(node, imported):
            is_own = isinstance(node.func, ast.Attribute) and _is_session(node.func.value)
            yield Place(str(module.relative_to(ROOT)), node.lineno, node.end_lineno or node.lineno, is_own)


def _executes(call: ast.Call, imported: set[str]) -> bool:
    """Return whether a call executes statements: a method of a session, or a function of Airflow that receives or opens a session."""
    function = call.func
    if isinstance(function, ast.Attribute) and _is_session(function.value):
        return function.attr in EXECUTING
    root = _root(function)
    if root not in imported:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return (root in MODELS_WITHOUT_SESSION and isinstance(function, ast.Attribute)) or any(map(_is_session, given))


def _is_session(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id == "session") or (
        isinstance(node, ast.Attribute) and node.attr == "_session"
    )


def _root(node: ast.expr) -> str | None:
    """Return the name with which an expression such as `name(...).attribute` begins."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else None


def _innermost(frame: FrameType | None) -> tuple[str, int] | None:
    """Return the module and the line of the innermost frame of `DATA`. A commit, which flushes objects, counts as no place."""
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if file.startswith(f"{DATA}{os.sep}"):
            is_commit = "session.commit()" in linecache.getline(file, line)
            return None if is_commit else (str(Path(file).relative_to(ROOT)), line)
        frame = frame.f_back
    return None
