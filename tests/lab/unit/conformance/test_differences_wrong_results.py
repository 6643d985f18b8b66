"""A wrong result of the scheduler makes each vector fail: no rule excuses it, and no vector passes with any result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conformance import runner
from tests.lab.conformance.result import Comparison, NotApplicableError, Vector


def applies(area: str, vector: Vector) -> bool:
    """Return whether the scheduler has the subject of a vector."""
    try:
        list(runner.CHECKS[area](vector))
    except NotApplicableError:
        return False
    return True


VECTORS = [
    pytest.param(area, vector, id=f"{file}-{area}-{vector['id']}")
    for file in ("scheduler", "derived")
    for area, vectors in json.loads(Path(__file__).with_name(f"{file}.json").read_text()).items()
    for vector in vectors
    if area in runner.CHECKS and applies(area, vector)
]


def wrong_results(actual: Any) -> Iterator[Any]:
    """Yield results of several kinds that differ from the actual one: none, another number, another name, another content."""
    yield from (None, "", "Canceling", "an unexpected error", -1, [], {})
    if isinstance(actual, bool):
        yield not actual
    elif isinstance(actual, int | float):
        yield from (actual + 1, actual - 1)
    elif isinstance(actual, str):
        yield f"{actual}, and more"
    elif isinstance(actual, list):
        yield from (actual[1:], [*actual, *actual[:1]], [next(wrong_results(item)) for item in actual])
    elif isinstance(actual, dict):
        yield {name: wrong_number(value) for name, value in actual.items()}


def wrong_number(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: wrong_number(item) for name, item in value.items()}
    return value + 1 if isinstance(value, int) else None


@pytest.mark.parametrize(("area", "vector"), VECTORS)
def test_every_wrong_result_makes_the_vector_fail(area: str, vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    comparisons = list(runner.CHECKS[area](vector))
    for position, comparison in enumerate(comparisons):
        changed = [replace(comparison, actual=wrong) for wrong in wrong_results(comparison.actual)]
        wrong = [one for one in changed if one.deviates and one.actual != comparison.actual]
        excused = [one.actual for one in wrong if not fails(area, vector, [*comparisons], position, one, monkeypatch)]
        assert wrong, f"{comparison.what} passes with any result"
        assert not excused, f"{comparison.what} may also be {excused}, not only {comparison.actual!r}"
    assert comparisons


def fails(
    area: str,
    vector: Vector,
    comparisons: list[Comparison],
    position: int,
    wrong: Comparison,
    monkeypatch: pytest.MonkeyPatch,
) -> bool:
    """Return whether the vector fails if one result of the scheduler is wrong."""
    comparisons[position] = wrong
    monkeypatch.setitem(runner.CHECKS, area, lambda _: iter(comparisons))
    return bool(runner.run({area: [vector]})[area].deviating)
