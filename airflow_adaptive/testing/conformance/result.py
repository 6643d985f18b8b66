"""Vectors, the deviations from their expectations, and comparisons that yield deviations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Vector = Mapping[str, Any]
"""Inputs and expectations of one vector, decoded from JSON."""

DESCRIPTION = ("id", "source", "notes", "verified", "uncertain")
"""Keys of a vector that are neither inputs nor expectations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A result of the scheduler that differs from an expectation of a vector.

    Attributes:
        what: name of the expectation.
        expected: value in the vector.
        actual: value from the scheduler.
    """

    what: str
    expected: object
    actual: object


_JAVA_CLASSES = re.compile(r"^\s*([\w.$]*(Exception|Error)\b[:\s]*)+")


class NotApplicableError(Exception):
    """A vector does not apply to the scheduler. The message gives the reason."""


Check = Callable[[Vector], Iterator[Deviation]]
"""Runs a vector on the scheduler and yields the deviations. Raises `NotApplicableError`."""


def compare(what: str, expected: object, actual: object) -> Iterator[Deviation]:
    """Yield a deviation if the values differ."""
    if expected != actual:
        yield Deviation(what=what, expected=expected, actual=actual)


def compare_error(expected: str, actual: str) -> Iterator[Deviation]:
    """Yield a deviation if the actual error does not contain the message of the expected error.

    Case and the names of Java classes before the message are ignored. An error without a message expects any error.
    """
    message = _JAVA_CLASSES.sub("", expected, count=1).rstrip(".").casefold()
    if not actual or message not in actual.casefold():
        yield Deviation(what="error", expected=expected, actual=actual)


def may_fail(check: Check) -> Check:
    """Return a check that compares the error of the scheduler, if any, with the error that the vector expects."""

    def with_error(vector: Vector) -> Iterator[Deviation]:
        expected = _expected_error(vector)
        try:
            deviations = list(check(vector))
        except ValueError as error:
            yield from compare_error(expected or "no error", str(error))
        else:
            yield from compare("error", expected, None)
            yield from deviations

    return with_error


def _expected_error(vector: Vector) -> str | None:
    stated = vector.get("expected")
    within = stated.get("error") if isinstance(stated, Mapping) else None
    error: str | None = vector.get("expected_construct_error", vector.get("expected_error", within))
    return error


def require_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that a check does not evaluate, so that no vector passes without a complete check.

    Args:
        what: kind of the names, for the message.
        names: names in the vector.
        known: names that the check evaluates.

    Raises:
        NotApplicableError: at least one name is unknown.
    """
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise NotApplicableError(f"unknown {what}: {', '.join(unknown)}")


def expect_only(vector: Vector, *known: str) -> None:
    """Refuse a vector with expectations that a check does not evaluate.

    Raises:
        NotApplicableError: at least one expectation is unknown.
    """
    require_known("expectation", _expectations(vector), known)


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
