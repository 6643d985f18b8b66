"""The state as JSON and back, with a version.

The state is made of frozen dataclasses, so its type hints are its schema: a value of a union is tagged with its class, times
are ISO 8601, durations are seconds. A snapshot of a newer version is refused; an older one would be migrated here.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from airflow_adaptive.scheduler.errors import SnapshotError
from airflow_adaptive.scheduler.state import SchedulerState

VERSION = 1
"""Version of the snapshot's layout."""

_TAG = "type"


def to_json(state: SchedulerState) -> dict[str, Any]:
    """The state as JSON-able values."""
    return {"snapshot": VERSION, **encode(state)}


def from_json(data: Mapping[str, Any]) -> SchedulerState:
    """The state that `to_json` wrote.

    Raises:
        SnapshotError: the snapshot is damaged or of a newer version.
    """
    version = data.get("snapshot")
    if version != VERSION:
        raise SnapshotError(
            f"snapshot of version {version!r} can't be read by version {VERSION}: upgrade airflow-adaptive"
        )
    try:
        return cast(SchedulerState, decode(SchedulerState, data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"damaged snapshot: {type(error).__name__}: {error}") from error


def encode(value: Any) -> Any:
    """A value of the state as JSON-able values."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Enum():
            return value.value
        case Mapping():
            return {key: encode(item) for key, item in value.items()}
        case tuple():
            return [encode(item) for item in value]
        case _ if is_dataclass(value):
            return {_TAG: type(value).__name__} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    return value


def decode(hint: Any, data: Any) -> Any:
    """The value of type `hint` that `encode` wrote."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if data is None else decode(_member(arguments, data), data)
    if origin is tuple:
        return tuple(decode(arguments[0], item) for item in data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: decode(arguments[1], item) for key, item in data.items()}
    return _decode_plain(hint, data)


def _decode_plain(hint: Any, data: Any) -> Any:
    if is_dataclass(hint):
        hints = _hints(hint)
        return cast(Callable[..., Any], hint)(**{name: decode(hints[name], data[name]) for name in hints})
    if issubclass(hint, datetime):
        return datetime.fromisoformat(data)
    if issubclass(hint, timedelta):
        return timedelta(seconds=data)
    if issubclass(hint, Enum):
        return hint(data)
    if not isinstance(data, hint) and not (hint is float and isinstance(data, int)):
        raise TypeError(f"{data!r} is no {hint.__name__}")
    return data


def _member(members: tuple[Any, ...], data: Any) -> Any:
    """The member of a union that the data is tagged with, or its only member beside None."""
    real = [member for member in members if member is not type(None)]
    if len(real) == 1:
        return real[0]
    return next(member for member in real if member.__name__ == data[_TAG])


@cache
def _hints(hint: type) -> dict[str, Any]:
    hints = get_type_hints(hint)
    return {f.name: hints[f.name] for f in fields(hint)}
