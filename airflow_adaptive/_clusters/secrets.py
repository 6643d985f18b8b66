"""Recognizes secret Spark properties, and masks their values in output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_adaptive._clusters.connection_fields import LAUNCH_PREFIXES
from airflow_adaptive._core.protocol.secret_names import (
    REDACTION_PATTERN,
    is_secret,
    is_secret_name,
    secret_parts,
)

REDACTION = "spark.redaction.regex"
"""Property with the pattern of names and values that Spark's web pages and event logs redact."""

SHORTEST = 5
"""Minimum length of a masked value. Shorter values also occur in ordinary words; Airflow has the same limit (`[logging]
min_length_masked_secret`)."""

FLAGS = ("true", "false")

MASK = "***"


def redaction_pattern(names: Iterable[str]) -> str:
    """Return the value of `REDACTION` for secrets that the provider recognizes, and for properties with these names."""
    return "|".join((REDACTION_PATTERN, *(f"^{re.escape(name)}$" for name in sorted(names))))


def secret_properties(properties: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Return the secret properties that the runtime sets on the session. spark-submit reads the others before the runtime starts.

    Args:
        properties: all properties of a driver.
        names: names whose values are secret whatever their names.
    """
    secret = {name: value for name, value in properties.items() if name in names or is_secret(name, value)}
    return {
        name: value
        for name, value in secret.items()
        if name in names or is_secret_name(name) or not name.startswith(LAUNCH_PREFIXES)
    }


def secret_values(properties: Mapping[str, str], names: frozenset[str], variables: Mapping[str, str]) -> list[str]:
    """Return the values that no output may contain, and the secrets in them.

    Args:
        properties: Spark properties.
        names: properties whose values are secret whatever their names.
        variables: environment variables whose values are secret whatever their names.
    """
    secret = [value for name, value in properties.items() if name in names or is_secret(name, value)]
    return [part for value in (*secret, *variables.values()) for part in secret_parts(value)]


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the values masked, longest first, because a value may be part of another value."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST and secret.lower() not in FLAGS:
            text = text.replace(secret, MASK)
    return text
