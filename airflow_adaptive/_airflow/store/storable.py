"""Text that every database of Airflow can store.

PostgreSQL stores XComs and the events of triggers as `jsonb`, which has neither the character U+0000 nor half of a surrogate pair. Both
occur in error messages that quote binary data or the name of a file. An event that cannot be stored would end the triggerer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_REFUSED: Final = re.compile("[\x00\ud800-\udfff]")


def storable(value: Any) -> Any:
    """Return a JSON value in which `REPLACEMENT` replaces every character that a database may refuse."""
    match value:
        case str():
            return _REFUSED.sub(REPLACEMENT, value)
        case dict() | Mapping():  # `dict` first, because the check for an abstract class is slow
            return {storable(key): storable(item) for key, item in value.items()}
        case list() | tuple():
            return [storable(item) for item in value]
        case _:
            return value
