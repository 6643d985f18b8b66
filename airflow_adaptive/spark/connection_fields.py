"""Fields of an Airflow connection of type `spark` that have the same meaning for every cluster manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_adaptive.spark.secrets import is_secret_property

DEFAULT_TIMEOUT_S = 10.0

MAX_PORT = 65535


DRIVER_OPTIONS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
EXECUTOR_ENVIRONMENT: Final = "spark.executorEnv."
EXECUTOR_OPTIONS: Final = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")


class AddressError(ValueError):
    """A connection does not describe a cluster; the message names the field and the fix."""


class UndefinedConnectionError(AddressError):
    """Airflow does not find a connection. Airflow reports this also if its secrets backend does not answer, so a retry may help."""


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


def read_conf(values: Any, readable: Sequence[str]) -> Mapping[str, str]:
    """Return the Spark properties of a connection.

    Args:
        values: names and values.
        readable: names of properties that users of the cluster can read, because they are on command lines or in the specifications of
            pods. A name that ends with a period stands for all names that begin with it.

    Raises:
        AddressError: the values do not describe properties, or a readable property contains a secret.
    """
    conf = read_texts("conf", values)
    for name, value in conf.items():
        if any(_matches(name, pattern) for pattern in readable) and is_secret_property(name, value):
            raise AddressError(
                f"extra conf: {name} contains a secret, and users of the cluster could read the value: {_place_of_secret(name)}"
            )
    return conf


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern) if pattern.endswith(".") else name == pattern


def _place_of_secret(name: str) -> str:
    if name.startswith(EXECUTOR_ENVIRONMENT):
        variable = name.removeprefix(EXECUTOR_ENVIRONMENT)
        return (
            f"create a Secret, and set spark.kubernetes.executor.secretKeyRef.{variable} to its name and key (name:key)"
        )
    return f"write the options to a file that only the pods or the workers can read, and set {name} to '@/path/of/the/file'"
