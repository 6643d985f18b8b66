"""The names that a function of a DAG file uses from outside, and the imports that give a script of its own the same objects.

Theory: the bytecode of the function names the globals that it reads, also in nested functions, classes, comprehensions and annotations.
`function.__globals__` contains their objects. An import can be shipped if it binds the name to exactly this object; the import is not
repeated, but its result is read from `sys.modules`. A name with any other object is refused, and so is an object that the DAG file
changes, because the driver has the original.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from types import CodeType, ModuleType
from typing import Any, Final

MISSING: Final = object()

POSTPONED: Final = __future__.annotations.compiler_flag
"""Flag of code whose annotations Python does not evaluate."""

READS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
"""Instructions that read a global. In the body of a class, the name may also belong to the class."""

WRITES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})

DYNAMIC: Final = frozenset({"eval", "exec", "globals"})
"""Builtins that read globals whose names only the running function knows."""

SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)

MUTATORS: Final = frozenset(
    {
        *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem"),
        *("remove", "reverse", "setdefault", "sort", "update"),
    }
)
"""Methods that change a list, a dictionary or a set."""

CONSTANT: Final = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.expr_context, ast.JoinedStr, ast.FormattedValue),
    *(ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop),
)
"""Syntax of default values that are the same wherever they are evaluated."""

Path = tuple[str, ...]
"""A name and its attributes: `os.environ.get` is ("os", "environ", "get")."""

Names = Iterator[tuple[str, int]]
"""Names, with their lines."""

Paths = Iterator[tuple[Path, int]]
"""Paths, with their lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedName:
    """One name of an import statement.

    Attributes:
        name: the name that the statement binds; "*" for all names of the module.
        module: the module.
        attribute: what `from` imports from the module; None for a statement without `from`.
        alias: the name after `as`, None without.
        level: number of dots of a relative import.
        line: line of the statement.
    """

    name: str
    module: str
    attribute: str | None
    alias: str | None
    level: int
    line: int

    @property
    def path(self) -> Path:
        """The path of the object, whatever name the file gives it."""
        if self.attribute is not None:
            return (*self.module.split("."), self.attribute)
        return tuple(self.module.split(".")) if self.alias else (self.name,)

    def statement(self, name: str) -> str:
        """Return the source code that binds a name."""
        suffix = f" as {self.alias}" if self.alias else ""
        if self.attribute is None:
            return f"import {self.module}{suffix}"
        return f"from {'.' * self.level}{self.module} import {self._attribute_of(name)}{suffix}"

    def value(self, name: str) -> object:
        """Return the object to which the statement binds a name; `MISSING` if the statement has not run or does not bind the name."""
        module = sys.modules.get(self.module)
        if module is None or self.level:
            return MISSING
        if self.attribute is None:
            return module if self.alias else sys.modules.get(self.name, MISSING)
        attribute = self._attribute_of(name)
        with suppress(Exception):  # A module may compute its attributes.
            return getattr(module, attribute)
        return sys.modules.get(f"{self.module}.{attribute}", MISSING)

    def _attribute_of(self, name: str) -> str:
        return name if self.name == "*" else str(self.attribute)


@dataclass(frozen=True, slots=True)
class Binding:
    """A statement that binds or deletes a name.

    Attributes:
        name: the name; "*" for an import of all names.
        line: line of the statement.
        imported: what an import binds, None for another statement.
        is_deferred: whether a call of another function executes the statement.
    """

    name: str
    line: int
    imported: ImportedName | None = None
    is_deferred: bool = False

    def value(self, name: str) -> object:
        """Return the object to which an import binds a name; `MISSING` if it does not bind the name."""
        is_import = self.imported is not None and self.name in (name, "*")
        return self.imported.value(name) if is_import and self.imported is not None else MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideNames:
    """The names that a function uses from outside.

    Attributes:
        function: the function.
        imports: name -> imports that bind the name to the object of the DAG file.
        builtins: names of Python that the DAG file does not bind.
        violations: what cannot be shipped.
    """

    function: Callable[..., Any]
    imports: Mapping[str, Sequence[ImportedName]]
    builtins: frozenset[str]
    violations: tuple[str, ...]

    def rebound(self) -> list[str]:
        """Return the names that the DAG file has bound to another object since the analysis."""
        names = self.function.__globals__
        changed = [name for name, found in self.imports.items() if found[0].value(name) is not names.get(name)]
        return sorted([*changed, *(name for name in self.builtins if name in names)])


class Analysis:
    """Finds the names that a function uses from outside."""

    def __init__(self, function: Callable[..., Any], parents: Sequence[ast.AST], node: ast.FunctionDef) -> None:
        self._function = function
        self._node = node
        self._file = parents[0]
        self._names: Mapping[str, object] = function.__globals__
        self._bindings = [*_bindings(self._file, node)]
        self._in_loop = any(isinstance(parent, LOOPS) for parent in parents)
        scopes = [parent for parent in parents if isinstance(parent, SCOPES)]
        self._enclosing = {binding.name for scope in scopes for binding in _bindings(scope, node)}
        self._is_postponed = bool(function.__code__.co_flags & POSTPONED)
        self._imports: dict[str, list[ImportedName]] = {}
        self._builtins: set[str] = set()

    def names(self) -> OutsideNames:
        """Return the names, and what cannot be shipped."""
        outside: dict[str, str] = {}
        for name, line, reason in self._names_without_import():
            outside.setdefault(name, f"{name} (line {line}{reason})")
        violations = [
            f"uses what is defined outside of it: {', '.join(text for _, text in sorted(outside.items()))}. The driver runs only the function, "
            "and the imports that it uses: define functions and constants in the function, pass values as its arguments, or import them by name "
            "from a module in py_files"
        ]
        return OutsideNames(
            function=self._function,
            imports=self._imports,
            builtins=frozenset(self._builtins),
            violations=(
                *(violations if outside else ()),
                *_computed_defaults(self._node),
                *dict.fromkeys(self._changed_objects()),
            ),
        )

    def _names_without_import(self) -> Iterator[tuple[str, int, str]]:
        """Yield names that cannot be shipped, with lines and reasons."""
        code, signature = self._function.__code__, [*_names_in_signature(self._node, self._is_postponed)]
        for name in {*code.co_freevars} - {self._node.name}:
            yield name, _line(self._node, name), ", a variable of an enclosing function"
        for name, line in signature:
            if name in self._enclosing:
                yield name, line, ", a variable of an enclosing function"
        for name, line in _instructions(code, WRITES):
            yield name, line, ", which the function assigns"
        for name, line in (*_instructions(code, READS), *signature):
            if (reason := self._reason(name)) is not None:
                yield name, line, reason
        for name, line in _names_in_texts(self._node, self._is_postponed):
            if name in self._names and (reason := self._reason(name)) is not None:
                yield name, line, reason

    def _reason(self, name: str) -> str | None:
        """Return why a name cannot be shipped, or None if it can. A constant, a function or a class of the DAG file needs no reason ("")."""
        if name == self._node.name and self._is_function(self._names.get(name, self._function)):
            return None
        imports = [
            binding for binding in self._bindings if binding.imported is not None and binding.name in (name, "*")
        ]
        if name not in self._names:
            if not hasattr(builtins, name):
                return ""
            if name in DYNAMIC:
                return ", which reads names at run time"
        else:
            found = [it.imported for it in imports if it.imported and it.value(name) is self._names[name]]
            if not found:
                return ", which is not what the DAG file imports" if any(it.name == name for it in imports) else ""
            self._imports[name] = [it for it in found if it.attribute is None and not it.alias] or found[:1]
        rebound = next((binding for binding in self._bindings if self._may_rebind(binding, name)), None)
        if rebound is not None:
            return f", bound again in line {rebound.line}"
        if name not in self._names:
            self._builtins.add(name)
        return None

    def _is_function(self, value: object) -> bool:
        """Return whether an object is the function, or its task."""
        return getattr(getattr(value, "function", value), "__code__", None) == self._function.__code__

    def _may_rebind(self, binding: Binding, name: str) -> bool:
        """Return whether a statement binds a name to another object after the definition of the function."""
        is_later = binding.is_deferred or self._in_loop or binding.line > (self._node.end_lineno or 0)
        if not is_later or binding.name not in (name, "*"):
            return False
        value = binding.value(name)
        if binding.name == "*" and value is MISSING:
            return binding.imported is None or binding.imported.module not in sys.modules
        return value is MISSING or value is not self._names.get(name, MISSING)

    def _changed_objects(self) -> Iterator[str]:
        """Yield a violation for each object that the function uses and the DAG file changes."""
        of_file = {it.name: it.imported.path for it in self._bindings if it.imported is not None}
        shipped = {
            name: (*found[0].path[:-1], name) if found[0].name == "*" else found[0].path
            for name, found in self._imports.items()
        }
        local = {it.name: it.imported.path for it in _bindings(self._node, None) if it.imported is not None}
        known = {
            **{name: ("builtins", name) for name in self._builtins},
            **of_file,
            **shipped,
            self._node.name: (self._node.name,),
        }
        changes = [(known[path[0]] + path[1:], line) for path, line in self._changes() if path[0] in known]
        for path, line in _paths(self._node):
            root = (known | local).get(path[0])
            if root is None:
                continue
            used = root + path[1:]
            changed = [change for there, change in changes if there[: len(used)] == used[: len(there)]]
            if changed or (path[0] in self._imports and self._is_own(self._object(path))):
                where = f"changes in line {changed[0]}" if changed else "replaces"
                yield (
                    f"uses {'.'.join(path)} (line {line}), which the DAG file {where}. The driver has the original: make the change in the function, or "
                    "pass the value as an argument"
                )

    def _changes(self) -> Paths:
        """Yield the paths of the objects that the DAG file changes while Airflow parses it."""
        for node in _nodes(self._file, self._node):
            match node:
                case ast.Attribute(ctx=ast.Store() | ast.Del()):
                    yield _path(node), node.lineno
                case ast.Subscript(ctx=ast.Store() | ast.Del()):
                    yield _path(node.value), node.lineno
                case ast.AugAssign(target=ast.Name()):
                    yield _path(node.target), node.lineno
                case ast.Call(
                    func=ast.Name(id="setattr" | "delattr"), args=[owner, ast.Constant(value=str(attribute)), *_]
                ):
                    yield (*_path(owner), attribute), node.lineno
                case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in MUTATORS:
                    path = _path(owner)
                    if path and not isinstance(self._object(path), ModuleType):
                        yield path, node.lineno
                case _:
                    pass

    def _object(self, path: Path) -> object:
        """Return the object of a path, as far as it leads through modules."""
        value = self._names.get(path[0])
        for attribute in path[1:]:
            if not isinstance(value, ModuleType):
                break
            value = vars(value).get(attribute)
        return value

    def _is_own(self, value: object) -> bool:
        """Return whether the DAG file defines an object."""
        return getattr(value, "__module__", MISSING) == self._function.__module__


def _nodes(scope: ast.AST, without: ast.AST | None) -> Iterator[ast.AST]:
    """Yield the nodes that run in a scope; those of nested scopes run in theirs."""
    for child in ast.iter_child_nodes(scope):
        if child is not without:
            yield child
            if not isinstance(child, SCOPES):
                yield from _nodes(child, without)


def _bindings(scope: ast.AST, without: ast.AST | None) -> Iterator[Binding]:
    """Yield the statements that bind names of a scope. Those of `without` are left out."""
    for node in _nodes(scope, without):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                from_module = node.module or "" if isinstance(node, ast.ImportFrom) else None
                for alias in names:
                    imported = ImportedName(
                        name=alias.asname or (alias.name if from_module is not None else alias.name.partition(".")[0]),
                        module=alias.name if from_module is None else from_module,
                        attribute=None if from_module is None else alias.name,
                        alias=alias.asname,
                        level=getattr(node, "level", 0),
                        line=node.lineno,
                    )
                    yield Binding(imported.name, node.lineno, imported)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield Binding(name, node.lineno)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield Binding(name, node.lineno)
                yield from _deferred_bindings(node)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield Binding(name, node.lineno)
            case ast.arg(arg=name):
                yield Binding(name, node.lineno)
            case _:
                pass


def _deferred_bindings(function: ast.AST) -> Iterator[Binding]:
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield from (Binding(name, node.lineno, is_deferred=True) for name in node.names)


def _instructions(code: CodeType, names: Collection[str]) -> Names:
    """Yield the globals of instructions with these names, also in nested functions."""
    instructions = [*dis.get_instructions(code)]
    for instruction, following in zip_longest(instructions, instructions[1:]):
        # Each class gets its `__module__` from the `__name__` of its file.
        is_module = following is not None and following.argval == "__module__" and instruction.argval == "__name__"
        if instruction.opname in names and not is_module:
            line = instruction.positions.lineno if instruction.positions else None
            yield str(instruction.argval), line or code.co_firstlineno
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant, names)


def _names_in_signature(node: ast.FunctionDef, is_postponed: bool) -> Names:
    """Yield the globals of default values and of annotations that Python evaluates with the definition."""
    arguments = node.args
    annotated = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    annotations = [*(it.annotation for it in annotated if it is not None), node.returns]
    for expression in (*arguments.defaults, *arguments.kw_defaults, *(() if is_postponed else annotations)):
        if expression is not None:
            code = compile(ast.Expression(expression), "<signature>", "eval", dont_inherit=True)
            yield from _instructions(code, READS)


def _names_in_texts(function: ast.FunctionDef, is_postponed: bool) -> Names:
    """Yield the names in annotations of nested functions and classes that are text, which pandas UDFs evaluate."""
    for expression in (
        found for statement in function.body for node in ast.walk(statement) for found in _annotations(node)
    ):
        for node in ast.walk(expression):
            if is_postponed and isinstance(node, ast.Name):
                yield node.id, node.lineno
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                with suppress(SyntaxError):
                    names = ast.walk(ast.parse(node.value, mode="eval"))
                    yield from ((name.id, node.lineno) for name in names if isinstance(name, ast.Name))


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations that belong to a node. Those of local variables are never evaluated."""
    match node:
        case ast.arg(annotation=ast.expr() as annotation):
            yield annotation
        case ast.FunctionDef(returns=ast.expr() as annotation) | ast.AsyncFunctionDef(returns=ast.expr() as annotation):
            yield annotation
        case ast.ClassDef(body=body):
            yield from (it.annotation for it in body if isinstance(it, ast.AnnAssign))
        case _:
            pass


def _computed_defaults(node: ast.FunctionDef) -> Iterator[str]:
    """Yield a violation for each default value that may differ between Airflow and the driver."""
    positional, arguments = [*node.args.posonlyargs, *node.args.args], node.args
    defaults = [*zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    for argument, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
        if default is not None and not all(isinstance(it, CONSTANT) for it in ast.walk(default)):
            yield (
                f"computes the default value of {argument.arg!r} (line {default.lineno}), which may differ in the driver: compute it in the function, or "
                "pass the value as an argument"
            )


def _paths(node: ast.AST) -> Paths:
    """Yield each name with the attributes that follow it."""
    path = _path(node)
    if path:
        yield path, getattr(node, "lineno", 0)
        return
    for child in ast.iter_child_nodes(node):
        yield from _paths(child)


def _path(node: ast.AST) -> Path:
    """Return the path that an expression is, () for another expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def _line(node: ast.FunctionDef, name: str) -> int:
    """Return the first line of a function that contains a name."""
    lines = (it.lineno for it in ast.walk(node) if isinstance(it, ast.Name) and it.id == name)
    return min(lines, default=node.lineno)
