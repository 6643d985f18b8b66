from __future__ import annotations

import pytest

from airflow_adaptive.job.queries.sources.kafka_topics import Division, limit_of

PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
ROWS = {("a", 0): 25, ("a", 1): 10, ("b", 0): 0}


@pytest.mark.parametrize(
    ("division", "limit"),
    [
        (Division(), 3),
        (Division(min_partitions=8), 8),
        (Division(min_partitions=2), 3),
        (Division(max_records=10), 5),
        (Division(max_records=24), 4),
        (Division(max_records=100), 3),
        (Division(max_records=10, min_partitions=6), 6),
        (Division(max_records=10, min_partitions=4), 5),
    ],
)
def test_limit_follows_from_the_partitions_of_all_topics_and_their_division(division: Division, limit: int):
    assert limit_of(PARTITIONS, ROWS, division) == limit


def test_source_without_partitions_can_feed_no_task():
    assert limit_of([], {}, Division()) == 0
