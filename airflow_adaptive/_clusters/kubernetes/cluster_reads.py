"""What the clients of one cluster share: the connections to its API server, the watches of pods, and the reads of nodes.

Theory: the connections of two jobs may differ in Spark properties or in the cap, and still lead to the same cluster with the same credentials.
Clients share their reads if they have the same `ApiSource`. Clients with other credentials share nothing, because one account may read
what another account must not.
"""

from __future__ import annotations

from collections import Counter

from airflow_adaptive._clusters.kubernetes.api.pod_watch import PodWatch
from airflow_adaptive._clusters.kubernetes.api.requests import KubernetesApi
from airflow_adaptive._clusters.kubernetes.api_source import ApiSource
from airflow_adaptive._clusters.kubernetes.capacity.cluster_reader import ClusterReader
from airflow_adaptive._clusters.kubernetes.capacity_reader import ApiLists
from airflow_adaptive._clusters.kubernetes.driver.names import MANAGED_BY, MANAGER
from airflow_adaptive._core.ports import Clock


class ClusterReads:
    """The reads of one cluster with the same credentials. `acquire` opens them, and the last `release` closes them.

    Attributes:
        api: sends requests.
        nodes: reads the nodes, and the pods of all namespaces.
    """

    def __init__(self, source: ApiSource, timeout_s: float, clock: Clock) -> None:
        """Send nothing yet.

        Args:
            source: gives the API client; the last user closes the source.
            timeout_s: see `KubernetesApi`.
            clock: measures the age of what was read.
        """
        self.api = KubernetesApi(source, timeout_s)
        self.nodes = ClusterReader(ApiLists(self.api), clock)
        self._source = source
        self._clock = clock
        self._watches: dict[str, PodWatch] = {}
        self._users: Counter[str] = Counter()

    @classmethod
    def of(cls, source: ApiSource, timeout_s: float, clock: Clock) -> ClusterReads:
        """Return the reads of a source, which the caller acquires."""
        return _open.get(source) or cls(source, timeout_s, clock)

    def acquire(self, namespace: str) -> PodWatch:
        """Return the watch of the drivers and executors in a namespace, and share it until `release`."""
        _open[self._source] = self
        self._users[namespace] += 1
        if namespace not in self._watches:
            self._watches[namespace] = PodWatch(self.api, namespace, f"{MANAGED_BY}={MANAGER}", self._clock)
        return self._watches[namespace]

    async def release(self, namespace: str) -> None:
        """End the use of a namespace. Its last user ends the watch, and the last user of all closes the connections."""
        self._users[namespace] -= 1
        if self._users[namespace]:
            return
        del self._users[namespace]
        watch = self._watches.pop(namespace)
        is_last = not self._users
        if is_last:
            del _open[self._source]
        await watch.close()
        if is_last:
            await self.nodes.close()
            await self._source.close()


_open: dict[ApiSource, ClusterReads] = {}
"""The reads that have users."""
