"""A violation of an invariant."""

from __future__ import annotations


class ViolationError(AssertionError):
    """An invariant does not hold.

    Attributes:
        invariant: name of the invariant.
        text: what has happened.
    """

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text
