"""Random values that depend only on a seed and on what they are for."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from random import Random


class Entropy:
    """Source of all random values of one simulation.

    Theory: each purpose has a sequence of its own. If the history gets shorter because one fault is left out, the values of the other
    purposes do not change, so the remaining history stays similar.
    """

    def __init__(self, seed: int) -> None:
        """Start all sequences of a seed."""
        self._seed = seed
        self._drawn: Counter[str] = Counter()

    def random(self, purpose: str) -> Random:
        """Return a generator for the next value of a purpose."""
        self._drawn[purpose] += 1
        text = f"{self._seed}/{purpose}/{self._drawn[purpose]}"
        return Random(blake2b(text.encode(), digest_size=16).digest())

    def bytes(self, size: int) -> bytes:
        """Return random bytes, instead of `os.urandom`."""
        return self.random("urandom").randbytes(size)
