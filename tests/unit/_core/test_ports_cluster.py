"""Resources: sums, differences, and how often a request fits."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.ports import Resources

REQUEST = Resources(500, 100)


def test_resources_are_added_and_subtracted_by_dimension():
    assert Resources(1000, 250) + REQUEST == Resources(1500, 350)
    assert Resources(1000, 250) - REQUEST == Resources(500, 150)


@pytest.mark.parametrize(
    ("free", "count"),
    [
        (Resources(1000, 250), 2),
        (Resources(1000, 199), 1),
        (Resources(499, 1000), 0),
        (Resources(-1000, 1000), 0),
        (Resources(1000, -1), 0),
    ],
)
def test_request_fits_as_often_as_the_scarcest_dimension_allows(free: Resources, count: int):
    assert REQUEST.count_in(free) == count
