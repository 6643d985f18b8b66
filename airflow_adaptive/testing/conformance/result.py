"""What a vector asks, and what comes of asking it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Vector = Mapping[str, Any]
"""Inputs and expectations, as decoded from JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """The scheduler does something else than the vector expects.

    Attributes:
        what: of the vector's expectations.
        expected: by the vector.
        actual: by the scheduler.
    """

    what: str
    expected: object
    actual: object


class NotApplicableError(Exception):
    """The scheduler has nothing that the vector could be asked of; the message says why."""


Judge = Callable[[Vector], Iterator[Deviation]]
"""Puts a vector to the scheduler and yields what deviates; raises `NotApplicableError`."""


def compare(what: str, expected: object, actual: object) -> Iterator[Deviation]:
    """A deviation if they differ."""
    if expected != actual:
        yield Deviation(what=what, expected=expected, actual=actual)


def compare_text(what: str, expected: str, actual: str) -> Iterator[Deviation]:
    """A deviation if the expected words are not among the actual ones, whatever their case."""
    if expected.rstrip(".").casefold() not in actual.casefold():
        yield Deviation(what=what, expected=expected, actual=actual)


def expect_only(vector: Vector, *known: str) -> None:
    """Refuse a vector with expectations that its judge does not know, rather than pass it unasked.

    Raises:
        NotApplicableError: naming them.
    """
    unknown = sorted(set(_expectations(vector)) - set(known))
    if unknown:
        raise NotApplicableError(f"expectation not understood: {', '.join(unknown)}")


def _expectations(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key.startswith(("expected", "observed")):
                yield key
            else:
                yield from _expectations(item)
    elif isinstance(value, list):
        for item in value:
            yield from _expectations(item)
