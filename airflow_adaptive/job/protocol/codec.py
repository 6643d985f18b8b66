"""Converts the documents of the job directory to bytes and back: JSON objects with a kind and a format version.

Readers validate each document, because another process may have written it only in part, or a different program may
have written it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TypeVar

from airflow_adaptive.job.protocol.documents import (
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    JournalDocument,
    QueryReport,
    RescaleDocument,
)

FORMAT = 1
"""Version of the document format. A reader rejects a newer version."""

MAX_DOCUMENT_BYTES = 1 << 20
"""Maximum size of a document in bytes. Readers report and skip a larger document."""

JOURNAL_KIND = "airflow-adaptive/journal"
STATUS_KIND = "airflow-adaptive/status"
RESCALE_KIND = "airflow-adaptive/rescale"

ENCODING = "utf-8"


class DocumentError(ValueError):
    """A document is incomplete, too large, from another program or of a newer format.

    The reader must not use its content.
    """


class NewerFormatError(DocumentError):
    """A newer version of airflow-adaptive wrote the document.

    The document is valid, but this version cannot read it.
    """


def journal_name(number: int) -> str:
    """Return the file name of journal document `number`. File names sort in the order of the numbers."""
    return f"{number:010d}.json"


def journal_number(name: str) -> int | None:
    """Return the number of the journal document with this file name, or None for any other file name."""
    stem, dot, suffix = name.partition(".")
    return int(stem) if dot and suffix == "json" and len(stem) == 10 and stem.isdecimal() else None  # noqa: PLR2004


def encode_journal(document: JournalDocument) -> bytes:
    """Encode a journal document."""
    return _encode(JOURNAL_KIND, asdict(document))


def encode_rescale(document: RescaleDocument) -> bytes:
    """Encode a rescale document."""
    return _encode(RESCALE_KIND, asdict(document))


def encode_status(status: DriverStatus) -> bytes:
    """Encode a driver status."""
    return _encode(STATUS_KIND, asdict(status))


def decode_journal(data: bytes) -> JournalDocument:
    """Decode a journal document.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    fields = _decode(JOURNAL_KIND, data)
    return _build(JournalDocument, {**fields, "directive": _directive(fields.get("directive"))})


def decode_rescale(data: bytes) -> RescaleDocument:
    """Decode a rescale document.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    return _build(RescaleDocument, _decode(RESCALE_KIND, data))


def decode_status(data: bytes) -> DriverStatus:
    """Decode a driver status.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    fields = _decode(STATUS_KIND, data)
    status = _build(DriverStatus, {**fields, **_status_parts(fields)})
    _require_counts("Status", status.epoch, status.sequence, status.version, status.rejected_version)
    _require_numbers("Status", status.downtime_ms or 0)
    return status


def _encode(kind: str, fields: dict[str, Any]) -> bytes:
    return json.dumps({"kind": kind, "format": FORMAT, **fields}, separators=(",", ":")).encode(ENCODING)


def _decode(kind: str, data: bytes) -> dict[str, Any]:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"document of {len(data)} bytes is larger than {MAX_DOCUMENT_BYTES}")
    try:
        fields = json.loads(data.decode(ENCODING))
    except ValueError as error:
        raise DocumentError(f"not JSON, or half-written: {error}") from error
    if not isinstance(fields, dict) or fields.pop("kind", None) != kind:
        raise DocumentError(f"not a document of kind {kind!r}")
    written = fields.pop("format", None)
    if not isinstance(written, int):
        raise DocumentError(f"format {written!r} is not a number")
    if written > FORMAT:
        raise NewerFormatError(f"format {written} is newer than {FORMAT}: upgrade airflow-adaptive on this side")
    return fields


Document = TypeVar("Document")


def _build(document: type[Document], fields: Any) -> Document:
    try:
        known = {name: fields[name] for name in document.__dataclass_fields__ if name in fields}  # type: ignore[attr-defined]
        return document(**known)
    except (TypeError, ValueError, AttributeError) as error:
        raise DocumentError(f"{document.__name__}: {error}") from error


def _directive(value: Any) -> Directive:
    if not isinstance(value, dict):
        raise DocumentError("Directive: missing")
    try:
        action = Action(str(value.get("action")))
    except ValueError as error:
        raise DocumentError(f"Directive: {error}") from error
    plan = value.get("plan")
    directive = _build(Directive, {**value, "action": action, "plan": None if plan is None else _plan(plan)})
    _require_counts("Directive", directive.epoch, directive.version)
    return directive


def _plan(value: Any) -> DriverPlan:
    plan = _build(DriverPlan, value)
    maps = {
        name: getattr(plan, name)
        for name in ("parallelism", "state_partitions", "pool_weights", "remaining_per_worker")
    }
    for name, counts in maps.items():
        if not isinstance(counts, dict):
            raise DocumentError(f"DriverPlan: {name} is {counts!r}")
    values = [count for counts in maps.values() for count in counts.values()]
    _require_counts("DriverPlan", plan.executors, plan.query_version, plan.retained_executors, *values)
    return plan


def _require_counts(document: str, *counts: object) -> None:
    """Require counts, because the driver compares these values and computes with them."""
    if not all(type(count) is int and count >= 0 for count in counts):
        raise DocumentError(f"{document}: not all of {counts} are counts")


def _status_parts(fields: dict[str, Any]) -> dict[str, Any]:
    vertices = fields.get("vertices_read")
    try:
        return {
            "state": DriverState(str(fields.get("state"))),
            "executors": tuple(_build(ExecutorReport, item) for item in fields.get("executors", ())),
            "queries": tuple(map(_query, fields.get("queries", ()))),
            "failure": _failure(fields.get("failure")),
            "rejection": _failure(fields.get("rejection")),
            "vertices_read": None if vertices is None else tuple(map(str, vertices)),
        }
    except (TypeError, ValueError) as error:
        raise DocumentError(f"Status: {error}") from error


def _query(value: Any) -> QueryReport:
    """Decode the progress of a query.

    The metrics may be any numbers, so that implausible metrics do not make the driver appear silent.
    """
    query = _build(QueryReport, value)
    required = (query.batch_id, query.committed, query.input_rows, query.batch_rows, query.batch_duration_ms)
    optional = (query.backlog, query.trigger_interval_ms, query.input_rate)
    _require_numbers("QueryReport", *required, *(number for number in optional if number is not None))
    return query


def _require_numbers(document: str, *numbers: object) -> None:
    """Require numbers, because the readers compute with these values."""
    if not all(type(number) in (int, float) for number in numbers):
        raise DocumentError(f"{document}: not all of {numbers} are numbers")


def _failure(value: Any) -> FailureReport | None:
    return None if value is None else _build(FailureReport, {**value, "causes": tuple(value.get("causes", ()))})
