"""Creates the client of the cluster manager that a connection names."""

from __future__ import annotations

import logging

from airflow_adaptive.launch.connection_ids import ConnectionIds
from airflow_adaptive.ports import ClusterClient, PortError
from airflow_adaptive.spark.address import ClusterAddress
from airflow_adaptive.spark.connection_fields import AddressError
from airflow_adaptive.spark.kubernetes.address import KubernetesAddress
from airflow_adaptive.spark.standalone import StandaloneCluster
from airflow_adaptive.stores.store_access import StoreAccess

log = logging.getLogger(__name__)


def create_client(
    connections: ConnectionIds, address: ClusterAddress | KubernetesAddress, access: StoreAccess
) -> ClusterClient:
    """Return a client, which sends nothing yet.

    Args:
        connections: read again if the cluster refuses their credentials.
        address: content of the connection of type `spark`.
        access: reads connections outside of the event loop.

    Raises:
        OSError: the file of certificate authorities cannot be read.
    """

    async def renew() -> ClusterAddress | None:
        """Read the connection of a standalone cluster again; None if the connection cannot be read now."""
        try:
            renewed = await access.read_connection(connections.address)
        except (PortError, ValueError) as error:
            log.warning(
                "A master refused the token of connection %s, which cannot be read: %s", connections.spark, error
            )
            return None
        return renewed if isinstance(renewed, ClusterAddress) else None

    if isinstance(address, KubernetesAddress):
        raise AddressError(f"connection {connections.spark!r}: this version does not run jobs on Kubernetes")
    return StandaloneCluster(address, renew=renew)
