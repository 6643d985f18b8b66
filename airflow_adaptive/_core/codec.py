"""Converts values to what JSON can represent, and back: the type hints of dataclasses are the schema.

Times are ISO 8601 strings, and durations are seconds. A field that the data does not contain has its default, and fields that a class does not know
are ignored, so that a release can read the data of other releases. The driver also runs this module, in all its versions of Python.
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
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

MAX_REASON_CHARACTERS = 300

Count = Annotated[int, "at least 0"]
"""A number that a reader rejects if it is negative."""

_TAG = "type"


class DecodeError(ValueError):
    """The data does not have the form of its type. The message names the innermost dataclass."""


def encode(value: Any) -> Any:
    """Return a value of dataclasses that tell their class, so that unions of them can be decoded."""
    return _encoder(type(value), is_tagged=True)(value)  # type: ignore[arg-type]  # a class is hashable


def encode_plain(value: Any) -> Any:
    """Return a value without the tags of `encode`, because its reader knows the classes."""
    return _encoder(type(value), is_tagged=False)(value)  # type: ignore[arg-type]  # a class is hashable


def decode(hint: Any, data: Any, *, any_number: bool = False) -> Any:
    """Return the value of type `hint` that `encode` or `encode_plain` encoded.

    Args:
        hint: type of the value. A union may have several dataclasses only if the data is tagged.
        data: the encoded value, as JSON contains it.
        any_number: whether a number may be any number, also a fraction, NaN or infinity; a `Count` may not.

    Raises:
        DecodeError: whatever is wrong with the data, so that a reader can skip and report it. The cause is the original error.
    """
    try:
        return _decoder(hint, any_number)(data)
    except DecodeError:
        raise
    except Exception as error:
        raise DecodeError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:MAX_REASON_CHARACTERS]}"


@cache
def _encoder(kind: Any, *, is_tagged: bool) -> Callable[[Any], Any]:
    """Return the function that encodes the values of a type. A state has hundreds of values, so the types are examined once."""
    if issubclass(kind, datetime):
        return datetime.isoformat
    if issubclass(kind, timedelta):
        return timedelta.total_seconds
    if issubclass(kind, Enum):
        return attrgetter("value")
    encode_item = encode if is_tagged else encode_plain
    if issubclass(kind, Mapping):
        return lambda value: {key: encode_item(item) for key, item in value.items()}
    if issubclass(kind, (tuple, list)):
        return lambda value: [encode_item(item) for item in value]
    tag = {_TAG: kind.__name__} if is_tagged else {}
    if is_dataclass(kind):
        names = [it.name for it in fields(kind)]
        return lambda value: tag | {name: encode_item(getattr(value, name)) for name in names}
    return lambda value: value


@cache
def _decoder(hint: Any, any_number: bool) -> Callable[[Any], Any]:
    """Return the function that decodes the values of a type. A loop reads a status each second, so the types are examined once."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda data: data
    if hint == Count:
        return _decode_count
    if origin in (Union, types.UnionType):
        members = {it.__name__: _decoder(it, any_number) for it in arguments if it is not types.NoneType}
        return partial(_decode_union, members, types.NoneType in arguments)
    if origin in (tuple, list):
        item_of = _decoder(arguments[0], any_number)
        return lambda data: origin(map(item_of, _checked(list, data)))
    if origin is not None:
        value_of = _decoder(arguments[1], any_number)
        return lambda data: {key: value_of(item) for key, item in _checked(dict, data).items()}
    if is_dataclass(hint):
        return partial(_decode_dataclass, hint, any_number)
    return partial(_decode_plain, hint, any_number)


def _decode_count(data: Any) -> int:
    if _checked(int, data) < 0:
        raise TypeError(f"{data} is not a count")
    return int(data)


def _decode_union(members: Mapping[str, Callable[[Any], Any]], is_optional: bool, data: Any) -> Any:
    """Return the value of the member that the tag of the data names, or of the only member except None."""
    if data is None and is_optional:
        return None
    return (next(iter(members.values())) if len(members) == 1 else members[data[_TAG]])(data)


def _decode_dataclass(hint: Any, any_number: bool, data: Any) -> Any:
    try:
        present, readers = _checked(dict, data), _fields(hint, any_number)
        found = {
            name: read(present[name]) for name, (read, is_needed) in readers.items() if is_needed or name in present
        }
        return hint(**found)
    except DecodeError:
        raise
    except Exception as error:
        raise DecodeError(f"{hint.__name__}: {_reason(error)}") from error


@cache
def _fields(hint: Any, any_number: bool) -> Mapping[str, tuple[Callable[[Any], Any], bool]]:
    """Return the decoder of each field, and whether the field has no default."""
    hints = get_type_hints(hint, include_extras=True)
    return {
        it.name: (_decoder(hints[it.name], any_number), it.default is MISSING and it.default_factory is MISSING)
        for it in fields(hint)
    }


def _decode_plain(hint: type, any_number: bool, data: Any) -> Any:
    if issubclass(hint, datetime):
        moment = datetime.fromisoformat(data)
        if moment.tzinfo is None:
            raise ValueError(f"{moment} has no time zone")
        return moment
    if issubclass(hint, timedelta):
        return timedelta(seconds=data)
    if issubclass(hint, Enum):
        return hint(data)
    if any_number and hint in (int, float) and type(data) in (int, float):
        return data
    return _checked(hint, data)


def _checked(kind: type, data: Any) -> Any:
    """Return the data if it has exactly this type. JSON's true is not a number, and JSON has no NaN and no infinity."""
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind or (isinstance(data, float) and not math.isfinite(data)):
        raise TypeError(f"{type(data).__name__} instead of {kind.__name__}")
    return data
