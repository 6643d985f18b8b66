"""The published summary, as other tasks and triggers decode it. The state store can contain anything."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._airflow.process.published_summary import decode_summary
from airflow_adaptive._core.view import SUMMARY
from tests.support.airflow.published_documents import canceled, executing, published


def test_summary_that_a_loop_has_published_is_decoded() -> None:
    summary = decode_summary(published(executing())[SUMMARY])
    assert summary is not None
    assert (summary.state, summary.status, summary.outcome, summary.parallelism) == ("Executing",) * 2 + (
        None,
        {"job": 2},
    )
    assert (summary.vertices, summary.restarts, summary.rescales, summary.attempt) == (("job",), 0, 0, "attempt")
    assert summary.last_transition_reason == "the driver has activated the plan"


def test_status_of_a_job_that_has_ended_is_its_outcome() -> None:
    summary = decode_summary(published(canceled())[SUMMARY])
    assert summary is not None
    assert (summary.state, summary.status) == ("Finished", "CANCELED")


@pytest.mark.parametrize(
    "document",
    [
        None,
        "x",
        [],
        {},
        {"state": 7},
        {"state": "Executing", "rescales": "many"},
        {"state": "Executing", "parallelism": {"job": "two"}},
        {"state": "Executing", "requirements": 5},
        {"state": "Executing", "last_transition": "soon"},
    ],
    ids=repr,
)
def test_document_with_another_structure_is_no_summary(document: Any) -> None:
    assert decode_summary(document) is None
