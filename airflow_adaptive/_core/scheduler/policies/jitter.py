"""Jitter that depends only on its key, so that a replay of the same events produces the same delays."""

from __future__ import annotations

import hashlib

_BITS = 53
"""Number of bits in the significand of a float."""


def jitter(*key: str | int) -> float:
    """Return a number in [0, 1) that is uniformly distributed over different keys.

    Args:
        key: names the delay that the jitter changes, for example (job, epoch, attempt).
    """
    digest = hashlib.sha256("\n".join(map(str, key)).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)
