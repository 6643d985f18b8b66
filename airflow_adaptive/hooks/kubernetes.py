"""The hook for Airflow's connections of type `kubernetes`: reads the credentials of a cluster, without a request to the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import yaml
from airflow.sdk import BaseHook

from airflow_adaptive._airflow.internals import AirflowNotFoundException, AirflowSecretsBackendAccessDenied, mask_secret
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError

CREDENTIALS = ("in_cluster", "kube_config_path", "kube_config")
"""Fields that select the credentials, in the order of Airflow's hook. Each connection needs exactly one."""

INSTALL = "install 'airflow-adaptive[kubernetes]' in all Airflow components"
"""Remedy if the libraries of the extra are missing."""

SECRETS_OF_USERS = ("token", "password", "client-key-data")
"""Secret fields of the users of a kubeconfig."""

_OLD_PREFIX = "extra__kubernetes__"
_FALSE = ("", "false", "0", "no", "off")


class KubernetesConnectionHook(BaseHook):
    """Reads the credentials of a Kubernetes cluster from a connection of type `kubernetes`, as `KubernetesPodOperator` does.

    The hook reads these extra fields, and ignores all others:

    - in_cluster: use the service account of the pod in which Airflow runs.
    - kube_config_path: path of a kubeconfig file.
    - kube_config: the kubeconfig itself, in JSON or YAML.
    - cluster_context: context of the kubeconfig; by default its current context.
    - disable_verify_ssl: do not check the certificate of the API server.

    In contrast to Airflow's own hook, a connection that is missing or selects no credentials is an error. The default kubeconfig of a
    process (`KUBECONFIG`, `~/.kube/config`) may belong to another cluster.
    """

    conn_name_attr: ClassVar[str] = "kubernetes_conn_id"
    default_conn_name: ClassVar[str] = "kubernetes_default"
    conn_type: ClassVar[str] = "kubernetes"

    def __init__(self, kubernetes_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kubernetes_conn_id = kubernetes_conn_id

    def fields(self) -> Mapping[str, Any]:
        """Return the extra fields, with a kubeconfig as a mapping; blocks on Airflow's connections.

        Raises:
            UndefinedConnectionError: Airflow does not find the connection.
            AddressError: Airflow refuses the connection, or the connection does not select credentials.
        """
        conn_id = self.kubernetes_conn_id
        try:
            connection = self.get_connection(conn_id)
        except AirflowSecretsBackendAccessDenied as error:
            raise AddressError(
                f"connection {conn_id!r}: a secrets backend denies access ({error}): give the task access to the connection"
            ) from error
        except AirflowNotFoundException as error:
            extra = json.dumps({"kube_config_path": "/path/of/kubeconfig"})
            raise UndefinedConnectionError(
                f"connection {conn_id!r} is not defined: add it, for example `airflow connections add {conn_id} --conn-type kubernetes "
                f"--conn-extra '{extra}'`. The default kubeconfig is never used"
            ) from error
        if connection.conn_type != self.conn_type:
            raise AddressError(
                f"connection {conn_id!r} has type {connection.conn_type!r}: use a connection of type {self.conn_type!r}"
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
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ):  # ValueError: an impossible date or a number with too many digits.
        config = None
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
