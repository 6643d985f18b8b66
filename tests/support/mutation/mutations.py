"""The mutants of a module: the operators of mutmut, and three operators that mutmut does not have.

Theory: mutmut compiles all mutants of a module into one module, so it cannot mutate constants, class attributes, properties and other
decorated functions. These mutants are generated with the operators of mutmut, but each mutant is a source text of its own.

Human-readable texts are not mutated: docstrings, log entries, errors, and strings that contain a space. The case of the names of HTTP headers
is not mutated, because HTTP ignores it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Final

import libcst as cst
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, MutationVisitor
from mutmut.mutation.mutators import OPERATORS_TYPE, mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
LOGGERS: Final = frozenset({"log", "_log", "logger", "logging"})
UNTESTABLE_CALLS: Final = frozenset({"assert_never", "cast", "getLogger", "TypeVar", "NewType", "warn"})
"""Calls that have no effect, or only a human-readable text."""


HEADER: Final = m.Call(
    func=m.Attribute(value=m.Name("headers") | m.Attribute(attr=m.Name("headers"))),
    args=[m.Arg(m.SimpleString()), m.ZeroOrMore()],
)
"""A call of a method of headers with the name of a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one module.

    Attributes:
        module: path of the module, relative to the root of the project.
        function: qualified name of the function; empty for code that runs when the module is imported.
        before: code that the mutant replaces.
        after: code of the mutant.
        occurrence: number of equal changes before this one in the function.
        lines: lines that run if the code runs.
    """

    module: str
    function: str
    before: str
    after: str
    occurrence: int
    lines: range

    @property
    def key(self) -> str:
        """A name that stays the same while other code changes."""
        return sha256("\0".join(map(str, self._identity)).encode()).hexdigest()

    @property
    def _identity(self) -> tuple[str | int, ...]:
        return self.module, self.function, self.before, self.after, self.occurrence


class MutatedModule:
    """A module and its mutants."""

    def __init__(self, path: str, source: str) -> None:
        """Parse the module, and generate the mutants.

        Args:
            path: path of the module, relative to the root of the project.
            source: source text of the module.
        """
        self._path = path
        self._source = source
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self._visitor = _Visitor()
        self._tree = wrapper.module
        wrapper.visit(self._visitor)

    @cached_property
    def mutants(self) -> Sequence[Mutant]:
        """The mutants, in the order of the source text."""
        return list(self._mutants())

    def _mutants(self) -> Iterator[Mutant]:
        occurrences: Counter[tuple[str, str, str]] = Counter()
        for mutation, (function, lines) in zip(self._visitor.mutations, self._visitor.places, strict=True):
            before, after = map(self._tree.code_for_node, (mutation.original_node, mutation.mutated_node))
            occurrence = occurrences[function, before, after]
            occurrences[function, before, after] += 1
            yield Mutant(
                module=self._path, function=function, before=before, after=after, occurrence=occurrence, lines=lines
            )

    def mutated_source(self, mutant: Mutant) -> str:
        """Return the source text of the module with the change."""
        mutation = self._visitor.mutations[self.mutants.index(mutant)]
        changed = self._tree.deep_replace(mutation.original_node, mutation.mutated_node)
        assert isinstance(changed, cst.Module)
        return changed.code

    def change(self, mutant: Mutant) -> tuple[str, str]:
        """Return the lines that the mutant removes, and the lines that it adds, without indentation."""
        return changed_lines(self._source, self.mutated_source(mutant))


def changed_lines(before: str, after: str) -> tuple[str, str]:
    """Return the lines of both texts that differ, without indentation."""
    removed, added = before.splitlines(), after.splitlines()
    while removed and added and removed[0] == added[0]:
        del removed[0], added[0]
    while removed and added and removed[-1] == added[-1]:
        del removed[-1], added[-1]
    return "\n".join(line.strip() for line in removed), "\n".join(line.strip() for line in added)


# ---- operators that mutmut does not have ----------------------------------------------------------------------------


def without_statement(node: cst.Expr) -> Iterable[cst.BaseSmallStatement]:
    """Remove a statement that is a call."""
    if m.matches(node, m.Expr(value=m.Call() | m.Await())):
        yield cst.Pass()


def with_negated_condition(node: cst.If) -> Iterable[cst.If]:
    """Negate a condition, unless an operator of mutmut does so."""
    if not m.matches(node.test, m.UnaryOperation() | m.Comparison()):
        condition = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(operator=cst.Not(), expression=condition))


def without_result(node: cst.Return) -> Iterable[cst.Return]:
    """Return None."""
    if node.value is not None and not m.matches(node.value, m.Name("None")):
        yield node.with_changes(value=cst.Name("None"))


OPERATORS: Final[OPERATORS_TYPE] = [
    *mutation_operators,
    (cst.Expr, without_statement),
    (cst.If, with_negated_condition),
    (cst.Return, without_result),
]


# ---- what is mutated ------------------------------------------------------------------------------------------------


class _Visitor(MutationVisitor):
    """Generates the mutations, and keeps the place of each mutation."""

    def __init__(self) -> None:
        super().__init__(OPERATORS, IgnoredCode(set(), set(), set()))
        self.places: list[tuple[str, range]] = []
        self._scopes: list[cst.FunctionDef | cst.ClassDef] = []
        self._statements: list[cst.CSTNode] = []
        self._header_names: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if m.matches(node, HEADER):
            assert isinstance(node, cst.Call)
            self._header_names.append(node.args[0].value)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._scopes.append(node)
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            self._statements.append(node)
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        super().on_leave(original_node)
        for stack in (self._scopes, self._statements):
            if stack and stack[-1] is original_node:
                stack.pop()

    def _create_mutations(self, node: cst.CSTNode) -> None:
        super()._create_mutations(node)
        start = len(self.places)
        self.mutations[start:] = [mutation for mutation in self.mutations[start:] if self._is_meaningful(mutation)]
        self.places.extend([(self._function(), self._lines(node))] * (len(self.mutations) - start))

    def _is_meaningful(self, mutation: Mutation) -> bool:
        """Return whether the mutation changes neither a human-readable text, nor a type that exists for annotations, nor only the case of the
        name of a header.
        """
        node, mutated = mutation.original_node, mutation.mutated_node
        if isinstance(node, cst.Call) and isinstance(mutated, cst.Call):
            kept = {id(argument) for argument in mutated.args}
            return not any(is_text(argument.value) for argument in node.args if id(argument) not in kept)
        if any(node is name for name in self._header_names) and text_of(node).lower() == text_of(mutated).lower():
            return False
        is_import_time = not self._function()
        return not (is_import_time and isinstance(node, (cst.Assign, cst.AnnAssign, cst.BinaryOperation)))

    def _function(self) -> str:
        names = [scope.name.value for scope in self._scopes]
        return ".".join(names) if any(isinstance(scope, cst.FunctionDef) for scope in self._scopes) else ""

    def _lines(self, node: cst.CSTNode) -> range:
        end = self._position(node.test if isinstance(node, cst.If) else node)
        statement = self._position(self._statements[-1]) if self._statements else end
        return range(statement.start.line, max(statement.start.line, end.end.line) + 1)

    def _position(self, node: cst.CSTNode) -> cst.metadata.CodeRange:
        missing = cst.metadata.CodeRange((0, 0), (0, 0))  # an operator without brackets around it has no position
        position = self.get_metadata(PositionProvider, node, missing)
        assert isinstance(position, cst.metadata.CodeRange)
        return position

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):  # mutmut skips decorated functions
            return super()._skip_node_and_children(node.with_changes(decorators=()))
        if isinstance(node, cst.Call) and name_of(node.func) in UNTESTABLE_CALLS:
            return True
        if isinstance(node, cst.If) and name_of(node.test) == "TYPE_CHECKING":
            return True
        return (
            isinstance(node, cst.Raise) or is_log_entry(node) or is_text(node) or super()._skip_node_and_children(node)
        )


def is_log_entry(node: cst.CSTNode) -> bool:
    """Return whether the node is a statement that logs."""
    call = node.value if isinstance(node, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    function = call.func
    if isinstance(function, cst.Attribute):
        return function.attr.value in LOG_METHODS and name_of(function.value) in LOGGERS
    return name_of(function) in UNTESTABLE_CALLS


def is_text(node: cst.CSTNode) -> bool:
    """Return whether the node is a human-readable string: it contains a space."""
    if isinstance(node, cst.SimpleString):
        return " " in node.value
    if isinstance(node, cst.FormattedString):
        return any(isinstance(part, cst.FormattedStringText) and " " in part.value for part in node.parts)
    return isinstance(node, cst.ConcatenatedString) and (is_text(node.left) or is_text(node.right))


def text_of(node: cst.CSTNode) -> str:
    """Return the source text of a string, "" for other nodes."""
    return node.value if isinstance(node, cst.SimpleString) else ""


def name_of(node: cst.CSTNode) -> str | None:
    """Return the name, or the last part of a dotted name."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else None
