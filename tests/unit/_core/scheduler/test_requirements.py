"""Resource requirements: validated as a whole, expanded before they are kept."""

from typing import Any

import pytest

from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, accept, are_accepted, is_within, violations
from tests.support.patterns import exactly

DEFAULTS = {"read": ParallelismRange(2, 4), "count": ParallelismRange(1, 8)}
MAX = {"read": 16, "count": 16}


def bounds(read: tuple[int, int], count: tuple[int, int] = (1, 8)) -> dict[str, ParallelismRange]:
    return {"read": ParallelismRange(*read), "count": ParallelismRange(*count)}


def test_bounds_of_minus_one_are_expanded_to_their_defaults():
    assert accept(bounds((-1, -1), (3, -1)), DEFAULTS, MAX) == bounds((1, 4), (3, 8))


def test_all_violations_are_reported_at_once():
    with pytest.raises(RequirementsError) as raised:
        accept({"read": ParallelismRange(5, 17), "write": ParallelismRange(1, 1)}, DEFAULTS, MAX)
    assert raised.value.violations == (
        "The newly requested parallelism 17 for the job vertex read exceeds its maximum parallelism 16.",
        "Job vertex [write] was not found in the JobGraph.",
        "The request is incomplete, missing job vertex [count] resource requirements.",
    )


def test_bounds_that_cross_when_they_are_expanded_are_refused():
    assert violations(bounds((5, -1)), MAX) == []
    with pytest.raises(RequirementsError, match=r"lower bound \[5\] for job vertex \[read\] is higher than .* \[4\]"):
        accept(bounds((5, -1)), DEFAULTS, MAX)


def test_accepted_requirements_are_complete_valid_and_expanded():
    assert are_accepted(accept(bounds((-1, 4)), DEFAULTS, MAX), MAX)
    assert not are_accepted(bounds((-1, 4)), MAX)
    assert not are_accepted(bounds((0, 4)), MAX)
    assert not are_accepted({"read": ParallelismRange(1, 4)}, MAX)


def test_range_is_made_of_a_pair_or_of_one_number():
    assert ParallelismRange.of((1, 4)) == ParallelismRange.of([1, 4]) == ParallelismRange(1, 4)
    assert ParallelismRange.of(3) == ParallelismRange(3, 3)


# ---- requirements and job graphs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", ["three", (1, 2, 3), (1,), None, 1.5, (1.0, 2.0)])
def test_range_of_anything_but_whole_numbers_is_refused(bounds: Any):
    words = f"parallelism {bounds!r} must be a whole number, or a pair of them (lower, upper)"
    with pytest.raises(ValueError, match=exactly(words)):
        ParallelismRange.of(bounds)


@pytest.mark.parametrize(
    ("read", "count", "within"), [(2, 8, True), (4, 1, True), (1, 8, False), (5, 8, False), (2, 9, False)]
)
def test_parallelism_is_within_bounds_that_include_their_ends(read: int, count: int, within: bool):
    assert is_within({"read": read, "count": count}, bounds((2, 4))) is within


def test_parallelism_of_other_vertices_is_not_within_the_bounds():
    assert not is_within({"read": 2}, bounds((2, 4)))
