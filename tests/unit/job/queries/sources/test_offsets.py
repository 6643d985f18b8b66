"""Unread rows, calculated from the offsets that a source reports."""

from __future__ import annotations

import pytest

from airflow_adaptive.job.queries.sources.offsets import read_offsets, unread_rows


def test_offsets_of_all_topics_are_read():
    assert read_offsets('{"a":{"0":5,"1":9},"b":{"0":7}}') == {("a", 0): 5, ("a", 1): 9, ("b", 0): 7}


def test_offsets_of_pyspark_before_4_2_are_read():
    assert read_offsets("{'a': {'0': 5}}") == {("a", 0): 5}


@pytest.mark.parametrize("text", ['{"logOffset": 4}', "4", None, "", '{"a":{"first":5}}', '{"a":{"0":null}}', "[1]"])
def test_offsets_of_a_source_that_does_not_count_rows_are_unknown(text: str | None):
    assert read_offsets(text) is None


def test_a_new_partition_is_unread_from_its_first_row():
    assert unread_rows({("a", 0): 5}, {("a", 0): 6, ("a", 1): 4}) == {("a", 0): 1, ("a", 1): 4}


def test_a_partition_that_has_lost_rows_has_no_unread_rows():
    assert unread_rows({("a", 0): 5}, {("a", 0): 2}) == {("a", 0): 0}


def test_a_partition_that_was_deleted_has_no_unread_rows():
    assert unread_rows({("a", 0): 5, ("a", 1): 5}, {("a", 0): 6}) == {("a", 0): 1}
