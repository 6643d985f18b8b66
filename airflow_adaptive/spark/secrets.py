"""Determines which Spark properties are secret, and masks their values in output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SECRET_PATTERN = "secret|password|passwd|passphrase|token|access[._-]?key|(?:account|api|private)[._-]?key(?![a-z])"
"""Pattern of secret names. The default of `spark.redaction.regex` lacks the keys of Azure and of service accounts."""

SECRET_PROPERTY = re.compile(SECRET_PATTERN, re.IGNORECASE)

SHORTEST = 5
"""Minimum length of a masked value. Shorter values also occur in ordinary words; Airflow has the same limit (`[logging]
min_length_masked_secret`)."""

FLAGS = ("true", "false")

MASK = "***"


def secret_values(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of properties with secret names."""
    return tuple(value for name, value in properties.items() if SECRET_PROPERTY.search(name))


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the values masked, longest first, because a value may be part of another value."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST and secret.lower() not in FLAGS:
            text = text.replace(secret, MASK)
    return text
