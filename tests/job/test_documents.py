from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive.job.documents import (
    Action,
    DocumentError,
    DriverState,
    ExecutorReport,
    FailureReport,
    LogDocument,
    QueryReport,
    Status,
    decode_log,
    decode_status,
    encode_log,
    encode_status,
    log_name,
    log_number,
)
from tests.job.fakes import directive, plan

DOCUMENT = LogDocument(
    job="j", number=4, at="t", owner="o", directive=directive(Action.RUN, 2, plan(3)), scheduler={"state": "x"}
)
STATUS = Status(
    job="j",
    epoch=3,
    nonce="n",
    sequence=9,
    at="t",
    state=DriverState.FAILED,
    version=2,
    parallelism={"read": 3},
    executors=(ExecutorReport(executor_id="0", cores=2, worker="http://w:8081"),),
    queries=(QueryReport(name="j", active=False, batch_id=7, committed=8, watermark="w"),),
    failure=FailureReport(error_class="E", message="m", causes=("A", "B")),
)


def test_documents_survive_the_journey():
    assert decode_log(encode_log(DOCUMENT)) == DOCUMENT
    assert decode_status(encode_status(STATUS)) == STATUS


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "3"},
        {"version": -1},
        {"version": True},
        {"action": "dance"},
        {"plan": {"parallelism": {"read": 1.5}, "executors": 1, "state_partitions": 1}},
        {"plan": {"parallelism": ["read"], "executors": 1, "state_partitions": 1}},
        {"plan": {"parallelism": {}, "executors": None, "state_partitions": 1}},
        {"plan": {"parallelism": {}}},
        {"plan": 5},
    ],
)
def test_a_directive_that_makes_no_sense_is_not_trusted(change: dict[str, Any]):
    fields = json.loads(encode_log(DOCUMENT))
    fields["directive"].update(change)
    with pytest.raises(DocumentError):
        decode_log(json.dumps(fields).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", encode_log(DOCUMENT)[:-5], encode_status(STATUS)])
def test_what_is_no_log_document_is_not_trusted(data: bytes):
    with pytest.raises(DocumentError):
        decode_log(data)


def test_names_of_log_documents_sort_like_their_numbers():
    assert log_name(42) == "0000000042.json"
    assert log_number(log_name(42)) == 42
    assert [log_number(name) for name in ("42.json", "0000000042.json.crc", ".0000000042.json", "x")] == [None] * 4
