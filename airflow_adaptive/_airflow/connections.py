"""What Airflow's connections of the types `adaptive_spark`, `spark` and `kubernetes` describe: a cluster, and the credentials for one.

A read sends no request to the cluster. It blocks on Airflow's connections, and masks their secrets in Airflow's logs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import yaml
from airflow.sdk import BaseHook, Connection

from airflow_adaptive._airflow.internals import AirflowNotFoundException, AirflowSecretsBackendAccessDenied, mask_secret
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._clusters.connection_form import CONNECTION_TYPE
from airflow_adaptive._clusters.kubernetes.address import PREFIX, SCHEME, KubernetesAddress, parse_kubernetes_address
from airflow_adaptive._clusters.standalone.address import ClusterAddress, parse_address

CLUSTER_TYPES: Final = (CONNECTION_TYPE, "spark", SCHEME)
"""Types of connections that describe a cluster."""

CREDENTIALS_TYPE: Final = "kubernetes"

URI_FORMS = "write adaptive-spark://host:7077 (a hyphen), spark://h1%3A7077%2Ch2%3A7077 for several masters, or k8s://https://host:6443 for Kubernetes"
"""The URIs of connections that Airflow reads. The host of a URI with a second colon or a second scheme must be encoded."""

CREDENTIALS = ("in_cluster", "kube_config_path", "kube_config")
"""Fields that select the credentials, in the order of Airflow's hook. Each connection needs exactly one."""

INSTALL = "install 'airflow-adaptive[kubernetes]' in all Airflow components"
"""Remedy if the libraries of the extra are missing."""

SECRETS_OF_USERS = ("token", "password", "client-key-data")
"""Secret fields of the users of a kubeconfig."""

_OLD_PREFIX = "extra__kubernetes__"
_FALSE = ("", "false", "0", "no", "off")


def cluster_address(conn_id: str) -> ClusterAddress | KubernetesAddress:
    """Return the address of a cluster.

    Raises:
        UndefinedConnectionError: Airflow does not find the connection.
        AddressError: Airflow refuses the connection, or the connection does not describe a cluster.
    """
    try:
        connection = _read(conn_id)
    except AirflowNotFoundException as error:
        if f"AIRFLOW_CONN_{conn_id.upper()}" in os.environ:
            raise AddressError(
                f"connection {conn_id!r}: Airflow cannot read the URI in its environment variable: {URI_FORMS}"
            ) from error
        raise UndefinedConnectionError(
            f"connection {conn_id!r} is not defined: add it, for example `airflow connections add "
            f"{conn_id} --conn-type {CONNECTION_TYPE} --conn-host spark://host --conn-port 7077`"
        ) from error
    if not connection.conn_type:
        raise AddressError(f"connection {conn_id!r} has no type, because its URI has no valid scheme: {URI_FORMS}")
    if connection.conn_type not in CLUSTER_TYPES:
        types = " or ".join(map(repr, CLUSTER_TYPES[:-1]))
        raise AddressError(
            f"connection {conn_id!r} has type {connection.conn_type!r}: use a connection of type {types}"
        )
    try:
        address = _parse(connection)
    except AddressError as error:
        raise AddressError(f"connection {conn_id!r}: {error}") from error
    except OSError as error:  # The file of certificate authorities cannot be read.
        raise AddressError(f"connection {conn_id!r}: extra verify: {error}") from error
    for secret in address.secrets:  # Airflow masks the password, but not the single values of the extra field.
        mask_secret(secret)
    return address


def _read(conn_id: str) -> Connection:
    """Return a connection. Raises `AddressError` if a secrets backend denies access, and `AirflowNotFoundException` if Airflow does not find it."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowSecretsBackendAccessDenied as error:
        raise AddressError(
            f"connection {conn_id!r}: a secrets backend denies access ({error}): give the task access to the connection"
        ) from error


def _parse(connection: Connection) -> ClusterAddress | KubernetesAddress:
    """Return the address. Raises `AddressError`, and `OSError` if the file of certificate authorities cannot be read."""
    extra, host = connection.extra_dejson, (connection.host or "").strip()
    if host.startswith(PREFIX) or connection.conn_type == SCHEME:
        return parse_kubernetes_address(host, connection.port, extra)
    address = parse_address(host, connection.port, connection.password, extra)
    address.tls()
    return replace(address, conn_id=connection.conn_id)


def kubernetes_credentials(conn_id: str) -> Mapping[str, Any]:
    """Return the extra fields of a connection of type `kubernetes`, with a kubeconfig as a mapping.

    Raises:
        UndefinedConnectionError: Airflow does not find the connection.
        AddressError: Airflow refuses the connection, or the connection does not select credentials.
    """
    try:
        connection = _read(conn_id)
    except AirflowNotFoundException as error:
        extra = json.dumps({"kube_config_path": "/path/of/kubeconfig"})
        raise UndefinedConnectionError(
            f"connection {conn_id!r} is not defined: add it, for example `airflow connections add {conn_id} --conn-type kubernetes "
            f"--conn-extra '{extra}'`. The default kubeconfig is never used"
        ) from error
    if connection.conn_type != CREDENTIALS_TYPE:
        raise AddressError(
            f"connection {conn_id!r} has type {connection.conn_type!r}: use a connection of type {CREDENTIALS_TYPE!r}"
        )
    try:
        return _credentials(connection.extra_dejson)
    except AddressError as error:
        raise AddressError(f"connection {conn_id!r}: {error}") from error


def _credentials(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = {name.removeprefix(_OLD_PREFIX): value for name, value in extra.items()}
    for flag in ("in_cluster", "disable_verify_ssl"):
        fields[flag] = str(fields.get(flag) or "").strip().lower() not in _FALSE
    selected = [name for name in CREDENTIALS if fields.get(name)]
    if len(selected) != 1:
        problem = f"{' and '.join(selected)} exclude each other" if selected else "selects no credentials"
        raise AddressError(
            f"{problem}: set exactly one of the extra fields {', '.join(CREDENTIALS)}. The default kubeconfig is never used"
        )
    if selected == ["kube_config"]:
        fields["kube_config"] = _kubeconfig(fields["kube_config"])
    return fields


def _kubeconfig(value: object) -> Mapping[str, Any]:
    """Return a kubeconfig as a mapping, and mask its secrets. No error repeats a part of the text, which contains secrets."""
    try:
        config = yaml.safe_load(value) if isinstance(value, str) else value
    except (yaml.YAMLError, ValueError, RecursionError):
        config = None  # ValueError: an impossible date or a number with too many digits.
    if not isinstance(config, Mapping):
        raise AddressError("extra kube_config is not a kubeconfig in JSON or YAML")
    for secret in _secrets(config):
        mask_secret(secret)
    return config


def _secrets(config: Mapping[str, Any]) -> Iterator[str]:
    users = config.get("users")
    for entry in users if isinstance(users, list) else ():
        user = entry.get("user") if isinstance(entry, Mapping) else None
        if isinstance(user, Mapping):
            yield from (str(user[name]) for name in SECRETS_OF_USERS if user.get(name))
