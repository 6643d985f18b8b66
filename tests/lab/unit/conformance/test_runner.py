"""The scheduler decides as Flink does: vectors that were recorded on Apache Flink, and derived vectors for the behavior that those do not cover.

A wrong result makes each vector fail: no rule excuses it, and no vector passes with any result. `tests/lab/results/proof.md` lists every deliberate difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conformance.__main__ import main
from tests.lab.conformance.differences import DIFFERENCES
from tests.lab.conformance.result import Comparison, NotApplicableError, Vector
from tests.lab.conformance.runner import CHECKS, AreaResult, run
from tests.support.repository import ROOT

PAGE = (ROOT / "tests" / "lab" / "results" / "proof.md").read_text()

SAMPLE = Path(__file__).with_name("scheduler.json")
DERIVED = Path(__file__).with_name("derived.json")
VECTORS = {file: json.loads(file.read_text()) for file in (SAMPLE, DERIVED)}
AREAS = [
    pytest.param(file, area, id=f"{file.stem}-{area}") for file in VECTORS for area in VECTORS[file] if area != "_meta"
]


def result_of(file: Path, area: str) -> AreaResult:
    return run({area: VECTORS[file][area]})[area]


@pytest.mark.parametrize(("file", "area"), AREAS)
def test_no_vector_deviates_without_a_reason(file: Path, area: str):
    assert not result_of(file, area).deviating


@pytest.mark.parametrize("area", CHECKS)
def test_every_area_has_a_vector_that_passes(area: str):
    assert result_of(SAMPLE, area).passed


@pytest.mark.parametrize("area", [area for area in VECTORS[DERIVED] if area != "_meta"])
def test_every_derived_vector_is_applicable(area: str):
    assert not result_of(DERIVED, area).not_applicable


@pytest.mark.parametrize("area", DIFFERENCES)
def test_every_deliberate_difference_is_demonstrated_by_a_vector(area: str):
    differing = "\n".join(vector for file in VECTORS for vector in result_of(file, area).differing)
    assert not [reason for reason in DIFFERENCES[area] if reason not in differing]


# ---- wrong results --------------------------------------------------------------------------------------------------


def applies(area: str, vector: Vector) -> bool:
    """Return whether the scheduler has the subject of a vector."""
    try:
        list(CHECKS[area](vector))
    except NotApplicableError:
        return False
    return True


APPLICABLE = [
    pytest.param(area, vector, id=f"{file.stem}-{area}-{vector['id']}")
    for file in VECTORS
    for area, vectors in VECTORS[file].items()
    if area in CHECKS
    for vector in vectors
    if applies(area, vector)
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


@pytest.mark.parametrize(("area", "vector"), APPLICABLE)
def test_every_wrong_result_makes_the_vector_fail(area: str, vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    comparisons = list(CHECKS[area](vector))
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
    monkeypatch.setitem(CHECKS, area, lambda _: iter(comparisons))
    return bool(run({area: [vector]})[area].deviating)


# ---- the page and the command ---------------------------------------------------------------------------------------


def test_page_lists_every_deliberate_difference():
    table = PAGE.partition("| Area of the vectors | Difference from Flink |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    assert sorted(rows) == sorted((area, reason) for area, rules in DIFFERENCES.items() for reason in rules)


def test_page_counts_the_vectors():
    results = run(VECTORS[SAMPLE]).values()
    differing, not_applicable = (
        sum(len(getattr(it, name)) for it in results) for name in ("differing", "not_applicable")
    )
    passed = sum(result.passed for result in results)
    assert f" {passed} pass, {differing} differ on purpose, and {not_applicable} are not applicable." in PAGE


def test_command_line_prints_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(SAMPLE)]) == 0
    assert "slot_allocator" in capsys.readouterr().out
    vertices = [{"name": "a", "group": "g", "lower": 1, "upper": 4}]
    vector = {"id": "x", "vertices": vertices, "slots": 4, "expected_parallelism": None}
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"_meta": [], "slot_allocator": [vector]}))
    assert main([str(wrong)]) == 1
    assert "DEVIATES            slot_allocator x: parallelism: expected [None], got {'a': 4}" in capsys.readouterr().out
