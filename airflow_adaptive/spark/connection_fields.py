"""Fields of an Airflow connection of type `spark` that have the same meaning for every cluster manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_TIMEOUT_S = 10.0

MAX_PORT = 65535


class AddressError(ValueError):
    """A connection does not describe a cluster; the message names the field and the fix."""


def read_port(name: str, value: object) -> int:
    """Return a port. Raises `AddressError`."""
    try:
        port = int(str(value))
    except ValueError:
        port = 0
    if not 0 < port <= MAX_PORT:
        raise AddressError(f"{name} {value!r} is not a port: use 1..{MAX_PORT}")
    return port


def read_timeout(value: object) -> float:
    """Return a number of seconds. Raises `AddressError`."""
    try:
        timeout = float(str(value))
    except ValueError:
        timeout = 0.0
    if not 0.0 < timeout < float("inf"):
        raise AddressError(f"timeout {value!r} is not a number of seconds above 0")
    return timeout


def read_texts(name: str, values: Any) -> Mapping[str, str]:
    """Return names and values, for example of Spark properties. Raises `AddressError`."""
    if not isinstance(values, Mapping):
        raise AddressError(f"extra {name} must be an object of names and values")  # its value may be a secret
    return {str(key): str(value) for key, value in values.items()}
