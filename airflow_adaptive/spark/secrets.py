"""Recognizes secret Spark properties, and masks their values in output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_adaptive.ports import (
    SECRET_NAME_PATTERN,
    SECRET_VALUE_PATTERN,
    assigned_secrets,
    is_secret,
    secret_assignments,
    url_passwords,
)

REDACTION = "spark.redaction.regex"
"""Property with the pattern of names and values that Spark's web pages and event logs redact."""

SHORTEST = 5
"""Minimum length of a masked value. Shorter values also occur in ordinary words; Airflow has the same limit (`[logging]
min_length_masked_secret`)."""

FLAGS = ("true", "false")

MASK = "***"


def is_secret_property(name: str, value: str) -> bool:
    """Return whether the value of a property is secret, or contains a secret, as in `-Djavax.net.ssl.trustStorePassword=...`."""
    return is_secret(name, value) or any(secret_assignments(value))


def redaction_pattern(names: Iterable[str]) -> str:
    """Return the value of `REDACTION` for secrets that the provider recognizes, and for properties with these names."""
    return "|".join((SECRET_NAME_PATTERN, SECRET_VALUE_PATTERN, *(f"^{re.escape(name)}$" for name in sorted(names))))


def secret_values(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secret values of properties, the passwords in URLs, and the secrets that values assign."""
    secret = [value for name, value in properties.items() if is_secret(name, value)]
    passwords = [password for value in secret for password in url_passwords(value)]
    return (*secret, *passwords, *(part for value in properties.values() for part in assigned_secrets(value)))


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the values masked, longest first, because a value may be part of another value."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST and secret.lower() not in FLAGS:
            text = text.replace(secret, MASK)
    return text
