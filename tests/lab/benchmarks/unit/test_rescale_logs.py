"""The logs of Spark and Flink, as the rescale benchmark reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.lab.benchmarks.rescale.flink.flink_log import JobLog, SinkFiles
from tests.lab.benchmarks.rescale.measurements import (
    Batch,
    Order,
    Span,
)
from tests.lab.benchmarks.rescale.spark.spark_log import (
    Effect,
    Events,
    executors_changed,
    files_logged,
    query_restarted,
    seen,
)
from tests.lab.benchmarks.unit.rescale_results import BATCHES

ORDER = Order(slots=2, window=Span(begin=10, end=20), steady=Span(begin=20, end=30))


def progress(number: int, start: str | None, **durations: int) -> str:
    progress = {
        "runId": "r",
        "batchId": number,
        "timestamp": "1970-01-01T00:00:05.500Z",
        "durationMs": durations,
        "sources": [{"startOffset": start, "endOffset": '{"logOffset":3}'}],
    }
    kind = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return json.dumps({"Event": kind, "progress": progress})


def task(executor: str, at: int, failed: bool = False) -> str:
    info = {"Executor ID": executor, "Launch Time": at, "Failed": failed}
    return json.dumps({"Event": "SparkListenerTaskEnd", "Stage ID": 1, "Task Info": info})


def test_event_log_reports_batches_executors_and_their_first_tasks():
    events = Events()
    events.take(
        "app",
        [
            json.dumps({"Event": "SparkListenerExecutorAdded", "Timestamp": 1000, "Executor ID": "1"}),
            task("1", 3000, failed=True),
            task("1", 2000),
            progress(7, '{"logOffset":1}', addBatch=10, triggerExecution=250),
            progress(8, None, triggerExecution=5),
            json.dumps({"Event": "SparkListenerJobEnd"}),
            json.dumps({"Event": "SparkListenerExecutorRemoved", "Timestamp": 9000, "Executor ID": "1"}),
            '{"Event":"SparkListenerTaskEnd","Stage',
        ],
    )
    assert (events.added, events.used, events.removed) == ({"app/1": 1.0}, {"app/1": 2.0}, {"app/1": 9.0})
    assert events.failed_tasks == 1
    assert events.batches == [Batch(run="r", number=7, span=Span(begin=5.5, end=5.75), logged=(1, 3))]


def test_a_query_that_was_restarted_was_dead_until_its_first_batch_and_the_executors_that_came_before_are_its_slots():
    events = Events(batches=BATCHES, added={"a/1": 5.0, "b/1": 12.0, "b/2": 14.5})
    assert query_restarted(events, ORDER) == Effect(dead_s=1.0, there=12.0, begun=14)
    kept = Events(batches=BATCHES, added={"a/1": 5.0})
    assert query_restarted(kept, ORDER).there == ORDER.window.begin


def test_executors_take_effect_with_their_first_task_or_with_the_first_batch_without_them():
    grown = Events(batches=BATCHES, added={"a/1": 5.0, "a/2": 12.0}, used={"a/1": 6.0, "a/2": 14.2})
    assert executors_changed(grown, ORDER) == Effect(dead_s=1.0, there=12.0, begun=14.2)
    shrunk = Events(batches=BATCHES, removed={"a/2": 11.2})
    assert executors_changed(shrunk, ORDER) == Effect(dead_s=1.0, there=11.2, begun=11.5)
    slow_to_end = Events(batches=BATCHES, removed={"a/2": 22.5})
    assert executors_changed(slow_to_end, ORDER) == Effect(dead_s=1.0, there=22.5, begun=23)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (Events(batches=BATCHES), "no executor came or went"),
        (Events(batches=BATCHES, added={"a/2": 12.0}), "nothing ran on the new slots"),
        (Events(batches=BATCHES[:2], removed={"a/2": 19.0}), "nothing ran on the new slots"),
    ],
)
def test_executors_that_did_not_change_or_were_not_used_are_no_rescale(events, message):
    with pytest.raises(ValueError, match=message):
        executors_changed(events, ORDER)


def test_a_file_was_seen_when_the_batch_that_read_it_was_committed():
    logged = files_logged(
        ["v1", '{"path":"file:///in/000012.csv","batchId":2}', '{"path":"file:///in/seed3.csv","batchId":0}']
    )
    assert logged == {12: 2}
    ahead = Batch(run="r", number=9, span=Span(begin=1, end=2), logged=(-1, 1))
    behind = Batch(run="r", number=10, span=Span(begin=3, end=4), logged=(1, 2))
    assert seen([ahead, behind], {12: 2, 13: 5}) == {12: 4}


def log_line(at: str, what: str) -> str:
    return f"1970-01-01 00:00:{at} INFO  org.apache.flink.runtime [] - {what}"


def test_jobmanager_reports_when_tasks_stood_still_and_checkpoints():
    log = JobLog()
    log.take(
        [
            log_line("12,000", "Source: records[1] (1/2) (a_0_0) switched from RUNNING to CANCELING."),
            log_line("12,100", "end: Writer (1/1) (a_0_0) switched from RUNNING to CANCELING."),
            log_line("13,500", "Source: records[1] (1/1) (a_0_1) switched from INITIALIZING to RUNNING."),
            log_line("13,750", "end: Writer (1/1) (a_0_1) switched from INITIALIZING to RUNNING."),
            log_line("13,800", "Job counts (51f3) switched from state CREATED to RUNNING."),
            "\tat java.lang.Thread.run",
            *(
                log_line(f"{second},000", f"Completed checkpoint {second} for job 51f3 (1 bytes)")
                for second in (19, 21, 24)
            ),
        ]
    )
    assert log.stood(ORDER) == (12.0, 13.75)
    assert log.period([ORDER]) == 3.0
    with pytest.raises(ValueError, match="no task"):
        log.stood(replace(ORDER, window=ORDER.steady))
    with pytest.raises(ValueError, match="no two checkpoints"):
        JobLog().period([ORDER])


def test_files_of_the_sink_give_counts_rows_and_when_they_could_be_seen(tmp_path):
    sink = SinkFiles()
    sink.take("1,1,0\n1,2,1\n", 5.0)
    sink.take("1,2,1\n2,1,1\n", 7.0)
    assert (sink.highest, sink.rows) == ({1: 2, 2: 1}, {1: 3, 2: 1})
    assert sink.seen == {0: 5.0, 1: 7.0}

    (tmp_path / "part-0-0").write_text("3,1,2\n")
    (tmp_path / ".part-0-1.inprogress").write_text("3,2,2\n")
    sink.read(tmp_path)
    sink.read(tmp_path)
    assert sink.rows[3] == 1
