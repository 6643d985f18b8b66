"""Whether another parallelism is worth a rescale."""

import pytest

from airflow_adaptive._core.scheduler.policies.rescaling import MinimalIncrease, should_rescale
from airflow_adaptive._core.scheduler.requirements import ParallelismRange

BOUNDS = {"read": ParallelismRange(1, 3), "count": ParallelismRange(1, 8)}


@pytest.mark.parametrize(
    ("current", "new", "worth_it"),
    [
        ((2, 2), (2, 2), False),
        ((2, 2), (2, 3), False),
        ((2, 2), (3, 3), True),
        ((2, 2), (2, 4), True),
        ((2, 2), (1, 8), True),
        ((2, 4), (3, 3), True),
        ((3, 7), (3, 8), True),
        ((3, 8), (3, 8), False),
    ],
)
def test_change_justifies_a_rescale(current: tuple[int, int], new: tuple[int, int], worth_it: bool):
    before, after = (dict(zip(BOUNDS, parallelism, strict=True)) for parallelism in (current, new))
    assert should_rescale(before, after, BOUNDS, MinimalIncrease(min_increase=2)) is worth_it


def test_vertex_that_is_gone_is_a_decrease():
    assert should_rescale({"read": 2, "old": 1}, {"read": 2, "count": 1}, BOUNDS, MinimalIncrease(min_increase=9))


def test_users_controller_decides_on_increases():
    class Never:
        def can_scale_up(self, current, new):
            return False

    bounds = {"read": ParallelismRange(1, 9)}
    assert not should_rescale({"read": 1}, {"read": 5}, bounds, Never())
    assert should_rescale({"read": 5}, {"read": 1}, bounds, Never())
