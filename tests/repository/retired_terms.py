"""Find retired terms in code, documentation and UI: `python -m tests.repository.retired_terms [PATH ...]`.

`retired_terms.toml` lists the terms. `docs/glossary.md` defines the terms that replace them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

ROWS: Final = tomllib.loads(Path(__file__).with_name("retired_terms.toml").read_text())["rows"]
WORDS: Final = frozenset(word for row in ROWS for word in row.get("identifiers", ()))
NAMES: Final = frozenset(name for row in ROWS for name in row.get("definitions", ()))
PHRASES: Final = re.compile("|".join(phrase for row in ROWS for phrase in row.get("phrases", ())), re.IGNORECASE)
WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
NAME: Final = re.compile(r"[A-Za-z_]\w*")
CODE: Final = ("airflow_adaptive", "dags", "tests")
PROSE: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    ".github",
    ".ci",
    "Makefile",
    "pyproject.toml",
)
SUFFIXES: Final = (".py", ".ts", ".tsx", ".md", ".html", ".yml", ".yaml", ".sh", "")
GENERATED: Final = {"node_modules", "dist", "generated", "__pycache__"}
QUOTES: Final = ("tests/repository/test_retired_terms.py",)
"""Files that quote retired terms on purpose."""


def violations(paths: Iterable[str] = (*CODE, *PROSE)) -> Iterator[str]:
    """Each retired term as `file:line: term`."""
    for path in files(paths):
        text, name = path.read_text(), path.relative_to(ROOT).as_posix()
        if not name.startswith(QUOTES):
            yield from (f"{name}:{line}: {term}" for line, term in in_file(path, text))


def has_rule(term: str) -> bool:
    """Whether an identifier, a definition or a phrase that consists of the term is found."""
    return _is_retired(term) or term.lower() in NAMES or PHRASES.search(term) is not None


def files(paths: Iterable[str]) -> Iterator[Path]:
    """Files with code or prose below the paths."""
    for path in map(ROOT.joinpath, paths):
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in found:
            is_source = file.suffix in SUFFIXES or file == path
            if is_source and file.is_file() and not GENERATED & set(file.parts):
                yield file


def in_file(path: Path, text: str) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        yield from _names(tokenize.generate_tokens(io.StringIO(text).readline))
        yield from _definitions(path, text)
    elif path.suffix in (".ts", ".tsx"):
        yield from ((line, name) for line, code in _lines(text) for name in NAME.findall(code) if _is_retired(name))
    yield from ((line, match.group()) for line, prose in _lines(text) for match in PHRASES.finditer(prose))


def _names(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        if token.type == tokenize.NAME and _is_retired(token.string):
            yield token.start[0], token.string


def _definitions(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Modules, classes, functions and fields that have a retired name; a local variable may have it."""
    if path.stem in NAMES:
        yield 1, path.stem
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lower() in NAMES:
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef):
            fields = (item for item in node.body if isinstance(item, ast.AnnAssign))
            yield from ((item.lineno, name) for item in fields if (name := ast.unparse(item.target)) in NAMES)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return iter(enumerate(text.splitlines(), 1))


def _is_retired(name: str) -> bool:
    return any(word.lower() in WORDS for word in WORD.findall(name))


if __name__ == "__main__":
    found = list(violations(sys.argv[1:] or (*CODE, *PROSE)))
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(1 if found else 0)
