from __future__ import annotations

import pytest
from pyspark.sql import DataFrameWriter
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.queries import require_writer


class StartedQuery(StreamingQuery):
    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_a_stream_writer_is_what_is_wanted():
    writer = DataStreamWriter.__new__(DataStreamWriter)
    assert require_writer(writer, "departures") is writer


def test_a_batch_writer_is_wanted_too():
    writer = DataFrameWriter.__new__(DataFrameWriter)
    assert require_writer(writer, "departures") is writer


def test_a_started_query_is_refused_and_stopped():
    query = StartedQuery()
    with pytest.raises(TypeError, match="started its query"):
        require_writer(query, "departures")
    assert query.stopped


def test_nothing_is_refused():
    with pytest.raises(
        TypeError,
        match=r"departures\(\) returned NoneType: return df\.writeStream.* or df\.write\.\.\. of a batch, not saved",
    ):
        require_writer(None, "departures")
