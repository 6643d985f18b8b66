"""The judge of balance itself: it passes nothing that it has not understood."""

from typing import Any

import pytest

from airflow_adaptive.testing.conformance.runner import Tally, run


def judged(area: str, **vector: Any) -> str:
    tally: Tally = run({area: [{"id": "x", **vector}]})[area]
    found = {"passed": tally.passed, "not applicable": tally.not_applicable, "deviating": tally.deviating}
    return next(name for name, told in found.items() if told)


def placed(**changes: Any) -> str:
    vertices = [
        {"name": "a", "group": "g", "lower": 1, "upper": 2},
        {"name": "b", "group": "g", "lower": 1, "upper": 1},
    ]
    return judged("balanced_tasks", **{"mode": "TASKS", "vertices": vertices, **changes})


def matched(**changes: Any) -> str:
    return judged("slot_to_tm", **{"mode": "TASKS", "requests": [2, 1], "tms": {"a": 1, "b": 1}, **changes})


@pytest.mark.parametrize(
    ("expectation", "verdict"),
    [
        ({"expected_tasks_per_slot": {"g": [1, 2]}}, "passed"),
        ({"expected_tasks_per_slot": {"g": [1, 1]}}, "deviating"),
        ({"expected_slots": {"g": [["a[1]"], ["b[0]", "a[0]"]]}}, "passed"),
        ({"expected_slots": {"g": [["a[0]"], ["b[0]", "a[1]"]]}}, "deviating"),
        ({"expected_tasks_per_slot_one_of": [{"g": [3]}, {"g": [2, 1]}]}, "passed"),
        ({"expected_tasks_per_slot": [1, 2]}, "not applicable"),
        ({"expected_beauty": 1}, "not applicable"),
        ({"mode": "SOMEHOW"}, "not applicable"),
        ({"weights": {"a": 2}}, "not applicable"),
    ],
    ids=str,
)
def test_slots_are_judged_by_their_content(expectation: dict[str, Any], verdict: str):
    assert placed(**expectation) == verdict


@pytest.mark.parametrize(
    ("expectation", "verdict"),
    [
        ({"expected_tasks_per_tm": {"a": 2, "b": 1, "idle": 0}}, "passed"),
        ({"expected_tasks_per_tm": {"a": 1, "b": 2}}, "deviating"),
        ({"expected_tasks_per_tm_sorted": [1, 2]}, "passed"),
        ({"expected_tasks_per_tm_sorted": [3]}, "deviating"),
        ({"expected_slots_per_tm_sorted": [1, 1]}, "passed"),
        ({"expected_matches": 2}, "passed"),
        ({"expected_matches": 1}, "deviating"),
        ({"expected_error": None}, "passed"),
        ({"expected_error": "No suitable slots enough."}, "deviating"),
        ({"requests": [1, 1, 1], "expected_tasks_per_tm": None, "expected_matches": 0}, "passed"),
        (
            {"expected_flip_tasks_per_tm_sorted": [3], "observed_flink_2_3_tasks_per_tm_sorted": [[2, 1], [0, 3]]},
            "passed",
        ),
        ({"expected_flip_tasks_per_tm_sorted": [3], "observed_tasks_per_tm_sorted": [[0, 3]]}, "deviating"),
        ({"expected_beauty": 1}, "not applicable"),
        ({"blocked": ["a"]}, "not applicable"),
    ],
    ids=str,
)
def test_workers_are_judged_by_what_they_got(expectation: dict[str, Any], verdict: str):
    assert matched(**expectation) == verdict


@pytest.mark.parametrize(
    ("slots", "wanted", "verdict"),
    [
        ([2, 2], [2, "UNKNOWN"], "passed"),
        (["ANY", "ANY"], [1, 2], "passed"),
        ([2, 1], ["UNKNOWN", "UNKNOWN"], "not applicable"),
        ([2, 2], [1, "UNKNOWN"], "not applicable"),
    ],
)
def test_slots_of_different_sizes_are_no_matter_of_a_spark_job(slots: list[Any], wanted: list[Any], verdict: str):
    offered = [{"tm": str(number), "profile": size} for number, size in enumerate(slots)]
    requests = [{"load": 1, "profile": size} for size in wanted]
    vector = {"mode": "TASKS", "slots": offered, "requests": requests, "expected_matches": 2}
    assert judged("slot_to_tm", **vector) == verdict


@pytest.mark.parametrize(
    ("expectation", "verdict"),
    [
        ({"expected_kept_tms": ["b"]}, "passed"),
        ({"expected_kept_tms": ["a", "b"]}, "deviating"),
        ({"prefer_minimal": False, "expected_kept_tms": ["a", "b"]}, "not applicable"),
    ],
    ids=str,
)
def test_workers_that_are_kept_are_judged(expectation: dict[str, Any], verdict: str):
    assert judged("minimal_taskmanagers", groups=2, tms={"a": 1, "b": 2}, **expectation) == verdict
