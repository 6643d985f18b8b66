"""Components of several versions of this package run beside each other during an upgrade. They ignore the fields that they do not know."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest

from airflow_adaptive._airflow.process.loop_events import deployed_spec
from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.protocol.documents import decode_document, encode_document
from airflow_adaptive._core.requirements import control_requests
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import from_json, to_json
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive._web.data.published_state import PublishedState
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.support.airflow.published_documents import executing, published
from tests.unit._core.protocol.test_documents import DOCUMENT, STATUS

JOB = executing().state
SPEC = JobSpec(
    graph=JOB.job, options=JOB.options, directory="file:///jobs", script="s.py", py_files=(), attempt="d/t/r/1"
)
REQUEST = {"value": "suspended", "by": "alice", "via": "REST", "at": "2026-01-31T17:00:00+00:00"}
REQUESTS = {
    "desired_state": REQUEST,
    "requirements": {**REQUEST, "value": {"job": {"parallelism": {"lowerBound": 1, "upperBound": 2}}}},
    "handled_requests": {"requests": [], "is_running": False, "end": {"outcome": "FINISHED"}, "retried": "d/t/r"},
}


def of_trigger(arguments: Mapping[str, Any]) -> Any:
    trigger = AdaptiveJobTrigger(**arguments)
    return trigger._job


def of_file(kind: type[Any], document: Mapping[str, Any]) -> Any:
    return decode_document(kind, json.dumps(document).encode())


def of_page(documents: Mapping[str, Any]) -> Any:
    state = PublishedState(documents, {})
    return state.summary, state.state, state.driver_status, state.policy, state.current_metrics, state.transitions


def of_requests(documents: Mapping[str, Any]) -> Any:
    rules = (control_requests.decode_desired_state, control_requests.reported_end, control_requests.retried_task)
    return control_requests.decode(documents), [rule(documents) for rule in rules]


def from_later_version(document: Any) -> Any:
    """Add an unknown field to a document, and to each object in it that has a type or is a document itself."""
    if isinstance(document, list):
        return [from_later_version(item) for item in document]
    if not isinstance(document, dict):
        return document
    found = {name: from_later_version(value) for name, value in document.items()}
    is_object = not document.keys().isdisjoint({"type", "kind", "since", "spark", "dag_id", "at", "is_running"})
    return {**found, "of_a_later_version": {"x": [1]}} if is_object else found


@pytest.mark.parametrize(
    ("document", "read"),
    [
        *((json.loads(encode_document(it)), partial(of_file, type(it))) for it in (DOCUMENT, STATUS)),
        (to_json(JOB), from_json),
        (encode(SPEC), deployed_spec),
        (
            {
                "spec": encode(SPEC),
                "connections": asdict(ConnectionIds("spark")),
                "base": "file:///jobs",
                "task_key": asdict(TaskKey(dag_id="d", task_id="t", run_id="r")),
            },
            of_trigger,
        ),
        (published(executing()), of_page),
        (REQUESTS, of_requests),
    ],
    ids=["journal", "driver status", "scheduler", "deployed job", "trigger", "page", "requests"],
)
def test_unknown_field_changes_nothing(document: Any, read: Callable[[Any], Any]) -> None:
    document = json.loads(json.dumps(document))
    later = from_later_version(document)
    assert json.dumps(later) != json.dumps(document)
    assert read(later) == read(document)


def test_state_of_a_later_version_is_displayed_as_unknown() -> None:
    documents = published(executing())
    documents["summary"] = {**documents["summary"], "state": "OfALaterVersion"}
    assert PublishedState(documents, {}).summary.state == "unknown"


def test_journal_with_a_state_of_a_later_version_is_refused() -> None:
    """A loop that guessed would start a second driver."""
    document = to_json(JOB)
    with pytest.raises(SnapshotError, match="OfALaterVersion"):
        from_json({**document, "current": {**document["current"], "type": "OfALaterVersion"}})
