"""Reads a file of Spark properties where Airflow runs, in the format of `spark-defaults.conf` (`java.util.Properties`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_LINE = re.compile(r"(?P<name>(?:\\.|[^\\ \t\f=:])+)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BLANKS = "".join(map(chr, range(33)))
"""Characters that `String.trim` removes."""

_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def read_properties(file: str | None) -> dict[str, str]:
    """Return the Spark properties of a file; none without a file. spark-submit, too, ignores other properties.

    Raises:
        ValueError: the file cannot be read.
    """
    if not file:
        return {}
    if not isinstance(file, str | Path):
        raise ValueError(f"properties_file {file!r} must be text")  # noqa: TRY004  All violations are of this class.
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"properties_file {file!r} cannot be read where Airflow runs ({error})") from error
    found = (_LINE.fullmatch(line) for line in _lines(text))
    pairs = {_unescaped(line["name"]): _unescaped(line["value"]).strip(_BLANKS) for line in found if line}
    return {name: value for name, value in pairs.items() if name.startswith("spark.")}


def _lines(text: str) -> Iterator[str]:
    """Yield lines without comments. A line that ends with a backslash continues on the next line."""
    pending = ""
    for line in re.split(r"\r\n|\r|\n", text):  # Java knows no other line separators.
        stripped = line.lstrip(" \t\f")
        if not pending and stripped.startswith(("#", "!")):
            continue
        pending += stripped
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        if pending:
            yield pending
        pending = ""
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _character(found[1]), text)


def _character(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _LETTERS.get(escape, escape)
