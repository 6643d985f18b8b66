"""The past of a job as encoded records that fit into the limits of the stores, oldest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Reversible
from typing import Any

from airflow_adaptive.runtime.journal.history import JobHistory
from airflow_adaptive.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive.scheduler.snapshot import encode
from airflow_adaptive.scheduler.timeline import Rescale, Transition

MAX_RESCALES = 20
"""Newest rescales without per-vertex details."""

DECISION_BYTES = 6 << 10
RESCALE_BYTES = 16 << 10
"""Size of the published records, as JSON: all XComs of a job must fit into 64 KiB, the limit of some backends."""

ALL_RESCALE_BYTES = 48 << 10
"""Size of the rescales with per-vertex details, which have a document of their own."""

ITEM_BYTES = 4 << 10
"""Larger records are published without per-vertex details; the history document keeps them."""

MAX_TEXT_CHARACTERS = 300
"""Longer reasons are cut."""


def transition_record(transition: Transition) -> dict[str, Any]:
    """Return a state transition, encoded."""
    return _brief(encode(transition), before=None, after=None)


def decision_records(history: JobHistory) -> list[dict[str, Any]]:
    """Return the newest decisions, encoded."""
    return newest_within(history.decisions, DECISION_BYTES, lambda decision: _brief(encode(decision)))


def rescale_record(rescale: Rescale) -> dict[str, Any]:
    """Return a rescale, encoded; a large one without its per-vertex details."""
    return _brief(encode(rescale), vertices=None, groups=None)


def rescale_records(history: JobHistory) -> list[dict[str, Any]]:
    """Return the newest rescales, encoded; large ones without their per-vertex details."""
    return newest_within(history.rescales[-MAX_RESCALES:], RESCALE_BYTES, rescale_record)


def all_rescale_records(history: JobHistory) -> list[dict[str, Any]]:
    """Return the rescales with their per-vertex details, encoded."""
    return newest_within(history.rescales, ALL_RESCALE_BYTES, encode)


def failure_record(record: FailureRecord) -> dict[str, Any]:
    """Return a failure, encoded; each failure is one line."""
    concurrent = [failure.summary for failure in record.concurrent]
    return {**encode(record), "failure": record.failure.summary, "concurrent": concurrent}


def newest_within(items: Reversible[Any], max_bytes: int, encoded: Callable[[Any], Any]) -> list[Any]:
    """Return the newest items whose encoded forms fit into a size.

    The function runs with every publication, and most of a long past does not fit: it encodes at most one item too many.

    Args:
        items: the newest last.
        max_bytes: size of the result, as JSON.
        encoded: gives the JSON-able form of an item.

    Returns:
        the newest last.
    """
    newest: list[Any] = []
    for item in map(encoded, reversed(items)):
        max_bytes -= len(json.dumps(item)) + 2
        if max_bytes < 0:
            break
        newest.append(item)
    return newest[::-1]


def _brief(record: Mapping[str, Any], **replacements: Any) -> dict[str, Any]:
    """Return the record with short texts, and with the replacements if the record is too large."""
    short = {key: it[:MAX_TEXT_CHARACTERS] if isinstance(it, str) else it for key, it in record.items()}
    return short if len(json.dumps(short)) <= ITEM_BYTES else short | replacements
