"""Which Spark properties are secret, and how their values are kept out of what people read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SECRET_PATTERN = "secret|password|passwd|passphrase|token|access[._-]?key|(?:account|api|private)[._-]?key(?![a-z])"
"""More than the default of `spark.redaction.regex`, which misses the keys of Azure and of service accounts."""

SECRET_PROPERTY = re.compile(SECRET_PATTERN, re.IGNORECASE)

SHORTEST = 5
"""Shorter values would be found in innocent words; Airflow draws the same line (`[logging] min_length_masked_secret`)."""

FLAGS = ("true", "false")

MASK = "***"


def secret_values(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The values of properties with secret names."""
    return tuple(value for name, value in properties.items() if SECRET_PROPERTY.search(name))


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text without these values, the longest first: one may be a part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST and secret.lower() not in FLAGS:
            text = text.replace(secret, MASK)
    return text
