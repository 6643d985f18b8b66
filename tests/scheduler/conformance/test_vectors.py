"""Vectors that were recorded on Apache Flink, and what of its behaviour the sample does not show."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.testing.conformance.__main__ import main
from airflow_adaptive.testing.conformance.differences import DIFFERENCES
from airflow_adaptive.testing.conformance.runner import JUDGES, run

SAMPLE = Path(__file__).with_name("scheduler.json")
DERIVED = Path(__file__).with_name("derived.json")


@pytest.mark.parametrize("file", [SAMPLE, DERIVED], ids=lambda file: file.stem)
def test_no_vector_deviates_without_a_reason(file: Path):
    deviating = {area: tally.deviating for area, tally in run(json.loads(file.read_text())).items() if tally.deviating}
    assert not deviating


def test_vectors_of_every_judged_area_pass():
    tallies = run(json.loads(SAMPLE.read_text()))
    assert all(tallies[area].passed for area in JUDGES)


def test_every_derived_vector_is_judged():
    assert not [told for tally in run(json.loads(DERIVED.read_text())).values() for told in tally.not_applicable]


def test_every_deliberate_difference_is_shown_by_a_vector():
    shown: Counter[tuple[str, str]] = Counter()
    for file in (SAMPLE, DERIVED):
        for area, tally in run(json.loads(file.read_text())).items():
            shown.update((area, rule.why) for rule in DIFFERENCES for told in tally.differing if rule.why in told)
    assert not {(rule.area, rule.why) for rule in DIFFERENCES} - set(shown)


# ---- the runner itself ----------------------------------------------------------------------------------------------


def allocated(**changes: Any) -> dict[str, Any]:
    vertices = [{"name": "a", "group": "g", "lower": 1, "upper": 4}]
    return {"id": "x", "vertices": vertices, "slots": 4, "expected_parallelism": {"a": 4}, **changes}


def judged(area: str, vector: dict[str, Any]) -> str:
    tally = run({area: [vector]})[area]
    found = {
        "passed": tally.passed,
        "differing": tally.differing,
        "not applicable": tally.not_applicable,
        "deviating": tally.deviating,
    }
    return next(name for name, told in found.items() if told)


@pytest.mark.parametrize(
    ("area", "vector", "verdict"),
    [
        ("slot_allocator", allocated(), "passed"),
        ("slot_allocator", allocated(expected_parallelism={"a": 3}), "deviating"),
        ("slot_allocator", allocated(expected_parallelism={"a": 3}, uncertain=True), "differing"),
        ("slot_allocator", allocated(expected_slots=["a"]), "not applicable"),
        ("slot_allocator", {"id": "x"}, "deviating"),
        ("slot_allocator", allocated(vertices="a, b"), "deviating"),
        ("somewhere_else", allocated(), "not applicable"),
        (
            "state_transitions",
            {"id": "x", "state": "Executing", "event": "cancel", "condition": "moon is full", "next_state": None},
            "not applicable",
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
            "not applicable",
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
            "not applicable",
        ),
        (
            "state_transitions",
            {"id": "x", "state": "Executing", "event": "leave", "condition": "", "next_state": None},
            "not applicable",
        ),
    ],
)
def test_vector_is_judged_by_what_it_says(area: str, vector: dict[str, Any], verdict: str):
    assert judged(area, vector) == verdict


def test_command_line_tells_what_came_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(SAMPLE)]) == 0
    assert "slot_allocator" in capsys.readouterr().out
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"_meta": [], "slot_allocator": [allocated(expected_parallelism=None)]}))
    assert main([str(wrong)]) == 1
    assert "DEVIATES            slot_allocator x: parallelism: expected [None], got {'a': 4}" in capsys.readouterr().out
