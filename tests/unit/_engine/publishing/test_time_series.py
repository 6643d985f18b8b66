"""The metrics of a job over time keep their resolution and their meaning over loops, drivers and years."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, ExecutorLoad, QueryReport
from airflow_adaptive._core.protocol.sources import FILES, SourceReport
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import DRIVER, MAX_VALUE_BYTES
from airflow_adaptive._engine.observation.source_lag import SourceLag
from airflow_adaptive._engine.publishing.time_series import COLUMNS, RESOLUTIONS, JobMetrics, lag_trend
from tests.lab.scenario import Scenario

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def running() -> SchedulerState:
    job = Scenario()
    job.given_executing(2)
    return job.state


def report(rows: int, nonce: str = "first", backlog: int | None = None, batch_ms: int = 500) -> DriverStatus:
    query = QueryReport(
        name="q", active=True, input_rows=rows, batch_rows=100, batch_duration_ms=batch_ms, backlog=backlog
    )
    return DriverStatus(job="job", epoch=1, nonce=nonce, sequence=1, at="", state=DriverState.RUNNING, queries=(query,))


def points(changed: Mapping[str, Any] | None, step: int = 10) -> list[dict[str, Any]]:
    assert changed is not None
    page = changed[f"metrics/{step}"]
    assert (page["step"], page["newest"]) == (step, page["points"][-1])
    return [dict(zip(page["columns"], point, strict=True)) for point in page["points"]]


def watched(
    metrics: JobMetrics, state: SchedulerState, seconds: int, every: int = 2, rows_per_s: int = 50, begin: int = 0
) -> list[Any]:
    documents = []
    for second in range(begin, begin + seconds, every):
        metrics.record(state, report(rows_per_s * second), SourceLag(), START + timedelta(seconds=second))
        documents.append(metrics.changed_documents())
    return [changed for changed in documents if changed is not None]


def test_rows_are_counted_per_second_whenever_the_loop_polls(running: SchedulerState) -> None:
    changed = watched(JobMetrics(), running, 31)
    assert len(changed) == 4, "once in each step"
    first, *others = points(changed[-1])
    assert all(point["input"] == 50 for point in others)
    assert {point["processed"] for point in (first, *others)} == {200.0}
    assert first["slots"] == 2
    assert (first["lower"], first["upper"]) == (1, 4)
    assert first["state"] == "Executing"


def test_new_driver_that_counts_from_zero_gives_no_wild_rate(running: SchedulerState) -> None:
    metrics = JobMetrics()
    metrics.record(running, report(1_000_000), SourceLag(), START)
    metrics.record(running, report(10, nonce="second"), SourceLag(), START + timedelta(seconds=10))
    metrics.record(running, report(5, nonce="second"), SourceLag(), START + timedelta(seconds=20))
    assert [point["input"] for point in points(metrics.changed_documents())] == [None, None, None]


def test_job_without_a_driver_has_bounds_and_a_state_but_no_metrics(running: SchedulerState) -> None:
    metrics = JobMetrics()
    metrics.record(Scenario().state, None, SourceLag(), START)
    changed = metrics.changed_documents()
    (point,) = points(changed)
    assert point["slots"] == 0
    assert [point[name] for name in ("input", "processed", "batch_ms", "backlog")] == [None] * 4
    assert changed is not None
    assert changed[DRIVER] == {}


def test_lag_of_a_step_is_the_worst_lag_of_all_queries(running: SchedulerState) -> None:
    metrics, waiting = JobMetrics(), report(0, backlog=1).queries[0]
    for second, lags in enumerate([(None,), (4.5, 61.0), (2.0,)]):
        sources = tuple(SourceReport(kind="KafkaV2", lag_rows=3) for _ in lags)
        status = replace(report(0), queries=(waiting, replace(waiting, sources=sources)))
        lag = SourceLag(seconds=max((lag for lag in lags if lag is not None), default=None))
        metrics.record(running, status, lag, START + timedelta(seconds=second))
    (step,) = points(metrics.changed_documents())
    assert (step["lag_s"], step["backlog"]) == (61.0, 7)


def test_backlog_is_the_newest_count_of_the_rows(running: SchedulerState) -> None:
    """The driver is frozen, and the loop polls the brokers."""
    metrics = JobMetrics()
    metrics.record(running, report(0, backlog=5), SourceLag(rows=90, seconds=30.0), START)
    (step,) = points(metrics.changed_documents())
    assert (step["lag_s"], step["backlog"]) == (30.0, 90)


def test_backlog_is_unknown_while_a_query_cannot_count_its_rows(running: SchedulerState) -> None:
    metrics, waiting = JobMetrics(), report(0, backlog=5).queries[0]
    failing = replace(waiting, sources=(SourceReport(kind="KafkaV2", is_lag_unknown=True),))
    metrics.record(running, replace(report(0), queries=(waiting, failing)), SourceLag(), START)
    (step,) = points(metrics.changed_documents())
    assert step["backlog"] is None


@pytest.mark.parametrize(
    ("unread", "waiting"), [((3, 0, 4), (7, 5)), ((3, None), (None, None)), ((), (None, 5))], ids=str
)
def test_backlog_is_known_if_each_source_knows_its_own(
    running: SchedulerState, unread: Sequence[int | None], waiting: tuple[int | None, int | None]
) -> None:
    kafka, commits = SourceReport(kind="KafkaV2", lag_rows=5), SourceReport(kind="DeltaSource", unread_versions=0)
    sources = [kafka, commits, *(SourceReport(kind=FILES, unread_files=it) for it in unread)]
    queries = [replace(report(0).queries[0], sources=(source,)) for source in sources]
    metrics = JobMetrics()
    metrics.record(running, replace(report(0), queries=tuple(queries)), SourceLag(), START)
    (step,) = points(metrics.changed_documents())
    assert (step["unread_files"], step["backlog"]) == waiting


def test_garbage_collection_is_a_part_of_the_task_time_since_the_last_point(running: SchedulerState) -> None:
    metrics = JobMetrics()
    loads = [
        ExecutorLoad(task_ms=1000, gc_ms=10, peak_heap_bytes=5 << 20),
        ExecutorLoad(task_ms=3000, gc_ms=210),
        ExecutorLoad(task_ms=3000, gc_ms=210),
        ExecutorLoad(task_ms=500, gc_ms=5),
        None,
    ]
    for second, load in enumerate(loads):
        metrics.record(running, replace(report(0), load=load), SourceLag(), START + timedelta(seconds=10 * second))
    found = points(metrics.changed_documents())
    assert [(point["gc"], point["heap_mb"]) for point in found] == [(None, 5), (0.1, None), *[(None, None)] * 3]


def test_without_a_driver_the_lag_is_the_one_at_the_brokers(running: SchedulerState) -> None:
    metrics = JobMetrics()
    metrics.record(running, None, SourceLag(rows=9, seconds=2.5), START)
    (step,) = points(metrics.changed_documents())
    assert (step["lag_s"], step["backlog"], step["input"]) == (2.5, 9, None)


def test_step_shows_the_mean_rate_and_the_worst_of_the_rest(running: SchedulerState) -> None:
    metrics = JobMetrics()
    for second, rows, backlog, batch_ms in ((0, 0, 7, 100), (2, 20, 30, 900), (4, 80, None, 300)):
        metrics.record(
            running, report(rows, backlog=backlog, batch_ms=batch_ms), SourceLag(), START + timedelta(seconds=second)
        )
    metrics.record(running, None, SourceLag(), START + timedelta(seconds=10))
    step, _ = points(metrics.changed_documents())
    assert step["input"] == 20.0, "of 10 and 30: the first look tells nothing"
    assert step["backlog"] == 30
    assert step["batch_ms"] == 900


@pytest.mark.long
def test_pages_stay_small_for_ever_and_each_reaches_as_far_back_as_it_should(running: SchedulerState) -> None:
    metrics = JobMetrics()
    three_days = 3 * 24 * 3600
    days = watched(metrics, running, three_days, every=60, rows_per_s=123_456)
    days += watched(metrics, running, 3600, every=10, rows_per_s=123_456, begin=three_days)
    for step, most in RESOLUTIONS.items():
        newest = next(changed for changed in reversed(days) if f"metrics/{step}" in changed)
        found = points(newest, step)
        assert len(found) == most
        assert found[-1]["at"] - found[0]["at"] == step * (most - 1)
        assert len(json.dumps(newest[f"metrics/{step}"])) < MAX_VALUE_BYTES


def test_next_loop_goes_on_with_the_pages_of_the_one_before(running: SchedulerState) -> None:
    before, after = JobMetrics(), JobMetrics()
    pages: dict[str, Any] = {}
    for changed in watched(before, running, 61):
        pages |= json.loads(json.dumps(changed))
    after.restore(pages)
    after.record(running, None, SourceLag(), START + timedelta(seconds=70))
    changed = after.changed_documents()
    assert [point["at"] for point in points(changed)] == [int(START.timestamp()) + 10 * step for step in range(8)]


def test_pages_that_arrive_late_continue_the_points_that_were_added_meanwhile(running: SchedulerState) -> None:
    """The next loop starts, the store of the published pages answers later, and no point is lost or out of order."""
    before, after = JobMetrics(), JobMetrics()
    pages: dict[str, Any] = {}
    for changed in watched(before, running, 61):
        pages |= json.loads(json.dumps(changed))
    for second in (70, 80):
        after.record(running, None, SourceLag(), START + timedelta(seconds=second))
    after.restore(pages)
    found = [point["at"] for point in points(after.changed_documents())]
    assert found == [int(START.timestamp()) + 10 * step for step in range(9)]


@pytest.mark.parametrize(
    "page",
    [
        {},
        None,
        3,
        "x",
        [],
        {"columns": ["what"], "points": [[1]]},
        {"columns": list(COLUMNS), "points": [[1, 2]]},
        {"columns": list(COLUMNS), "points": 7},
        {"columns": list(COLUMNS), "points": [["noon", 1, 1, 4, 1.0, 1.0, 100, None, "Executing"]]},
        {"columns": list(COLUMNS), "points": [[None] * len(COLUMNS)]},
        {"columns": list(COLUMNS), "points": [[0, 1, 1, 4, "fast", [], {}, "none", 5]]},
    ],
)
def test_page_that_is_not_understood_is_left_out(running: SchedulerState, page: Any) -> None:
    metrics = JobMetrics()
    metrics.restore({"metrics/10": page})
    metrics.record(running, None, SourceLag(), START)
    assert len(points(metrics.changed_documents())) == 1


def test_clock_that_was_set_back_drops_no_point_and_adds_none_twice(running: SchedulerState) -> None:
    metrics = JobMetrics()
    for second in (0, 10, 20, 0, 10, 30):
        metrics.record(running, None, SourceLag(), START + timedelta(seconds=second))
    times = [point["at"] - START.timestamp() for point in points(metrics.changed_documents())]
    assert times == [0, 10, 20, 30]


def test_pages_are_plain_json_as_airflows_store_takes_it(running: SchedulerState) -> None:
    changed = watched(JobMetrics(), running, 31)[-1]
    assert json.loads(json.dumps(changed)) == changed


# ---- the least lag of several batches, and not the height of the sawtooth, tells whether a job falls behind -----------


def trend(
    lag: Callable[[float], float | None], minutes: float = 59, trigger_s: float = 0, batch_s: float = 0
) -> str | None:
    """The trend after so many minutes with a lag, a function of the time in seconds."""
    return lag_trend([(at, lag(at)) for at in range(0, int(minutes * 60), 10)], trigger_s, batch_s)


def sawtooth(period: float, least: float = 2, growth: float = 0) -> Callable[[float], float]:
    """The lag of batches that follow each other after a period; the least lag grows by `growth` per second."""
    return lambda at: max(least + growth * at, 0) + at % period


@pytest.mark.parametrize(
    ("lag", "trigger_s", "batch_s", "expected"),
    [
        # steady: the batches read what arrives, however long they take
        (lambda _: 0, 0, 1, "short"),
        (sawtooth(17), 10, 7, "short"),
        (sawtooth(600, least=90), 600, 80, "short"),
        (sawtooth(95, least=93), 0, 95, "short"),
        (sawtooth(60, least=7200), 60, 30, "steady"),
        # growing: 20 % and 4 % more arrive than the job processes; batches without a limit take longer and longer; a batch does not end
        (sawtooth(60, least=100, growth=0.2), 60, 60, "grows"),
        (sawtooth(60, least=100, growth=0.04), 60, 60, "grows"),
        (lambda at: 60 * 1.3 ** (at // 300), 0, 280, "grows"),
        (lambda at: max(at - 3540 + 300, 5), 60, 5, "grows"),
        (lambda at: max(at - 3540 + 2000, at % 300), 300, 20, "grows"),
        # catching up
        (sawtooth(60, least=7200, growth=-0.5), 60, 55, "shrinks"),
        # a peak that the job has left behind
        (lambda at: 1800 - abs(at - 1800) if at < 3500 else 30, 0, 5, "short"),
        # unknown: now, or for batches that are too long for an hour of points
        (lambda at: None if at > 3500 else 5, 0, 5, None),
        (sawtooth(1300, least=3000), 1300, 100, None),
    ],
)
def test_trend_is_that_of_the_least_lag_of_several_batches(
    lag: Callable[[float], float | None], trigger_s: float, batch_s: float, expected: str | None
) -> None:
    assert trend(lag, trigger_s=trigger_s, batch_s=batch_s) == expected


def test_trend_of_a_long_lag_is_unknown_until_five_minutes_have_passed() -> None:
    behind = sawtooth(20, least=600, growth=0.5)
    assert [trend(behind, minutes) for minutes in (0, 1, 4, 6)] == [None, None, None, "grows"]
    assert trend(sawtooth(20), minutes=1) == "short"


def test_job_whose_lag_was_unknown_meanwhile_is_compared_with_nothing() -> None:
    assert trend(lambda at: 600 if at > 3400 else None) is None
