"""Bounds as they are typed: `job=1:4`, `job=3`, and `1:4` where a job has one vertex only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class BoundsError(ValueError):
    """Arguments that are no bounds; `violations` has everything that is wrong."""

    def __init__(self, violations: Sequence[str]) -> None:
        super().__init__("; ".join(violations))
        self.violations = tuple(violations)


def body_of(texts: Sequence[str], vertices: Sequence[str]) -> dict[str, Any]:
    """FLIP-291's body that the arguments stand for; what is no number in it is left to those who judge the body.

    Args:
        texts: as they were typed.
        vertices: of the job.

    Raises:
        BoundsError: it is not clear which vertex they are for.
    """
    typed = [_split(text, vertices) for text in texts]
    violations = [
        f"{bounds!r} names no vertex: write VERTEX=LOWER:UPPER; this job has {', '.join(vertices)}"
        for vertex, bounds in typed
        if vertex is None
    ]
    times = Counter(vertex for vertex, _ in typed if vertex is not None)
    violations += [f"vertex {vertex!r} is given {count} times" for vertex, count in times.items() if count > 1]
    if violations:
        raise BoundsError(violations)
    return {str(vertex): {"parallelism": _parallelism(bounds)} for vertex, bounds in typed}


def _split(text: str, vertices: Sequence[str]) -> tuple[str | None, str]:
    """Vertex and bounds; None if the vertex is not clear. A vertex's name may have a `=` in it, bounds have none."""
    vertex, named, bounds = text.rpartition("=")
    if named:
        return vertex, bounds
    return (vertices[0] if len(vertices) == 1 else None), bounds


def _parallelism(bounds: str) -> dict[str, Any]:
    lower, both, upper = bounds.partition(":")
    return {"lowerBound": _number(lower), "upperBound": _number(upper if both else lower)}


def _number(text: str) -> int | str:
    return int(text) if WHOLE_NUMBER.fullmatch(text) else text
