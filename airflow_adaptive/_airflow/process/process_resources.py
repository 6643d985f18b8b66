"""The Airflow connections of a job, and what all loops of one process share: clients of clusters and brokers, Airflow's stores, and rate limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from airflow_adaptive._airflow.connections import INSTALL, cluster_address, kubernetes_credentials
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import ApiSource, KubernetesAddress, read_namespace
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.ports import Clock, ClusterClient, PortError, SourceOffsets
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.rate_limit import FILE_POLLS_PER_SECOND, RateLimiter
from airflow_adaptive._engine.spec import JobSpec

if TYPE_CHECKING:
    from airflow_adaptive._airflow.process.kafka_brokers import KafkaBrokers

log = logging.getLogger(__name__)

Result = TypeVar("Result")


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
        address = cluster_address(self.spark)
        if not self.namespace:
            return address
        if isinstance(address, KubernetesAddress):
            return replace(address, namespace=read_namespace(self.namespace))
        raise AddressError(
            f"namespace {self.namespace!r} has no effect, because connection {self.spark!r} names a standalone cluster: leave it out, or "
            "use a connection with the host k8s://https://host:port"
        )


@dataclass(frozen=True, slots=True)
class DeployedJob:
    """A job as a task has deployed it, with everything that a loop of the job needs.

    Attributes:
        spec: the job.
        connections: Airflow connections of the job.
        base: URI of the folder of all job directories.
        task: the task instance that runs the job.
    """

    spec: JobSpec
    connections: ConnectionIds
    base: str
    task: TaskKey

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.spec.graph.job


Resource = TypeVar("Resource")


def create_client(
    connections: ConnectionIds,
    address: ClusterAddress | KubernetesAddress,
    read: Callable[..., Awaitable[Any]],
    sources: MutableMapping[Hashable, ApiSource],
) -> ClusterClient:
    """Return a client, which sends nothing yet.

    Args:
        connections: read again if the cluster refuses their credentials.
        address: content of the connection of the cluster.
        read: runs a blocking read of a connection outside of the event loop (`StoreAccess.read_connection`).
        sources: sources of API clients by server, timeout and connection, to which this function adds. Clients with the same source share its
            connections and reads.

    Raises:
        AddressError: a library is missing.
        OSError: the file of certificate authorities cannot be read.
    """
    if not isinstance(address, KubernetesAddress):
        return StandaloneCluster(address, renew=lambda: _renewed(connections, read))
    try:
        from airflow_adaptive._airflow.kubernetes_api import ConnectionApiSource  # noqa: PLC0415  optional libraries
        from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster  # noqa: PLC0415
    except ImportError as error:
        raise AddressError(
            f"connection {connections.spark!r} names a Kubernetes cluster: {INSTALL} ({error})"
        ) from error
    key = (address.server, address.timeout_s, connections.kubernetes)
    source = sources.get(key) or ConnectionApiSource(
        connections.kubernetes,
        lambda: read(connections.kubernetes, partial(kubernetes_credentials, connections.kubernetes)),
        address,
    )
    sources[key] = source
    return KubernetesCluster(address, source, SystemClock())


async def _renewed(connections: ConnectionIds, read: Callable[..., Awaitable[Any]]) -> ClusterAddress | None:
    """Read the connection of a standalone cluster again; None if the connection cannot be read now."""
    try:
        renewed = await read(connections.spark, connections.address)
    except (PortError, ValueError) as error:
        log.warning("A master refused the token of connection %s, which cannot be read: %s", connections.spark, error)
        return None
    return renewed if isinstance(renewed, ClusterAddress) else None


INSTALL_KAFKA: Final = "install 'airflow-adaptive[kafka]' in all Airflow components"
"""Remedy if the libraries of the extra are missing."""


class MissingKafkaError(ValueError):
    """The libraries of the extra `kafka` are missing."""


def require_kafka(conn_id: str) -> None:
    """Raise `MissingKafkaError` if the extra `kafka` is not installed."""
    try:
        import airflow_adaptive._airflow.process.kafka_brokers  # noqa: F401, PLC0415  optional libraries
    except ImportError as error:
        raise MissingKafkaError(f"kafka_conn_id={conn_id!r}: {INSTALL_KAFKA} ({error})") from error


def kafka_brokers(conn_id: str, access: StoreAccess, clock: Clock) -> KafkaBrokers:
    """Return the brokers of a connection, which are not connected yet. Raises `MissingKafkaError`: the extra `kafka` is not installed."""
    require_kafka(conn_id)
    from airflow_adaptive._airflow.process.kafka_brokers import KafkaAdminHook, KafkaBrokers  # noqa: PLC0415  optional libraries

    return KafkaBrokers(lambda: KafkaAdminHook(conn_id).client(), partial(access.read_connection, conn_id), clock)


@dataclass(slots=True)
class _Entry(Generic[Resource]):
    key: object
    resource: Resource
    users: int


class ResourcePool(Generic[Resource]):
    """Shared resources. The pool creates a resource for its first user, and closes the resource after its last user.

    The pool compares keys and does not hash keys, because the address of a cluster contains mappings.
    """

    def __init__(self, close: Callable[[Resource], Awaitable[None]]) -> None:
        self._close = close
        self._entries: list[_Entry[Resource]] = []

    @asynccontextmanager
    async def use(self, key: object, create: Callable[[], Resource]) -> AsyncIterator[Resource]:
        """Use the resource of a key. Raises the exceptions of `create`."""
        entry = next((entry for entry in self._entries if entry.key == key), None)
        if entry is None:
            entry = _Entry(key, create(), 0)
            self._entries.append(entry)
        entry.users += 1
        try:
            yield entry.resource
        finally:
            entry.users -= 1
            if not entry.users:
                self._entries.remove(entry)
                await self._close(entry.resource)


class SharedReads:
    """Reads that several callers await together: a caller joins the read of the same key that is in progress."""

    def __init__(self) -> None:
        self._reads: dict[Hashable, asyncio.Task[Any]] = {}

    async def join(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of the read in progress, or of a new read. Raises the exceptions of the read."""
        if key not in self._reads:
            self._reads[key] = task = asyncio.create_task(read())
            task.add_done_callback(partial(self._forget, key))
        result: Result = await asyncio.shield(self._reads[key])
        return result

    def _forget(self, key: Hashable, read: asyncio.Task[Any]) -> None:
        del self._reads[key]
        if not read.cancelled():
            read.exception()  # Otherwise asyncio logs the error of a read for which no caller waits any more.


class ProcessResources:
    """The resources that the loops on one event loop share.

    Attributes:
        clock: measures durations for all loops. Each loop has a wall clock of its own, which begins with the time of day at its start.
        files: rate limit of reads from job directories.
        store_access: access to Airflow's stores.
        next_sweeps: folder of job directories -> time from which a loop examines it again (`_airflow.process.abandoned_jobs`).
        connection_reads: reads of connections that are in progress. After a restart, all loops of a process read the same connections.
    """

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.files = RateLimiter(FILE_POLLS_PER_SECOND, self.clock)
        self.next_sweeps: dict[str, float] = {}
        self.connection_reads = SharedReads()
        self.store_access = StoreAccess(self.clock)
        self._clients: ResourcePool[ClusterClient] = ResourcePool(lambda client: client.close())
        self._brokers: ResourcePool[KafkaBrokers] = ResourcePool(lambda brokers: brokers.close())
        self._sources: WeakValueDictionary[Hashable, ApiSource] = WeakValueDictionary()
        self._shared: WeakValueDictionary[Hashable, SharedCluster] = WeakValueDictionary()

    @classmethod
    def current(cls) -> ProcessResources:
        """Return the resources of the running event loop. Connections and locks cannot be shared between event loops."""
        loop = asyncio.get_running_loop()
        if loop not in _resources:
            _resources[loop] = cls()
        return _resources[loop]

    @asynccontextmanager
    async def cluster(
        self, connections: ConnectionIds, address: ClusterAddress | KubernetesAddress
    ) -> AsyncIterator[tuple[ClusterClient, SharedCluster]]:
        """Use a client of a cluster, and the shared cluster of all loops whose connections show the same capacity.

        Loops share a client only if the whole address is equal.

        Raises:
            OSError: the file of certificate authorities cannot be read.
        """

        def create() -> ClusterClient:
            return create_client(connections, address, self.store_access.read_connection, self._sources)

        async with self._clients.use((replace(connections, kafka=""), address), create) as client:
            # What the API server shows depends on the account.
            account = connections.kubernetes if isinstance(address, KubernetesAddress) else ""
            yield client, self._shared.setdefault((account, address.capacity_key), SharedCluster(self.clock))

    @asynccontextmanager
    async def brokers(self, conn_id: str) -> AsyncIterator[SourceOffsets | None]:
        """Use the brokers of a connection of type `kafka`, which all loops with this connection share; None without a connection."""
        if not conn_id:
            yield None
            return
        async with self._brokers.use(conn_id, lambda: kafka_brokers(conn_id, self.store_access, self.clock)) as brokers:
            yield brokers


_resources: WeakKeyDictionary[asyncio.AbstractEventLoop, ProcessResources] = WeakKeyDictionary()
