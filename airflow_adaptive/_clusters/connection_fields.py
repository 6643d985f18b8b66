"""Fields of an Airflow connection of type `adaptive_spark` or `spark` that have the same meaning for every cluster manager."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_adaptive._core.protocol.secret_names import is_secret, is_secret_name

DEFAULT_TIMEOUT_S = 10.0

MAX_PORT = 65535


DRIVER_OPTIONS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
EXECUTOR_ENVIRONMENT: Final = "spark.executorEnv."
EXECUTOR_OPTIONS: Final = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")

LAUNCH_PREFIXES: Final = ("spark.driver.", "spark.jars", "spark.submit.")
"""Properties that spark-submit reads before the driver can set properties."""


_NAME: Final = re.compile(r"[^\s{}'\"]+")


class AddressError(ValueError):
    """A connection does not describe a cluster; the message names the field and the fix."""


class UndefinedConnectionError(AddressError):
    """Airflow does not find a connection. Airflow reports this also if its secrets backend does not answer, so a retry may help."""


def given_fields(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the extra fields that have a value. Airflow's form stores an empty field as null or as an empty text."""
    return {name: value for name, value in extra.items() if value is not None and str(value).strip()}


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
    """Return names and values, for example of Spark properties, from an object or from lines `name=value` of a form.

    Raises `AddressError`. The message does not repeat the values, because they may be secret.
    """
    if isinstance(values, str):
        return dict(_assignment(name, line) for line in re.split(r"\r\n|\r|\n", values) if line.strip())
    if not isinstance(values, Mapping):
        raise AddressError(f"extra {name} must be an object of names and values, or lines name=value")
    return {str(key): str(value) for key, value in values.items()}


def _assignment(field: str, line: str) -> tuple[str, str]:
    name, separator, value = (part.strip() for part in line.partition("="))
    if not separator or not _NAME.fullmatch(name):
        raise AddressError(f"extra {field} must be an object of names and values, or lines name=value")
    return name, value


def read_conf(extra: Mapping[str, Any], readable: Sequence[str]) -> Mapping[str, str]:
    """Return the Spark properties of a connection, from the fields `conf` and `secret-conf`.

    Args:
        extra: extra fields of the connection.
        readable: names of properties that users of the cluster can read, because they are on command lines or in the specifications of
            pods. A name that ends with a period stands for all names that begin with it.

    Raises:
        AddressError: the fields do not describe properties, both contain the same property, or users could read a secret property.
    """
    conf, secret = read_texts("conf", extra.get("conf", {})), read_secret_conf(extra)
    for name in conf.keys() & secret.keys():
        raise AddressError(f"{name} is in extra conf and in extra secret-conf: remove it from one of them")
    for name, value in {**conf, **secret}.items():
        is_readable = any(_matches(name, pattern) for pattern in readable)
        if is_readable and (name in secret or is_secret(name, value)):
            field = "secret-conf" if name in secret else "conf"
            raise AddressError(
                f"extra {field}: {name} contains a secret, and users of the cluster could read the value: {_place_of_secret(name)}"
            )
    return {**conf, **secret}


def read_secret_conf(extra: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the Spark properties whose values are secret whatever their names, from the field `secret-conf`.

    Raises:
        AddressError: the field does not describe properties, or spark-submit reads a property from its command line.
    """
    secret = read_texts("secret-conf", extra.get("secret-conf", {}))
    for name in secret:
        if name.startswith(LAUNCH_PREFIXES) and not is_secret_name(name):
            raise AddressError(
                f"extra secret-conf: spark-submit reads {name} from its command line, so the value cannot be secret: move it to extra conf"
            )
    return secret


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern) if pattern.endswith(".") else name == pattern


def _place_of_secret(name: str) -> str:
    if name.startswith(EXECUTOR_ENVIRONMENT):
        variable = name.removeprefix(EXECUTOR_ENVIRONMENT)
        return (
            f"create a Secret, and set spark.kubernetes.executor.secretKeyRef.{variable} to its name and key (name:key)"
        )
    return f"write the options to a file that only the pods or the workers can read, and set {name} to '@/path/of/the/file'"
