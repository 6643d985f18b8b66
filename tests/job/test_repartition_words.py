"""What a checkpoint's head means, and how a refusal is reported; without Spark."""

from __future__ import annotations

import pytest

from airflow_adaptive.job.checkpoint import Head
from airflow_adaptive.job.failures import report_build_failure, report_exception
from airflow_adaptive.job.repartition import RepartitionError


@pytest.mark.parametrize(
    ("head", "cut", "repartitioned", "unfinished"),
    [
        (Head(newest=0, committed=None, partitions=2, before=None), True, False, None),
        (Head(newest=7, committed=7, partitions=2, before=2), False, False, None),
        (Head(newest=7, committed=6, partitions=2, before=2), True, False, None),
        (Head(newest=7, committed=7, partitions=4, before=2), False, True, None),
        (Head(newest=7, committed=6, partitions=4, before=2), True, True, 4),
        (Head(newest=7, committed=6, partitions=4, before=None), True, False, None),
        (Head(newest=7, committed=6, partitions=None, before=2), True, False, None),
    ],
    ids=["first batch", "at rest", "cut", "repartitioned", "repartition cut", "before purged", "of an old Spark"],
)
def test_a_batch_with_another_number_than_the_one_before_is_a_repartition(head, cut, repartitioned, unfinished):
    assert (head.cut, head.repartitioned, head.unfinished) == (cut, repartitioned, unfinished)


def test_a_refusal_is_reported_in_its_own_words():
    error = RepartitionError("state in file:///jobs/flights can't have 0 partition(s): give at least 1")
    report = report_build_failure(error)
    assert report.message.startswith(str(error))
    assert report.error_class.endswith("RepartitionError")
    assert report_exception(error).causes == ("airflow_adaptive.job.repartition.RepartitionError",)
