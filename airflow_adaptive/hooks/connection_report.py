"""What *Test connection* reports about the cluster of a connection. The test starts no driver."""

from __future__ import annotations

import asyncio

from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.standalone import connection_report
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.hooks.kubernetes import INSTALL, KubernetesConnectionHook


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
