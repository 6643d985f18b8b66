"""What a query reports about all its sources."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.protocol.documents import QueryReport
from airflow_adaptive._core.protocol.sources import SourceReport

KNOWN = SourceReport(kind="KafkaV2", lag_rows=3, lag_s=2.0)
OTHER = SourceReport(kind="KafkaV2", lag_rows=4, lag_s=9.0)
UNKNOWN = SourceReport(kind="KafkaV2", is_lag_unknown=True)
UNCOUNTED = SourceReport(kind="RateStreamV2")


def report(*sources: SourceReport) -> QueryReport:
    return QueryReport(name="q", active=True, backlog=1, sources=sources)


def test_lag_of_a_query_is_that_of_all_its_sources() -> None:
    found = report(KNOWN, OTHER)
    assert (found.unread_rows, found.lag_s) == (7, 9.0)


def test_lag_is_unknown_while_one_source_cannot_be_polled() -> None:
    found = report(KNOWN, UNKNOWN)
    assert (found.unread_rows, found.lag_s) == (None, None)


def test_source_that_counts_no_rows_does_not_hide_the_lag_of_the_others() -> None:
    found = report(KNOWN, UNCOUNTED)
    assert (found.unread_rows, found.lag_s) == (1, 2.0)
    assert replace(found, sources=()).lag_s is None
