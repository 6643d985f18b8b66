"""Parses bounds on the command line: `job=1:4`, `job=3`, or `1:4` for a job with one vertex."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class BoundsError(ValueError):
    """Invalid bounds. `violations` lists all violations."""

    def __init__(self, violations: Sequence[str]) -> None:
        super().__init__("; ".join(violations))
        self.violations = tuple(violations)


def body_of(texts: Sequence[str], vertices: Sequence[str]) -> dict[str, Any]:
    """Return the request body of FLIP-291. The validation of the body reports bounds that are not numbers.

    Args:
        texts: arguments on the command line.
        vertices: names of the vertices of the job.

    Raises:
        BoundsError: a vertex is missing or ambiguous.
    """
    parsed = [_split(text, vertices) for text in texts]
    violations = [
        f"{bounds!r} names no vertex. Write VERTEX=LOWER:UPPER. The vertices of the job are {', '.join(vertices)}"
        for vertex, bounds in parsed
        if vertex is None
    ]
    times = Counter(vertex for vertex, _ in parsed if vertex is not None)
    violations += [f"vertex {vertex!r} is specified {count} times" for vertex, count in times.items() if count > 1]
    if violations:
        raise BoundsError(violations)
    return {str(vertex): {"parallelism": _parallelism(bounds)} for vertex, bounds in parsed}


def _split(text: str, vertices: Sequence[str]) -> tuple[str | None, str]:
    """Return the vertex, None without a vertex, and the bounds. The name of a vertex may contain `=`."""
    vertex, named, bounds = text.rpartition("=")
    if named:
        return vertex, bounds
    return (vertices[0] if len(vertices) == 1 else None), bounds


def _parallelism(bounds: str) -> dict[str, Any]:
    lower, both, upper = bounds.partition(":")
    return {"lowerBound": _number(lower), "upperBound": _number(upper if both else lower)}


def _number(text: str) -> int | str:
    return int(text) if WHOLE_NUMBER.fullmatch(text) else text
