"""Regular expressions for `pytest.raises`."""

from __future__ import annotations

import re


def exactly(words: str) -> str:
    """Return a pattern that matches these words only."""
    return f"^{re.escape(words)}$"
