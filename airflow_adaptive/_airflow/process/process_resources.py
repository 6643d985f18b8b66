"""The resources that all loops of one process share: clients and snapshots of clusters, access to Airflow's stores, and rate limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from airflow_adaptive._airflow.process.clusters import ConnectionIds, create_client, kafka_brokers
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._clusters.kubernetes.address import ApiSource, KubernetesAddress
from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._core.ports import ClusterClient, SourceOffsets
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.shared_cluster import SharedCluster
from airflow_adaptive._engine.rate_limit import FILE_POLLS_PER_SECOND, RateLimiter

if TYPE_CHECKING:
    from airflow_adaptive.hooks.kafka import KafkaBrokers

Resource = TypeVar("Resource")
Result = TypeVar("Result")


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
        """Create an empty pool.

        Args:
            close: closes a resource.
        """
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

        Args:
            connections: read again if the cluster refuses their credentials.
            address: content of the connection of the cluster. Loops share a client only if the whole content is equal.

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
