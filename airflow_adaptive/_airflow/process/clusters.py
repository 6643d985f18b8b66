"""The Airflow connections through which a job reaches its cluster, and the clients of its cluster manager and of its brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import ApiSource, KubernetesAddress, read_namespace
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import Clock, ClusterClient, PortError
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.hooks.kubernetes import INSTALL, KubernetesConnectionHook

if TYPE_CHECKING:
    from airflow_adaptive.hooks.kafka import KafkaBrokers

log = logging.getLogger(__name__)

Result = TypeVar("Result")


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


INSTALL_KAFKA: Final = "install 'airflow-adaptive[kafka]' in all Airflow components"
"""Remedy if the libraries of the extra are missing."""


class MissingKafkaError(ValueError):
    """The libraries of the extra `kafka` are missing."""


def require_kafka(conn_id: str) -> None:
    """Raise `MissingKafkaError` if the extra `kafka` is not installed."""
    try:
        import airflow_adaptive.hooks.kafka  # noqa: F401, PLC0415  optional libraries
    except ImportError as error:
        raise MissingKafkaError(f"kafka_conn_id={conn_id!r}: {INSTALL_KAFKA} ({error})") from error


def kafka_brokers(conn_id: str, access: StoreAccess, clock: Clock) -> KafkaBrokers:
    """Return the brokers of a connection, which are not connected yet.

    Args:
        conn_id: id of the connection, which is read outside of the event loop.
        access: reads the connection.
        clock: measures durations.

    Raises:
        MissingKafkaError: the extra `kafka` is not installed.
    """
    require_kafka(conn_id)
    from airflow_adaptive.hooks.kafka import KafkaAdminHook, KafkaBrokers  # noqa: PLC0415  optional libraries

    return KafkaBrokers(lambda: KafkaAdminHook(conn_id).client(), partial(access.read_connection, conn_id), clock)


@dataclass(frozen=True, slots=True)
class ConnectionIds:
    """Ids of Airflow connections. Triggers and events contain the ids as plain data (`dataclasses.asdict`).

    Attributes:
        spark: connection of type `adaptive_spark` or `spark`, which selects the cluster manager and the cluster.
        kubernetes: connection of type `kubernetes` with the credentials; other cluster managers do not read it.
        namespace: Kubernetes namespace instead of the one in the connection `spark`, "" for that one.
        kafka: connection of type `kafka` of the brokers of the sources, "" without one.
    """

    spark: str
    kubernetes: str = "kubernetes_default"
    namespace: str = ""
    kafka: str = ""

    def address(self) -> ClusterAddress | KubernetesAddress:
        """Return the address of the cluster; blocks on Airflow's connections.

        Raises:
            AddressError: the connection does not exist or does not describe a cluster, or the cluster has no namespaces.
        """
        address = AdaptiveSparkHook(self.spark).address()
        if not self.namespace:
            return address
        if isinstance(address, KubernetesAddress):
            return replace(address, namespace=read_namespace(self.namespace))
        raise AddressError(
            f"namespace {self.namespace!r} has no effect, because connection {self.spark!r} names a standalone cluster: leave it out, or "
            "use a connection with the host k8s://https://host:port"
        )
