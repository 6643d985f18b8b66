"""Masks secret values in output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_adaptive.ports import is_secret, url_passwords

SHORTEST = 5
"""Minimum length of a masked value. Shorter values also occur in ordinary words; Airflow has the same limit (`[logging]
min_length_masked_secret`)."""

FLAGS = ("true", "false")

MASK = "***"


def secret_values(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secret values of properties, and the passwords in URLs."""
    secret = [value for name, value in properties.items() if is_secret(name, value)]
    return (*secret, *(password for value in secret for password in url_passwords(value)))


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the values masked, longest first, because a value may be part of another value."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST and secret.lower() not in FLAGS:
            text = text.replace(secret, MASK)
    return text
