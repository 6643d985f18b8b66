"""What the loops of one process share: clients and ledgers of clusters, the way to Airflow's stores, and how often they look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.cluster.shared_cluster import SharedCluster
from airflow_adaptive.runtime.observation.file_polling import FILE_LOOKS
from airflow_adaptive.runtime.rate_limit import RateLimiter
from airflow_adaptive.spark.address import ClusterAddress
from airflow_adaptive.spark.standalone import StandaloneCluster
from airflow_adaptive.stores.store_access import StoreTraffic

Thing = TypeVar("Thing")


@dataclass(slots=True)
class _Loan(Generic[Thing]):
    key: object
    thing: Thing
    users: int


class Lending(Generic[Thing]):
    """Things that are made for the first who needs one and closed after the last.

    Keys are compared, not hashed: a cluster's address holds mappings, and a token that is better not looked at.
    """

    def __init__(self, close: Callable[[Thing], Awaitable[None]]) -> None:
        """Nothing is lent yet."""
        self._close = close
        self._loans: list[_Loan[Thing]] = []

    @asynccontextmanager
    async def borrow(self, key: object, make: Callable[[], Thing]) -> AsyncIterator[Thing]:
        """The thing of this key; raises what `make` raises."""
        loan = next((loan for loan in self._loans if loan.key == key), None)
        if loan is None:
            loan = _Loan(key, make(), 0)
            self._loans.append(loan)
        loan.users += 1
        try:
            yield loan.thing
        finally:
            loan.users -= 1
            if not loan.users:
                self._loans.remove(loan)
                await self._close(loan.thing)


class Process:
    """What the loops share that run on one event loop."""

    def __init__(self) -> None:
        """Nothing is in use yet."""
        self.clock = SystemClock()
        self.files = RateLimiter(FILE_LOOKS)
        self.traffic = StoreTraffic(self.clock)
        self._clients: Lending[StandaloneCluster] = Lending(StandaloneCluster.close)
        self._shared: Lending[SharedCluster] = Lending(SharedCluster.close)

    @classmethod
    def current(cls) -> Process:
        """The one of the running event loop: connections and locks belong to one."""
        loop = asyncio.get_running_loop()
        if loop not in _processes:
            _processes[loop] = cls()
        return _processes[loop]

    @asynccontextmanager
    async def cluster(self, address: ClusterAddress) -> AsyncIterator[tuple[StandaloneCluster, SharedCluster]]:
        """A client of a cluster, and the cluster as all share it who reach the same masters, by whatever connection.

        Raises:
            OSError: the file of certificate authorities can't be read.
        """
        masters = sorted(address.masters, key=repr)
        async with (
            self._clients.borrow(address, lambda: StandaloneCluster(address)) as client,
            self._shared.borrow(masters, lambda: SharedCluster(StandaloneCluster(address), self.clock)) as shared,
        ):
            yield client, shared


_processes: WeakKeyDictionary[asyncio.AbstractEventLoop, Process] = WeakKeyDictionary()
