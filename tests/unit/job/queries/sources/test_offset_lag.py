"""The offsets are those that Spark's connector for Kafka reports."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.listener import SourceProgress

from airflow_adaptive.job.protocol.documents import SourceReport
from airflow_adaptive.job.queries.sources.offset_lag import report_source, unread_rows


def progress(description: str, read: Any, latest: Any):
    return SourceProgress(description, "", read, latest, 0, 0.0, 0.0, {})


def test_partitions_of_all_topics_are_reported_with_the_worst_one():
    found = progress("KafkaV2[Subscribe[a, b]]", '{"a":{"0":5,"1":5},"b":{"0":7}}', '{"a":{"0":5,"1":14},"b":{"0":10}}')
    assert report_source(found) == SourceReport(
        kind="KafkaV2", partitions=3, lag_rows=12, skew=2.25, worst_partition="a-1"
    )


def test_without_unread_rows_no_partition_is_the_worst():
    found = report_source(progress("KafkaV2[Assign[a-0]]", '{"a":{"0":5,"1":9}}', '{"a":{"0":5,"1":9}}'))
    assert (found.lag_rows, found.skew, found.worst_partition) == (0, 1.0, None)


def test_a_new_partition_is_unread_from_its_first_row():
    assert unread_rows('{"a":{"0":5}}', '{"a":{"0":6,"1":4}}') == {("a", 0): 1, ("a", 1): 4}


def test_a_partition_that_has_lost_rows_has_no_unread_rows():
    assert unread_rows('{"a":{"0":5}}', '{"a":{"0":2}}') == {("a", 0): 0}


@pytest.mark.parametrize(
    ("read", "latest"),
    [
        ('{"logOffset": 4}', '{"logOffset": 5}'),
        ("4", "5"),
        (None, None),
        ('{"a":{"0":5}}', None),
        ('{"a":{"0":5}}', "{}"),
        ('{"a":{"0":5,"1":5}}', '{"a":{"0":5}}'),
        ('{"a":{"first":5}}', '{"a":{"first":5}}'),
        ("{}", "{}"),
    ],
)
def test_only_the_kind_is_known_of_a_source_that_counts_no_rows(read: Any, latest: Any):
    found = report_source(progress("FileStreamSource[s3a://key:secret@bucket/in]", read, latest))
    assert found == SourceReport(kind="FileStreamSource")
