"""The search for a short failing scenario."""

from __future__ import annotations

from tests.lab.fleet.shrink import shortest


def test_only_the_items_that_cause_a_failure_remain():
    assert shortest(range(100), lambda items: {7, 63} <= set(items), tries=1000) == [7, 63]


def test_a_failure_without_any_item_needs_no_items():
    assert shortest(range(10), lambda items: True, tries=100) == []


def test_the_search_ends_after_its_tries_with_items_that_fail():
    tried = []

    def fails(items):
        tried.append(items)
        return 5 in items

    assert 5 in shortest(range(10), fails, tries=3)
    assert len(tried) == 3
