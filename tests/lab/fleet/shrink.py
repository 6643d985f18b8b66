"""Finds a short scenario that fails like a given one (delta debugging).

Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002 (the algorithm ddmin).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shortest(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool], tries: int) -> list[Item]:
    """Return a subsequence that still fails, from which no single item can be left out if the tries suffice.

    Args:
        items: items with which the test fails.
        fails: whether the test fails with these items only.
        tries: greatest number of calls of `fails`.
    """
    kept, size = list(items), max(len(items), 1)
    while kept and size >= 1:
        start = 0
        while start < len(kept) and tries > 0:
            candidate = kept[:start] + kept[start + size :]
            tries -= 1
            if fails(candidate):
                kept = candidate
            else:
                start += size
        if size == 1 or tries <= 0:
            break
        size = max(size // 2, 1)
    return kept
