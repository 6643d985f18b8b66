"""The offsets are those that Spark's connector for Kafka reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.streaming.listener import SourceProgress

from airflow_adaptive._core.protocol.documents import (
    MAX_DOCUMENT_BYTES,
    DriverState,
    DriverStatus,
    QueryReport,
    encode_document,
)
from airflow_adaptive._core.protocol.sources import KafkaSource, PartitionLag, SourceReport, TopicReport
from airflow_adaptive.job.queries.sources.kafka_topics import Division
from airflow_adaptive.job.queries.sources.source_monitor import Age, Lag
from airflow_adaptive.job.queries.sources.source_report import (
    MAX_PARTITION_LAGS,
    MAX_TOPICS_SIZE,
    PARTITION_SIZE,
    TOPIC_SIZE,
    limit_topics,
    report_at_batch,
    report_polled,
)

KAFKA = KafkaSource(cluster="x")


def progress(description: str, read: Any, latest: Any):
    return SourceProgress(description, "", read, latest, 0, 0.0, 0.0, {})


def test_partitions_of_all_topics_are_reported_with_the_worst_one():
    found = progress("KafkaV2[Subscribe[a, b]]", '{"a":{"0":5,"1":5},"b":{"0":7}}', '{"a":{"0":5,"1":14},"b":{"0":10}}')
    assert report_at_batch(found) == SourceReport(
        kind="KafkaV2", partitions=3, lag_rows=12, skew=2.25, worst_partition="a-1"
    )


def test_without_unread_rows_no_partition_is_the_worst():
    found = report_at_batch(progress("KafkaV2[Assign[a-0]]", '{"a":{"0":5,"1":9}}', '{"a":{"0":5,"1":9}}'))
    assert (found.lag_rows, found.skew, found.worst_partition) == (0, 1.0, None)


def test_polled_source_reports_its_oldest_row_and_the_partitions_with_such_rows():
    lag = Lag(
        description="KafkaV2[Subscribe[a]]",
        read={("a", 0): 4, ("a", 1): 0, ("b", 10): 7},
        rows={("a", 0): 6, ("a", 1): 3, ("a", 2): 0},
        ages={("a", 0): Age(seconds=2.04), ("a", 1): Age(seconds=70.16, is_minimum=True)},
        kafka=KAFKA,
        division=Division(max_records=2, min_partitions=4),
        retention_s={"a": 3600.0},
    )
    assert report_polled(lag, {("a", 0): 7}) == SourceReport(
        kind="KafkaV2",
        partitions=3,
        lag_rows=9,
        skew=2.0,
        worst_partition="a-0",
        lag_s=70.2,
        is_lag_minimum=True,
        partition_lags=(
            PartitionLag(partition="a-1", rows=3, seconds=70.2),
            PartitionLag(partition="a-0", rows=6, seconds=2.0),
        ),
        input_limit=6,
        min_partitions=4,
        kafka=KAFKA,
        topics={
            "a": TopicReport(
                position={"0": 4, "1": 0}, lag_rows=9, lag_s=70.2, is_lag_minimum=True, retention_s=3600.0
            ),
            "b": TopicReport(position={"10": 7}),
        },
    )


def test_each_topic_has_its_own_oldest_row_and_its_own_retention():
    lag = Lag(
        description="KafkaV2[Subscribe[a, b, c]]",
        read={("a", 0): 4, ("b", 0): 7},
        rows={("a", 0): 6, ("b", 0): 0, ("c", 0): 3},
        ages={("a", 0): Age(seconds=9.0), ("c", 0): Age(seconds=2.0)},
        kafka=KAFKA,
        retention_s={"a": 604_800.0, "b": 60.0},
    )
    assert report_polled(lag, {}).topics == {
        "a": TopicReport(position={"0": 4}, lag_rows=6, lag_s=9.0, retention_s=604_800.0),
        "b": TopicReport(position={"0": 7}, lag_rows=0, lag_s=0.0, retention_s=60.0),
        "c": TopicReport(lag_rows=3, lag_s=2.0),
    }


def test_a_polled_source_without_unread_rows_has_the_age_zero():
    found = report_polled(Lag(description="KafkaV2[Assign[a-0]]", read={}, rows={("a", 0): 0}, ages={}), {})
    assert (found.lag_rows, found.lag_s, found.is_lag_minimum, found.partition_lags) == (0, 0.0, False, ())


def test_a_polled_source_without_partitions_reports_only_its_kind():
    assert report_polled(
        Lag(description="KafkaV2[SubscribePattern[a.*]]", read={}, rows={}, ages={}), {}
    ) == SourceReport(kind="KafkaV2")


def test_the_age_is_a_minimum_if_that_of_any_partition_is():
    """The other partition was empty at the first poll, so its first row may be as old as the poll."""
    ages = {("a", 0): Age(seconds=12.0), ("a", 1): Age(seconds=12.0, is_minimum=True)}
    found = report_polled(Lag(description="KafkaV2[a]", read={}, rows=dict.fromkeys(ages, 1), ages=ages), {})
    assert (found.lag_s, found.is_lag_minimum) == (12.0, True)


def test_the_report_of_a_large_topic_contains_only_the_oldest_partitions():
    partitions = [("a", number) for number in range(MAX_PARTITION_LAGS + 5)]
    ages = {partition: Age(seconds=float(partition[1])) for partition in partitions}
    found = report_polled(
        Lag(description="KafkaV2[a]", read={}, rows=dict.fromkeys(partitions, 1), ages=ages), {}
    ).partition_lags
    assert len(found) == MAX_PARTITION_LAGS
    assert (found[0].partition, found[-1].partition) == ("a-24", "a-5")


@pytest.mark.parametrize("is_too_large", [False, True])
@pytest.mark.parametrize(("topics", "characters"), [(2, 10), (400, 200)])
def test_the_positions_of_all_queries_are_left_out_if_they_are_too_large(
    topics: int, characters: int, is_too_large: bool
):
    """Topics with many partitions, and a pattern that matches many topics with long names."""
    partitions = (MAX_TOPICS_SIZE // topics - characters - TOPIC_SIZE) // PARTITION_SIZE + is_too_large
    read = {(f"{topic:0{characters}}", number): 10**11 for topic in range(topics) for number in range(partitions)}
    large = report_polled(
        Lag(description="KafkaV2[a]", read=read, rows=dict.fromkeys(read, 1), ages={}, kafka=KAFKA), {}
    )
    found = limit_topics((query("large", large), query("small")))
    if is_too_large:
        without = {name: replace(topic, position={}) for name, topic in large.topics.items()}
        assert found == (query("large", replace(large, kafka=None, topics=without)), query("small"))
    else:
        assert found == (query("large", large), query("small"))
    assert len(encode_document(status(found))) < MAX_DOCUMENT_BYTES


def test_topics_are_left_out_if_there_are_too_many_for_a_status():
    names = [f"{number:0200}" for number in range(MAX_TOPICS_SIZE // (200 + TOPIC_SIZE) + 1)]
    large = SourceReport(kind="KafkaV2", lag_rows=3, kafka=KAFKA, topics=dict.fromkeys(names, TopicReport(lag_rows=1)))
    assert limit_topics([query("large", large)]) == (query("large", SourceReport(kind="KafkaV2", lag_rows=3)),)


def query(name: str, *sources: SourceReport) -> QueryReport:
    return QueryReport(name=name, active=True, sources=sources)


def status(queries: tuple[QueryReport, ...]) -> DriverStatus:
    return DriverStatus(
        job="j", epoch=1, nonce="n", sequence=1, at="2026-01-01", state=DriverState.RUNNING, queries=queries
    )


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
    found = report_at_batch(progress("FileStreamSource[s3a://key:secret@bucket/in]", read, latest))
    assert found == SourceReport(kind="FileStreamSource")
