"""The documents of the job directory: whole after a round trip, refused when they are damaged, and what they derive."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from airflow_adaptive._core.protocol import documents
from airflow_adaptive._core.protocol.documents import (
    FORMATS,
    NONE,
    TASKS,
    Action,
    DocumentError,
    DriverPlan,
    DriverState,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    JournalDocument,
    LatencyReport,
    QueryReport,
    RescaleDocument,
    decode_document,
    encode_document,
    journal_name,
    journal_number,
    newest_common_format,
)
from airflow_adaptive._core.protocol.sources import KafkaSource, PartitionLag, SourceReport, TopicReport
from tests.support.driver.simulated_driver import directive, plan

KNOWN = SourceReport(kind="KafkaV2", lag_rows=3, lag_s=2.0)
OTHER = SourceReport(kind="KafkaV2", lag_rows=4, lag_s=9.0)
UNKNOWN = SourceReport(kind="KafkaV2", is_lag_unknown=True)
UNCOUNTED = SourceReport(kind="FileStreamSource")


def report(*sources: SourceReport) -> QueryReport:
    return QueryReport(name="q", active=True, backlog=1, sources=sources)


def test_unread_rows_of_a_query_are_those_of_all_its_sources() -> None:
    assert report(KNOWN, OTHER).unread_rows == 7
    assert report(KNOWN, SourceReport(kind="RateStreamV2")).unread_rows == 1


@pytest.mark.parametrize("source", [UNKNOWN, UNCOUNTED])
def test_unread_rows_are_unknown_while_one_source_does_not_know_its_own(source: SourceReport) -> None:
    assert report(KNOWN, source).unread_rows is None


FORMAT = FORMATS[-1]
MAX_MESSAGE = 500
NESTED: Any = [{}]
for _ in range(400):
    NESTED = [NESTED]
PLAN = replace(plan(3), retained_executors=5, load_balance_mode=TASKS, remaining_per_worker={"http://w:8081": 2})
DOCUMENT = JournalDocument(
    job="j", number=4, at="t", owner="o", directive=directive(Action.RUN, 2, PLAN), scheduler={"state": "x"}
)
STATUS = DriverStatus(
    job="j",
    epoch=3,
    nonce="n",
    sequence=9,
    at="t",
    state=DriverState.FAILED,
    version=2,
    parallelism={"read": 3},
    executors=(ExecutorReport(executor_id="0", cores=2, worker="http://w:8081"),),
    queries=(
        QueryReport(
            name="j",
            active=False,
            batch_id=7,
            committed=8,
            watermark="w",
            trigger_interval_ms=500,
            event_time_delay_s=1.5,
            sources=(
                SourceReport(
                    kind="KafkaV2",
                    partitions=2,
                    lag_rows=3,
                    skew=2.0,
                    worst_partition="t-1",
                    lag_s=4.5,
                    is_lag_minimum=True,
                    partition_lags=(PartitionLag(partition="t-1", rows=3, seconds=4.5),),
                    kafka=KafkaSource(cluster="x", pattern="t.*", committed=True),
                    topics={
                        "t": TopicReport(position={"0": 7, "1": 0}, lag_rows=3, lag_s=4.5, retention_s=3600.0),
                        "t2": TopicReport(),
                    },
                ),
            ),
            sink="KafkaTable",
            latency=LatencyReport(rows=3, p50_ms=9, p95_ms=51, p99_ms=71, max_ms=72),
        ),
    ),
    failure=FailureReport(error_class="E", message="m", causes=("A", "B")),
    downtime_ms=120,
)


def test_documents_are_equal_after_encoding_and_decoding():
    assert decode_document(JournalDocument, encode_document(DOCUMENT)) == DOCUMENT
    assert decode_document(DriverStatus, encode_document(STATUS)) == STATUS


def test_a_status_of_a_driver_without_reports_of_sources_is_read():
    fields = json.loads(encode_document(STATUS))
    del fields["queries"][0]["sources"], fields["queries"][0]["event_time_delay_s"]
    query = decode_document(DriverStatus, json.dumps(fields).encode()).queries[0]
    assert query == replace(STATUS.queries[0], sources=(), event_time_delay_s=None)


@pytest.mark.parametrize("change", [{"version": -1}, {"action": "dance"}, {"plan": {"parallelism": {}}}])
def test_an_invalid_directive_is_rejected(change: dict[str, Any]):
    fields = json.loads(encode_document(DOCUMENT))
    fields["directive"].update(change)
    with pytest.raises(DocumentError):
        decode_document(JournalDocument, json.dumps(fields).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        encode_document(DOCUMENT)[:-5],
        encode_document(STATUS),
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
def test_an_invalid_journal_document_is_rejected(data: bytes):
    with pytest.raises(DocumentError) as caught:
        decode_document(JournalDocument, data)
    assert len(str(caught.value)) < MAX_MESSAGE


@pytest.mark.parametrize("value", [None, "x", 1, -1.5, True, [], {}, [[]], [1], {"a": 1}, {"a": {"b": [None]}}, NESTED])
@pytest.mark.parametrize(
    "original",
    [DOCUMENT, STATUS],
)
def test_a_document_with_any_wrong_value_is_rejected_or_has_values_of_its_types(
    original: JournalDocument | DriverStatus, value: Any
):
    for path in _paths(json.loads(encode_document(original))):
        damaged = json.loads(encode_document(original))
        _place(damaged, path, value)
        try:
            document = decode_document(type(original), json.dumps(damaged).encode())
        except DocumentError as error:
            assert len(str(error)) < MAX_MESSAGE  # noqa: PT017
        else:
            _check_types(document)


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _place(node: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


def _check_types(document: Any) -> None:
    for name, hint in get_type_hints(type(document)).items():
        value, allowed = getattr(document, name), get_args(hint) if get_origin(hint) is UnionType else (hint,)
        kinds = {get_origin(kind) or kind for kind in allowed}
        if kinds & {float, int}:  # metrics may be any numbers
            kinds |= {float, int}
        assert any(isinstance(value, kind) for kind in kinds), name
        assert type(value) is not bool or bool in kinds, name
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item):
                _check_types(item)


def test_a_document_is_written_in_the_format_that_it_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "FORMATS", (FORMAT, FORMAT + 1))
    newer = replace(DOCUMENT, format=FORMAT + 1)
    data = encode_document(newer)
    assert json.loads(data)["format"] == FORMAT + 1
    assert decode_document(JournalDocument, data) == newer


def test_documents_without_a_format_of_their_own_are_written_in_the_oldest_format(monkeypatch: pytest.MonkeyPatch):
    """Loops of the previous version read them during an upgrade."""
    monkeypatch.setattr(documents, "FORMATS", (FORMAT, FORMAT + 1))
    rescale = RescaleDocument(job="j", number=1, rescale={})
    assert [json.loads(data)["format"] for data in (encode_document(STATUS), encode_document(rescale))] == [
        FORMAT,
        FORMAT,
    ]


@pytest.mark.parametrize(("formats", "newest"), [((), None), ((1,), 1), ((1, 2), 2), ((2, 3), 2), ((3,), None)])
def test_the_format_for_a_driver_is_the_newest_that_both_sides_know(
    monkeypatch: pytest.MonkeyPatch, formats: tuple[int, ...], newest: int | None
):
    monkeypatch.setattr(documents, "FORMATS", (1, 2))
    assert newest_common_format(formats) == newest


def test_names_of_journal_documents_sort_like_their_numbers():
    assert journal_name(42) == "0000000042.json"
    assert journal_number(journal_name(42)) == 42
    assert [journal_number(name) for name in ("42.json", "0000000042.json.crc", ".0000000042.json", "x")] == [None] * 4


def test_plan_with_required_fields_only_retains_no_surplus_executors_and_balances_nothing():
    fields = json.loads(encode_document(DOCUMENT))
    fields["directive"]["plan"] = {"parallelism": {"read": 3}, "executors": 3, "state_partitions": {"j": 4}}
    read = decode_document(JournalDocument, json.dumps(fields).encode()).directive.plan
    assert read == DriverPlan(parallelism={"read": 3}, executors=3, state_partitions={"j": 4})
    assert (read.query_version, read.repartition) == (0, False)
    assert (read.executor_limit, read.load_balance_mode, read.remaining_per_worker) == (3, NONE, {})


@pytest.mark.parametrize(("retained", "limit"), [(0, 3), (2, 3), (5, 5)])
def test_a_plan_retains_at_least_its_executors(retained: int, limit: int):
    assert replace(plan(3), retained_executors=retained).executor_limit == limit


def test_query_has_the_state_partitions_of_its_group_or_the_maximum():
    several = replace(plan(3), state_partitions={"flights": 4, "weather": 8})
    assert [several.partitions_of(name) for name in ("flights", "weather", "departures")] == [4, 8, 8]


@pytest.mark.parametrize("field", ["parallelism", "state_partitions", "pool_weights", "remaining_per_worker"])
@pytest.mark.parametrize("value", [None, [1], {"read": "3"}, {"read": -1}, {"read": True}])
def test_plan_with_values_other_than_counts_is_rejected(field: str, value: object):
    fields = json.loads(encode_document(DOCUMENT))
    fields["directive"]["plan"][field] = value
    with pytest.raises(DocumentError, match="DriverPlan"):
        decode_document(JournalDocument, json.dumps(fields).encode())


def test_rate_may_be_any_number_that_spark_reports():
    query = replace(STATUS.queries[0], input_rate=math.nan)
    (read,) = decode_document(DriverStatus, encode_document(replace(STATUS, queries=(query,)))).queries
    assert read.input_rate is not None
    assert math.isnan(read.input_rate)
