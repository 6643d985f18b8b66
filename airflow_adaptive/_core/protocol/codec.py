"""Converts the documents of the job directory to bytes and back: JSON objects with a kind and a format version.

Readers validate each document, because another process may have written it only in part, or a different program may
have written it. Whatever is wrong with a document, a reader gets a `DocumentError`, so that it can skip and report the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from airflow_adaptive._core.protocol.documents import (
    FORMATS,
    Count,
    DriverStatus,
    JournalDocument,
    RescaleDocument,
)

Read = Callable[[Any], Any]
"""Checks and converts the value of a field, as JSON contains it."""

MAX_DOCUMENT_BYTES = 1 << 20
"""Maximum size of a document in bytes. Readers report and skip a larger document."""

MAX_REASON_CHARACTERS = 300

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
    return _encode(JOURNAL_KIND, document)


def encode_rescale(document: RescaleDocument) -> bytes:
    """Encode a rescale document."""
    return _encode(RESCALE_KIND, document)


def encode_status(status: DriverStatus) -> bytes:
    """Encode a driver status."""
    return _encode(STATUS_KIND, status)


def decode_journal(data: bytes) -> JournalDocument:
    """Decode a journal document.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    return _build(JournalDocument, _decode(JOURNAL_KIND, data))


def decode_rescale(data: bytes) -> RescaleDocument:
    """Decode a rescale document.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    return _build(RescaleDocument, _decode(RESCALE_KIND, data))


def decode_status(data: bytes) -> DriverStatus:
    """Decode a driver status.

    The metrics may be any numbers, so that implausible metrics do not invalidate a heartbeat.

    Raises:
        DocumentError: the document is invalid; the message gives the reason.
    """
    return _build(DriverStatus, _decode(STATUS_KIND, data))


def newest_common_format(formats: Iterable[int]) -> int | None:
    """Return the newest of these formats that this version writes, too, or None."""
    return max(set(formats).intersection(FORMATS), default=None)


def _encode(kind: str, document: JournalDocument | RescaleDocument | DriverStatus) -> bytes:
    """Encode a document in the format that it names, else in the oldest format, because the version of its readers is unknown."""
    content = {"kind": kind, "format": FORMATS[0], **_fields(document)}
    return json.dumps(content, separators=(",", ":"), default=_fields).encode(ENCODING)


def _fields(document: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, without the copies of `dataclasses.asdict`."""
    return {name: getattr(document, name) for name in _names(type(document))}  # type: ignore[arg-type]  # a class is hashable


@cache
def _names(document: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclass_fields(document))


def _decode(kind: str, data: bytes) -> dict[str, Any]:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"document of {len(data)} bytes is larger than {MAX_DOCUMENT_BYTES}")
    try:
        fields = json.loads(data.decode(ENCODING))
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not JSON, or half-written: {error}") from error
    if not isinstance(fields, dict) or fields.pop("kind", None) != kind:
        raise DocumentError(f"not a document of kind {kind!r}")
    written = fields.get("format")
    if not isinstance(written, int):
        raise DocumentError("the format is not a number")
    if written > FORMATS[-1]:
        raise NewerFormatError(f"format {written} is newer than {FORMATS[-1]}: upgrade airflow-adaptive on this side")
    return fields


Document = TypeVar("Document")


def _build(document: type[Document], fields: Any) -> Document:
    """Return the document of these fields. Fields that this version does not know are ignored."""
    try:
        readers = _readers(document)  # type: ignore[arg-type]  # a class is hashable
        known = {name: read(fields[name]) for name, read in readers.items() if name in fields}
        return document(**known)
    except DocumentError:
        raise
    except Exception as error:
        raise DocumentError(f"{document.__name__}: {str(error)[:MAX_REASON_CHARACTERS]}") from error


@cache
def _readers(document: Any) -> dict[str, Read]:
    return {name: _reader(hint) for name, hint in get_type_hints(document, include_extras=True).items()}


@cache
def _reader(hint: Any) -> Read:
    """Return the function that reads a field of a type. A loop reads a status each second, so the types are examined once."""
    origin = get_origin(hint)
    members = [_reader(member) for member in get_args(hint) if hint != Count and member is not Ellipsis]
    if hint is Any:
        return _read_unchanged
    if origin is UnionType:
        return lambda value: None if value is None else members[0](value)
    if origin in (tuple, list):
        return lambda value: origin(map(members[0], _typed(list, value)))
    if origin in (Mapping, dict):
        return lambda value: {name: members[1](item) for name, item in _typed(dict, value).items()}
    if hint == Count:
        return _read_count
    if hint in (int, float):
        return _read_number
    if hint in (str, bool):
        return partial(_typed, hint)
    return partial(_build, cast(type[Any], hint)) if is_dataclass(hint) else cast(Read, hint)


def _read_count(value: Any) -> Any:
    """Check a number, because the readers compare it and compute with it."""
    if _typed(int, value) < 0:
        raise TypeError(f"{value} is not a count")
    return value


def _read_number(value: Any) -> Any:
    return value if type(value) is float else _typed(int, value)


def _typed(kind: type, value: Any) -> Any:
    """Return a value that has exactly this type: true is not a number, and a text is not a list of its characters."""
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
    return value


def _read_unchanged(value: Any) -> Any:
    return value
