"""The hook for Airflow's connections of the types `adaptive_spark` and `spark`."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import ClassVar

from airflow.sdk import BaseHook, Connection

from airflow_adaptive._airflow.internals import AirflowNotFoundException, AirflowSecretsBackendAccessDenied, mask_secret
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._clusters.connection_form import CONNECTION_TYPE, HOOK_NAME
from airflow_adaptive._clusters.kubernetes.address import PREFIX, SCHEME, KubernetesAddress, parse_kubernetes_address
from airflow_adaptive._clusters.properties import masked
from airflow_adaptive._clusters.standalone import connection_report
from airflow_adaptive._clusters.standalone.address import ClusterAddress, parse_address
from airflow_adaptive._core.ports import PortError
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.hooks.kubernetes import INSTALL, KubernetesConnectionHook

URI_FORMS = "write adaptive-spark://host:7077 (a hyphen), spark://h1%3A7077%2Ch2%3A7077 for several masters, or k8s://https://host:6443 for Kubernetes"
"""The URIs of connections that Airflow reads. The host of a URI with a second colon or a second scheme must be encoded."""


class AdaptiveSparkHook(BaseHook):
    """Reads the address of a cluster from a connection.

    A connection of type `adaptive_spark` has a form with all fields, and *Test connection*. `SparkSubmitOperator` can use the same connection
    if its type is `spark`. Both types have the same fields, and a field without a value counts as absent. The host selects the cluster
    manager: `spark://` a Spark standalone cluster, `k8s://` Kubernetes. The type `k8s` has the URI `k8s://https://api:6443` (`AIRFLOW_CONN_...`),
    as for `SparkSubmitHook`. The hook reads these fields for both:

    - extra `timeout`: timeout of a request (10 seconds).
    - extra `conf`: Spark properties of every driver. The environment of the driver process passes secret properties; no command line contains
      them.
    - extra `secret-conf`: further Spark properties, whose values are secret whatever their names.
    - extra `secret-env`: secret environment variables of every driver.

    For a standalone cluster:

    - host: `spark://h1:7077`, or `spark://h1:7077,h2:7077` for several masters with standby masters.
    - port: port of masters without a port in the host field.
    - password: bearer token, if masters and workers require one (`org.apache.spark.ui.JWSFilter`). Only the masters receive the token.
    - extra `token-hosts`: other hosts that receive the token, for example `worker-1,*.spark.example.com`, if workers require the token.
    - extra `ui-port` (8080), `rest-port` (6066), `ui-scheme` and `rest-scheme` ("http" or "https").
    - extra `verify`: true, false, or the path of a file with certificate authorities.

    For Kubernetes:

    - host: `k8s://https://api:6443`. The credentials come from another connection (`KubernetesConnectionHook`).
    - port: port of an API server without a port in the host field.
    - extra `namespace`: namespace of drivers and executors (`default`).
    - extra `max-cores` and `max-memory` ("100g"): static cap of the requests of all drivers and executors in the namespace.
    - extra `node-autoscaling`: true if the cluster adds nodes for pods that do not fit (false).
    """

    conn_name_attr: ClassVar[str] = "spark_conn_id"
    default_conn_name: ClassVar[str] = "spark_default"
    conn_type: ClassVar[str] = CONNECTION_TYPE
    hook_name: ClassVar[str] = HOOK_NAME
    conn_types: ClassVar[tuple[str, ...]] = (CONNECTION_TYPE, "spark", SCHEME)

    def __init__(self, spark_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.spark_conn_id = spark_conn_id

    def address(self) -> ClusterAddress | KubernetesAddress:
        """Return the address of the cluster; blocks on Airflow's connections.

        Raises:
            UndefinedConnectionError: Airflow does not find the connection.
            AddressError: Airflow refuses the connection, or the connection does not describe a cluster.
        """
        try:
            connection = self.get_connection(self.spark_conn_id)
        except AirflowSecretsBackendAccessDenied as error:
            raise AddressError(
                f"connection {self.spark_conn_id!r}: a secrets backend denies access ({error}): give the task access to the connection"
            ) from error
        except AirflowNotFoundException as error:
            if f"AIRFLOW_CONN_{self.spark_conn_id.upper()}" in os.environ:
                raise AddressError(
                    f"connection {self.spark_conn_id!r}: Airflow cannot read the URI in its environment variable: {URI_FORMS}"
                ) from error
            raise UndefinedConnectionError(
                f"connection {self.spark_conn_id!r} is not defined: add it, for example `airflow connections add "
                f"{self.spark_conn_id} --conn-type {CONNECTION_TYPE} --conn-host spark://host --conn-port 7077`"
            ) from error
        if not connection.conn_type:
            raise AddressError(
                f"connection {self.spark_conn_id!r} has no type, because its URI has no valid scheme: {URI_FORMS}"
            )
        if connection.conn_type not in self.conn_types:
            types = " or ".join(map(repr, self.conn_types[:-1]))
            raise AddressError(
                f"connection {self.spark_conn_id!r} has type {connection.conn_type!r}: use a connection of type {types}"
            )
        try:
            address = _parse(connection)
        except AddressError as error:
            raise AddressError(f"connection {self.spark_conn_id!r}: {error}") from error
        except OSError as error:  # The file of certificate authorities cannot be read.
            raise AddressError(f"connection {self.spark_conn_id!r}: extra verify: {error}") from error
        for secret in address.secrets:  # Airflow masks the password, but not the single values of the extra field.
            mask_secret(secret)
        return address

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the cluster accepts drivers, and what *Test connection* displays. Starts no driver."""
        secrets: tuple[str, ...] = ()
        try:
            address = self.address()
            secrets = address.secrets
            return True, masked(asyncio.run(report(_without_id(address))), secrets)
        except (AddressError, PortError, OSError) as error:
            return False, masked(str(error).removeprefix(f"connection {self.spark_conn_id!r}: "), secrets)


def _without_id(address: ClusterAddress | KubernetesAddress) -> ClusterAddress | KubernetesAddress:
    """Return an address without the id of its connection, because Airflow tests a copy of the connection under a random id."""
    return replace(address, conn_id="") if isinstance(address, ClusterAddress) else address


def _parse(connection: Connection) -> ClusterAddress | KubernetesAddress:
    """Return the address. Raises `AddressError`, and `OSError` if the file of certificate authorities cannot be read."""
    extra, host = connection.extra_dejson, (connection.host or "").strip()
    if host.startswith(PREFIX) or connection.conn_type == SCHEME:
        return parse_kubernetes_address(host, connection.port, extra)
    address = parse_address(host, connection.port, connection.password, extra)
    address.tls()
    return replace(address, conn_id=connection.conn_id)


async def report(address: ClusterAddress | KubernetesAddress) -> str:
    """Return the properties of a cluster that accepts drivers.

    Raises:
        AddressError: the credentials of a Kubernetes cluster are not defined, or a library is missing.
        PortError: the cluster does not answer, or accepts no driver. The message names the remedy.
    """
    if isinstance(address, KubernetesAddress):
        return await _kubernetes(address)
    return await connection_report.report(address)


async def _kubernetes(address: KubernetesAddress) -> str:
    """Check the namespace with the default connection of type `kubernetes`, because a connection names no other."""
    try:
        from airflow_adaptive._airflow.kubernetes_api import ConnectionApiSource  # noqa: PLC0415  optional libraries
        from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster  # noqa: PLC0415
    except ImportError as error:
        raise AddressError(f"the host names a Kubernetes cluster: {INSTALL} ({error})") from error
    hook = KubernetesConnectionHook()
    source = ConnectionApiSource(hook.kubernetes_conn_id, lambda: asyncio.to_thread(hook.fields), address)
    cluster = KubernetesCluster(address, source, SystemClock())
    try:
        await cluster.check()
    finally:
        await cluster.close()
    return (
        f"The account of connection {hook.kubernetes_conn_id!r} may run jobs in namespace {address.namespace!r} of {address.server}, and the "
        "free resources are known."
    )
