"""Creates the client of the cluster manager that a connection names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, MutableMapping
from typing import Protocol, TypeVar

from airflow_adaptive._airflow.process.cluster.connection_ids import ConnectionIds
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api_source import ApiSource
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import ClusterClient, PortError
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.hooks.kubernetes import INSTALL, KubernetesConnectionHook

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class Read(Protocol):
    """Runs a blocking function, and returns its result (`StoreAccess.read_connection`)."""

    async def __call__(self, name: str, work: Callable[[], Result]) -> Result:
        """Return the result. Raises the exceptions of the function."""
        ...


Sources = MutableMapping[Hashable, ApiSource]
"""Sources of API clients by server, timeout and connection. Clients with the same source share their connections and reads."""


def create_client(
    connections: ConnectionIds, address: ClusterAddress | KubernetesAddress, read: Read, sources: Sources
) -> ClusterClient:
    """Return a client, which sends nothing yet.

    Args:
        connections: read again if the cluster refuses their credentials.
        address: content of the connection of the cluster.
        read: runs a blocking read of connections outside of the event loop. Raises `PortError` if Airflow does not answer.
        sources: sources of the clients of this event loop, to which this function adds.

    Raises:
        AddressError: a library is missing.
        OSError: the file of certificate authorities cannot be read.
    """

    async def renew() -> ClusterAddress | None:
        """Read the connection of a standalone cluster again; None if the connection cannot be read now."""
        try:
            renewed = await read(connections.spark, connections.address)
        except (PortError, ValueError) as error:
            log.warning(
                "A master refused the token of connection %s, which cannot be read: %s", connections.spark, error
            )
            return None
        return renewed if isinstance(renewed, ClusterAddress) else None

    if isinstance(address, KubernetesAddress):
        return _kubernetes(connections, address, read, sources)
    return StandaloneCluster(address, renew=renew)


def _kubernetes(connections: ConnectionIds, address: KubernetesAddress, read: Read, sources: Sources) -> ClusterClient:
    """Return the client of a namespace. Raises `AddressError` if the extra `kubernetes` is not installed."""
    try:
        from airflow_adaptive._airflow.kubernetes_api import ConnectionApiSource  # noqa: PLC0415  optional libraries
        from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster  # noqa: PLC0415
    except ImportError as error:
        raise AddressError(
            f"connection {connections.spark!r} names a Kubernetes cluster: {INSTALL} ({error})"
        ) from error
    hook = KubernetesConnectionHook(connections.kubernetes)
    key = (address.server, address.timeout_s, connections.kubernetes)
    source = sources.get(key) or ConnectionApiSource(
        connections.kubernetes, lambda: read(connections.kubernetes, hook.fields), address
    )
    sources[key] = source
    return KubernetesCluster(address, source, SystemClock())
