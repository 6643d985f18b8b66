"""What the driver status reports of a query follows Spark's progress, also over restarts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress

from airflow_adaptive._core.protocol.documents import LatencyReport, QueryReport
from airflow_adaptive.job.queries.progress import METRIC, NO_WATERMARK, ProgressCounter


def progress(
    batch: int,
    rows: int = 10,
    *,
    committed: bool = True,
    watermark: str | None = None,
    partitions: int = 0,
    offsets: Sequence[tuple[Any, Any]] = (),
):
    """Spark's progress of one trigger; a trigger without data has the number of the next batch."""
    return StreamingQueryProgress.fromJson(
        {
            "id": "8a5b0b6c-0d52-4c5e-9f6f-4b6a4a6d9a11",
            "runId": "8a5b0b6c-0d52-4c5e-9f6f-4b6a4a6d9a12",
            "name": "j",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "batchId": batch,
            "batchDuration": 7,
            "numInputRows": rows if committed else 0,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 0.0,
            "durationMs": {"triggerExecution": 7, **({"addBatch": 5} if committed else {})},
            "eventTime": {} if watermark is None else {"watermark": watermark},
            "stateOperators": [state_operator(partitions)] if partitions else [],
            "sources": [source(read, there) for read, there in offsets],
            "sink": {"description": "", "numOutputRows": 0},
        }
    )


def source(read: Any, there: Any) -> dict[str, Any]:
    """A source that had this when the batch began, and was read so far."""
    return {
        "description": "",
        "startOffset": None,
        "endOffset": read,
        "latestOffset": there,
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "metrics": {},
    }


def state_operator(partitions: int) -> dict[str, object]:
    counts = (
        *("numRowsTotal", "numRowsUpdated", "allUpdatesTimeMs", "numRowsRemoved", "allRemovalsTimeMs"),
        *("commitTimeMs", "memoryUsedBytes", "numRowsDroppedByWatermark", "numStateStoreInstances"),
    )
    return {
        "operatorName": "stateStoreSave",
        "numShufflePartitions": partitions,
        "customMetrics": {},
        **dict.fromkeys(counts, 0),
    }


class Following:
    """A counter, and the progress that Spark keeps."""

    def __init__(self) -> None:
        self.counter = ProgressCounter()
        self.kept: list[StreamingQueryProgress] = []
        self.requested_all = 0
        self.counter.begin("j", None)

    def update(self, *new: StreamingQueryProgress) -> None:
        self.kept += new
        self.counter.update(self.kept[-1] if self.kept else None, self._all)

    def _all(self) -> list[StreamingQueryProgress]:
        self.requested_all += 1
        return self.kept

    @property
    def report(self) -> QueryReport:
        assert self.counter.report is not None
        return self.counter.report

    @property
    def counted(self) -> tuple[int, int, int]:
        return self.report.batch_id, self.report.committed, self.report.input_rows


def test_nothing_is_counted_before_the_first_trigger():
    following = Following()
    following.update()
    assert following.counted == (-1, 0, 0)


def test_every_batch_is_counted_when_several_complete_between_two_reads():
    following = Following()
    following.update(progress(0))
    following.update(progress(1), progress(2), progress(3, rows=4))
    assert following.counted == (3, 4, 34)


def test_all_progress_is_requested_only_when_the_newest_does_not_report_all():
    following = Following()
    for batch in range(5):
        following.update(progress(batch))
        following.update()
    assert following.counted == (4, 5, 50)
    assert following.requested_all == 1


def test_triggers_without_data_are_not_counted():
    following = Following()
    following.update(progress(0), progress(1, committed=False))
    following.update(progress(1, committed=False))
    assert following.counted == (0, 1, 10)
    following.update(progress(1))
    assert following.counted == (1, 2, 20)


def test_a_query_that_resumes_idle_counts_nothing():
    following = Following()
    following.update(progress(8, committed=False))
    assert following.counted == (-1, 0, 0)
    following.update(progress(8))
    assert following.counted == (8, 1, 10)


def test_counts_continue_when_the_query_is_restarted():
    following = Following()
    following.update(progress(0), progress(1))
    following.counter.end()
    ended = following.report
    following.kept.clear()
    following.counter.begin("j", 500)
    assert (ended.active, following.report.active) == (False, True)
    assert (ended.trigger_interval_ms, following.report.trigger_interval_ms) == (None, 500)
    following.update(progress(2))
    assert following.counted == (2, 3, 30)


def test_batches_are_counted_by_number_when_spark_has_forgotten_some():
    following = Following()
    following.update(progress(0))
    following.kept.clear()
    following.update(progress(150), progress(151))
    assert following.counted == (151, 152, 30)


def test_watermark_and_state_partitions_are_taken_from_the_newest_batch():
    following = Following()
    watermarks = []
    for batch, watermark in enumerate((NO_WATERMARK, "2013-01-01T10:00:00.000Z")):
        following.update(progress(batch, watermark=watermark, partitions=3))
        watermarks.append(following.report.watermark)
    assert watermarks == [None, "2013-01-01T10:00:00.000Z"]
    assert following.report.batch_duration_ms == 7
    assert following.counter.state_partitions == 3


KAFKA = {"flights": {"0": 90, "1": 100}}


@pytest.mark.parametrize(
    ("offsets", "backlog"),
    [
        ([(KAFKA, {"flights": {"0": 100, "1": 120}})], 30),
        ([(KAFKA, {"flights": {"0": 90, "1": 40}})], 0),
        ([(KAFKA, KAFKA), (KAFKA, {"flights": {"0": 91, "1": 100}})], 1),
        ([(KAFKA, {"flights": {"0": 100}})], None),
        ([(KAFKA, KAFKA), ({"logOffset": 3}, None)], None),
        ([({"logOffset": 3}, {"logOffset": 9})], None),
        ([(7, 9)], None),
        ([], None),
    ],
    ids=["behind", "reset", "two sources", "fewer partitions", "one tells", "files", "seconds", "no source"],
)
def test_backlog_is_reported_by_offsets_that_count_rows(
    offsets: Sequence[tuple[Any, Any]], backlog: int | None
) -> None:
    following = Following()
    following.update(progress(0, rows=17, offsets=offsets))
    report = following.counter.report
    assert report is not None
    assert report.backlog == backlog
    assert report.batch_rows == 17


def test_event_time_delay_is_the_age_of_the_newest_event_at_the_trigger():
    query = Following()
    newest = progress(0)
    newest.eventTime.update({"max": "2025-12-31T23:59:30.500Z", "watermark": "2025-12-31T23:59:00.000Z"})
    query.update(newest)
    assert query.counter.report is not None
    assert query.counter.report.event_time_delay_s == 29.5
    query.update(progress(1, watermark="2025-12-31T23:59:20.500Z"))
    assert query.counter.report.event_time_delay_s is None


def test_latency_is_that_of_the_newest_batch_with_rows():
    query = Following()
    measured, without_rows = progress(0), progress(1, rows=0)
    measured.observedMetrics[METRIC] = Row(rows=3, percentiles=[9, 51, 71], max=72)
    without_rows.observedMetrics[METRIC] = Row(rows=0, percentiles=None, max=None)
    for batch in (measured, without_rows, progress(2, rows=0)):
        query.update(batch)
    assert query.counter.report is not None
    assert query.counter.report.latency == LatencyReport(rows=3, p50_ms=9, p95_ms=51, p99_ms=71, max_ms=72)


def test_each_source_of_the_newest_batch_is_reported():
    query = Following()
    query.update(progress(0, offsets=[('{"a": {"0": 1}}', '{"a": {"0": 3}}'), ('{"logOffset": 4}', None)]))
    assert query.counter.report is not None
    assert [source.lag_rows for source in query.counter.report.sources] == [2, None]
    assert query.counter.report.backlog is None


@pytest.mark.parametrize(
    ("description", "sink"),
    [
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@6d1f", "KafkaTable"),
        ("FileSink[s3a://key:secret@bucket/out]", "FileSink"),
        ("ForeachBatchSink", "ForeachBatchSink"),
        ("", None),
    ],
)
def test_sink_is_known_by_its_kind(description: str, sink: str | None):
    query = Following()
    first = progress(0)
    first.sink["description"] = description
    query.update(first)
    assert query.report.sink == sink


@pytest.mark.parametrize(
    ("rate", "rows", "known"),
    [(12.3456, 10, 12.346), (0.0, 0, 0.0), (0.0, 10, None), (math.inf, 10, None), (math.nan, 0, None)],
)
def test_input_rate_is_unknown_in_the_first_trigger_and_if_it_is_no_number(
    rate: float, rows: int, known: float | None
) -> None:
    batch = progress(0, rows)
    batch["inputRowsPerSecond"] = rate
    metrics = ProgressCounter()
    metrics.begin("q", None)
    metrics.update(batch, lambda: [batch])
    assert metrics.report is not None
    assert metrics.report.input_rate == known
