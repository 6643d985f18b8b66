"""Encoding of the state as JSON, with a version.

The state consists of frozen dataclasses, so the type hints are the schema. A value of a union is tagged with its class, times
are ISO 8601 strings, and durations are seconds. A snapshot with another version is an error. A field that a snapshot does not
contain has its default, so that a release can read the snapshots of earlier releases.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.state import SchedulerState

VERSION = 1
"""Version of the layout of a snapshot."""

_TAG = "type"

MAX_REASON_CHARACTERS = 300


def to_json(state: SchedulerState) -> dict[str, Any]:
    """Return the state as values that JSON can represent."""
    return {"snapshot": VERSION, **encode(state)}


def from_json(data: Mapping[str, Any]) -> SchedulerState:
    """Return the state that `to_json` encoded.

    Raises:
        SnapshotError: the snapshot is damaged or has another version.
    """
    version = data.get("snapshot")
    if version != VERSION:
        raise SnapshotError(
            f"snapshot of version {version!r} cannot be read by version {VERSION}: upgrade airflow-adaptive"
        )
    decoded: SchedulerState = decode(SchedulerState, data)
    return decoded


def encode(value: Any) -> Any:
    """Return a value of the state as values that JSON can represent."""
    return _encoder(type(value))(value)  # type: ignore[arg-type]  # a class is hashable


def decode(hint: Any, data: Any) -> Any:
    """Return the value of type `hint` that `encode` encoded.

    Raises:
        SnapshotError: the data is damaged. Whatever is wrong with it, a reader gets this error, so that it can skip the data.
    """
    try:
        return _decode(hint, data)
    except Exception as error:
        reason = str(error)[:MAX_REASON_CHARACTERS]
        raise SnapshotError(f"damaged snapshot: {type(error).__name__}: {reason}") from error


def _decode(hint: Any, data: Any) -> Any:
    return _decoder(hint)(data)


@cache
def _encoder(kind: type) -> Callable[[Any], Any]:
    """Return the function that encodes the values of a type. A state has hundreds of values, so the types are examined once."""
    if issubclass(kind, datetime):
        return datetime.isoformat
    if issubclass(kind, timedelta):
        return timedelta.total_seconds
    if issubclass(kind, Enum):
        return attrgetter("value")
    if issubclass(kind, Mapping):
        return lambda value: {key: encode(item) for key, item in value.items()}
    if issubclass(kind, tuple):
        return lambda value: [encode(item) for item in value]
    if is_dataclass(kind):
        tag, names = kind.__name__, [f.name for f in fields(kind)]
        return lambda value: {_TAG: tag} | {name: encode(getattr(value, name)) for name in names}
    return lambda value: value


@cache
def _decoder(hint: Any) -> Callable[[Any], Any]:
    """Return the function that decodes the values of a type."""
    if hint is Any:
        return lambda data: data
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return partial(_decode_union, arguments)
    if origin is tuple:
        return lambda data: tuple(_decode(arguments[0], item) for item in _checked(list, data))
    if origin is not None:
        return lambda data: {key: _decode(arguments[1], item) for key, item in _checked(dict, data).items()}
    return partial(_decode_dataclass if is_dataclass(hint) else _decode_plain, hint)


def _decode_union(members: tuple[Any, ...], data: Any) -> Any:
    return None if data is None and types.NoneType in members else _decode(_member(members, data), data)


def _decode_dataclass(hint: Any, data: Any) -> Any:
    """Return the dataclass; a missing field has its default, because an earlier release did not have the field."""
    present, required = _checked(dict, data), _required(hint)
    wanted = [(name, kind) for name, kind in _hints(hint).items() if name in present or name in required]
    return hint(**{name: _decode(kind, present[name]) for name, kind in wanted})


def _decode_plain(hint: type, data: Any) -> Any:
    if issubclass(hint, datetime):
        return _aware(datetime.fromisoformat(data))
    if issubclass(hint, timedelta):
        return timedelta(seconds=data)
    if issubclass(hint, Enum):
        return hint(data)
    return _checked(hint, data)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return moment


def _checked(kind: type, data: Any) -> Any:
    """Return the data if it has exactly this type. JSON's true is not a number, and JSON has no NaN and no infinity."""
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind or (isinstance(data, float) and not math.isfinite(data)):
        raise TypeError(f"{type(data).__name__} instead of {kind.__name__}")
    return data


def _member(members: tuple[Any, ...], data: Any) -> Any:
    """Return the member of a union that the tag of the data names, or the only member except None."""
    real = {member.__name__: member for member in members if member is not types.NoneType}
    if len(real) == 1:
        return next(iter(real.values()))
    return real[data[_TAG]]


@cache
def _required(hint: type) -> frozenset[str]:
    """Return the names of the fields without a default."""
    return frozenset(f.name for f in fields(hint) if f.default is MISSING and f.default_factory is MISSING)


@cache
def _hints(hint: type) -> dict[str, Any]:
    hints = get_type_hints(hint)
    return {f.name: hints[f.name] for f in fields(hint)}
