"""Vectors that were recorded on Apache Flink, and derived vectors for the behavior that the recorded vectors do not cover."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conformance.__main__ import main
from tests.lab.conformance.differences import DIFFERENCES
from tests.lab.conformance.runner import CHECKS, AreaResult, run
from tests.support.scheduler.conformance import outcome_of

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


# ---- the runner -----------------------------------------------------------------------------------------------------


def allocated(**changes: Any) -> dict[str, Any]:
    vertices = [{"name": "a", "group": "g", "lower": 1, "upper": 4}]
    return {"id": "x", "vertices": vertices, "slots": 4, "expected_parallelism": {"a": 4}, **changes}


@pytest.mark.parametrize(
    ("area", "vector", "result"),
    [
        ("slot_allocator", allocated(), "passed"),
        ("slot_allocator", allocated(expected_parallelism={"a": 3}), "deviating"),
        ("slot_allocator", allocated(expected_parallelism={"a": 3}, uncertain=True), "differing"),
        ("slot_allocator", allocated(expected_slots=["a"]), "not_applicable"),
        ("slot_allocator", {"id": "x"}, "deviating"),
        ("slot_allocator", allocated(vertices="a, b"), "deviating"),
        ("somewhere_else", allocated(), "not_applicable"),
        (
            "state_transitions",
            {"id": "x", "state": "Executing", "event": "cancel", "condition": "moon is full", "next_state": None},
            "not_applicable",
        ),
        (
            "state_transitions",
            {
                "id": "x",
                "state": "Executing",
                "event": "cancel",
                "condition": "any, the moon is full",
                "next_state": None,
            },
            "not_applicable",
        ),
        (
            "state_transitions",
            {"id": "x", "state": "Executing", "event": "cancel", "condition": "", "next_state": None},
            "deviating",
        ),
        (
            "state_transitions",
            {"id": "x", "state": "Executing", "event": "query_status", "next_state": None, "job_status": "CREATED"},
            "deviating",
        ),
        (
            "state_transitions",
            {"id": "x", "state": "Waiting", "event": "cancel", "condition": "", "next_state": None},
            "not_applicable",
        ),
        (
            "state_transitions",
            {"id": "x", "state": "Executing", "event": "leave", "condition": "", "next_state": None},
            "not_applicable",
        ),
    ],
)
def test_result_depends_on_the_content_of_the_vector(area: str, vector: dict[str, Any], result: str):
    assert outcome_of(area, vector) == result


def test_command_line_prints_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(SAMPLE)]) == 0
    assert "slot_allocator" in capsys.readouterr().out
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"_meta": [], "slot_allocator": [allocated(expected_parallelism=None)]}))
    assert main([str(wrong)]) == 1
    assert "DEVIATES            slot_allocator x: parallelism: expected [None], got {'a': 4}" in capsys.readouterr().out
