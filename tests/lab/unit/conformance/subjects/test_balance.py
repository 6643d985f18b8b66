"""The checks of load balancing, which refuse unknown inputs and expectations."""

from typing import Any

import pytest

from tests.support.scheduler.conformance import outcome_of


def placed(**changes: Any) -> str:
    vertices = [
        {"name": "a", "group": "g", "lower": 1, "upper": 2},
        {"name": "b", "group": "g", "lower": 1, "upper": 1},
    ]
    return outcome_of("balanced_tasks", {"id": "x", "mode": "TASKS", "vertices": vertices, **changes})


def matched(**changes: Any) -> str:
    return outcome_of(
        "slot_to_tm", {"id": "x", "mode": "TASKS", "requests": [2, 1], "tms": {"a": 1, "b": 1}, **changes}
    )


@pytest.mark.parametrize(
    ("expectation", "result"),
    [
        ({"expected_tasks_per_slot": {"g": [1, 2]}}, "passed"),
        ({"expected_tasks_per_slot": {"g": [1, 1]}}, "deviating"),
        ({"expected_slots": {"g": [["a[1]"], ["b[0]", "a[0]"]]}}, "passed"),
        ({"expected_slots": {"g": [["a[0]"], ["b[0]", "a[1]"]]}}, "deviating"),
        ({"expected_tasks_per_slot_one_of": [{"g": [3]}, {"g": [2, 1]}]}, "passed"),
        ({"expected_tasks_per_slot": [1, 2]}, "not_applicable"),
        ({"expected_beauty": 1}, "not_applicable"),
        ({"mode": "SOMEHOW"}, "not_applicable"),
        ({"weights": {"a": 2}}, "not_applicable"),
    ],
    ids=str,
)
def test_result_depends_on_the_content_of_the_slots(expectation: dict[str, Any], result: str):
    assert placed(**expectation) == result


@pytest.mark.parametrize(
    ("expectation", "result"),
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
        ({"expected_beauty": 1}, "not_applicable"),
        ({"blocked": ["a"]}, "not_applicable"),
    ],
    ids=str,
)
def test_result_depends_on_the_load_of_the_workers(expectation: dict[str, Any], result: str):
    assert matched(**expectation) == result


@pytest.mark.parametrize(
    ("slots", "wanted", "result"),
    [
        ([2, 2], [2, "UNKNOWN"], "passed"),
        (["ANY", "ANY"], [1, 2], "passed"),
        ([2, 1], ["UNKNOWN", "UNKNOWN"], "not_applicable"),
        ([2, 2], [1, "UNKNOWN"], "not_applicable"),
    ],
)
def test_slots_of_different_sizes_are_not_applicable_to_a_spark_job(slots: list[Any], wanted: list[Any], result: str):
    offered = [{"tm": str(number), "profile": size} for number, size in enumerate(slots)]
    requests = [{"load": 1, "profile": size} for size in wanted]
    vector = {"id": "x", "mode": "TASKS", "slots": offered, "requests": requests, "expected_matches": 2}
    assert outcome_of("slot_to_tm", vector) == result


@pytest.mark.parametrize(
    ("expectation", "result"),
    [
        ({"expected_kept_tms": ["b"]}, "passed"),
        ({"expected_kept_tms": ["a", "b"]}, "deviating"),
        ({"prefer_minimal": False, "expected_kept_tms": ["a", "b"]}, "not_applicable"),
    ],
    ids=str,
)
def test_result_depends_on_the_kept_workers(expectation: dict[str, Any], result: str):
    vector = {"id": "x", "groups": 2, "tms": {"a": 1, "b": 2}, **expectation}
    assert outcome_of("minimal_taskmanagers", vector) == result
