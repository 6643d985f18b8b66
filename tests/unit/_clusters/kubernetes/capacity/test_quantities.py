"""Quantities of CPU and memory."""

from __future__ import annotations

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.quantities import amount, largest, millicores, resources, whole
from airflow_adaptive._core.ports import Resources


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("500m", 500), ("2", 2000), (2, 2000), ("0.1", 100), ("1n", 1), ("100u", 1), ("1k", 1_000_000), ("1e1", 10_000)],
)
def test_cpu_is_rounded_up_to_millicores(quantity: str | int, expected: int):
    assert millicores(quantity) == expected


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("128974848", 128_974_848), ("129M", 129_000_000), ("123Mi", 123 << 20), ("1500m", 2), ("1Ei", 1 << 60)],
)
def test_memory_is_rounded_up_to_bytes(quantity: str, expected: int):
    assert whole(quantity) == expected


@pytest.mark.parametrize("quantity", ["", "x", "1Xi", "1.2.3"])
def test_a_text_that_is_no_quantity_is_an_error(quantity: str):
    with pytest.raises(ValueError, match="Invalid|unknown"):
        amount(quantity)


def test_a_missing_resource_counts_as_nothing():
    assert resources({}) == Resources()
    assert resources({"memory": "1Ki", "nvidia.com/gpu": "1"}) == Resources(0, 1024)


def test_the_largest_resources_are_chosen_one_by_one():
    assert largest(Resources(1, 5), Resources(3, 2), Resources(2, 4)) == Resources(3, 5)
