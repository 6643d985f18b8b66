"""The hook for Airflow's connections of the types `adaptive_spark` and `spark`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import ClassVar

from airflow.sdk import BaseHook

from airflow_adaptive._airflow.connections import CLUSTER_TYPES, INSTALL, cluster_address
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.connection_form import CONNECTION_TYPE, HOOK_NAME
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.properties import masked
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.client import connection_report
from airflow_adaptive._core.ports import PortError
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.hooks.kubernetes import KubernetesConnectionHook


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
    conn_types: ClassVar[tuple[str, ...]] = CLUSTER_TYPES

    def __init__(self, spark_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.spark_conn_id = spark_conn_id

    def address(self) -> ClusterAddress | KubernetesAddress:
        """Return the address of the cluster; blocks on Airflow's connections.

        Raises:
            UndefinedConnectionError: Airflow does not find the connection.
            AddressError: Airflow refuses the connection, or the connection does not describe a cluster.
        """
        return cluster_address(self.spark_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the cluster accepts drivers, and what *Test connection* displays. Starts no driver."""
        secrets: tuple[str, ...] = ()
        try:
            address = self.address()
            secrets = address.secrets
            # Airflow tests a copy of the connection under a random id, which the report must not name.
            anonymous = replace(address, conn_id="") if isinstance(address, ClusterAddress) else address
            return True, masked(asyncio.run(report(anonymous)), secrets)
        except (AddressError, PortError, OSError) as error:
            return False, masked(str(error).removeprefix(f"connection {self.spark_conn_id!r}: "), secrets)


async def report(address: ClusterAddress | KubernetesAddress) -> str:
    """Return the properties of a cluster that accepts drivers.

    Raises:
        AddressError: the credentials of a Kubernetes cluster are not defined, or a library is missing.
        PortError: the cluster does not answer, or accepts no driver. The message names the remedy.
    """
    if isinstance(address, KubernetesAddress):
        return await _kubernetes(address)
    return await connection_report(address)


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
