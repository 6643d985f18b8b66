"""The result of one conformance vector."""

from __future__ import annotations

from dataclasses import asdict

from tests.lab.conformance.result import Vector
from tests.lab.conformance.runner import run


def outcome_of(area: str, vector: Vector) -> str:
    """Return passed, differing, not_applicable or deviating."""
    result = asdict(run({area: [vector]})[area])
    return next(name for name, vectors in result.items() if vectors)
