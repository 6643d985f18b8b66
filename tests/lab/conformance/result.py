"""Vectors, and the comparisons of their expectations with the results of the scheduler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import eq
from typing import Any

Vector = Mapping[str, Any]
"""Inputs and expectations of one vector, decoded from JSON."""

DESCRIPTION = ("id", "source", "notes", "verified", "uncertain")
"""Keys of a vector that are neither inputs nor expectations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An expectation of a vector, and the result of the scheduler.

    Attributes:
        what: name of the expectation.
        expected: value in the vector.
        actual: value from the scheduler.
        meets: returns whether a value from the scheduler meets the expectation.
    """

    what: str
    expected: object
    actual: object
    meets: Callable[[Any, Any], bool] = eq

    @property
    def deviates(self) -> bool:
        """Whether the result differs from the expectation."""
        return not self.meets(self.expected, self.actual)


_JAVA_CLASSES = re.compile(r"^\s*([\w.$]*(Exception|Error)\b[:\s]*)+")


class NotApplicableError(Exception):
    """A vector does not apply to the scheduler. The message gives the reason."""


Check = Callable[[Vector], Iterator[Comparison]]
"""Runs a vector on the scheduler and yields one comparison for each expectation. Raises `NotApplicableError`."""


def compare(what: str, expected: object, actual: object) -> Iterator[Comparison]:
    """Yield a comparison that expects an equal value."""
    yield Comparison(what=what, expected=expected, actual=actual)


def compare_stated(what: str, vector: Vector, expectation: str, actual: object) -> Iterator[Comparison]:
    """Yield a comparison if the vector states the expectation."""
    if expectation in vector:
        yield from compare(what, vector[expectation], actual)


def compare_error(expected: str, actual: str) -> Iterator[Comparison]:
    """Yield a comparison that expects that the actual error contains the message of the expected error.

    Case and the names of Java classes before the message are ignored. An error without a message expects any error.
    """
    yield Comparison(what="error", expected=expected, actual=actual, meets=_is_error)


def _is_error(expected: str, actual: str | None) -> bool:
    message = _JAVA_CLASSES.sub("", expected, count=1).rstrip(".").casefold()
    return bool(actual) and message in str(actual).casefold()


def may_fail(check: Check) -> Check:
    """Return a check that compares the error of the scheduler, if any, with the error that the vector expects."""

    def with_error(vector: Vector) -> Iterator[Comparison]:
        expected = _expected_error(vector)
        try:
            comparisons = list(check(vector))
        except ValueError as error:
            yield from compare_error(expected or "no error", str(error))
        else:
            yield from compare("error", expected, None)
            yield from comparisons

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
