"""Reads the nodes, and the pods of all namespaces, for all jobs of a process.

Theory: the lists of a large cluster are megabytes, and every adaptive job needs them. So one reader per cluster reads them page by page, in
the background and at a slow rate, and keeps only the sums by node. The pods of a job change faster than that; the client watches them,
so the sums keep the drivers and executors of each namespace apart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from airflow_adaptive._clusters.kubernetes.capacity.quantities import Json
from airflow_adaptive._clusters.kubernetes.capacity.workers import Usage, usage_by_node
from airflow_adaptive._core.ports import Clock, ClusterUnreachableError

log = logging.getLogger(__name__)

INTERVAL_S: Final = 10.0

MAX_AGE_S: Final = 60.0
"""Age at which a result is too old to plan with, if newer reads fail or take too long."""

PAGE_SIZE: Final = 250
"""A page of pods is about a megabyte, which occupies the event loop for some hundredths of a second."""

PAGE_PAUSE_S: Final = 0.05

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"

BOUND_PODS: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the pods that hold resources of a node."""

MANAGED_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "airflow-adaptive"
"""Label of all drivers and executors."""


class ForbiddenError(Exception):
    """The account of the client may not read a collection. The message names the missing verb and the collection."""


class ExpiredError(Exception):
    """The API server does not continue a list any more, because the list was begun too long ago."""


class Lists(Protocol):
    """Reads collections of a Kubernetes API."""

    async def page(self, path: str, parameters: Mapping[str, str]) -> Json:
        """Return a page of a collection: its `items`, and its `metadata` with the token of the next page.

        Args:
            path: path of the collection, such as `/api/v1/nodes`.
            parameters: parameters of the request, such as `limit` and `continue`.

        Raises:
            ForbiddenError: the account may not read the collection.
            ExpiredError: the token is too old.
            ClusterUnreachableError: the API server did not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The nodes of a cluster, and what the pods of all namespaces hold of them.

    Attributes:
        nodes: all nodes.
        own: namespace -> node -> what drivers and executors of adaptive jobs hold.
        others: node -> what all other pods hold.
    """

    nodes: Sequence[Json]
    own: Mapping[str, Mapping[str, Usage]]
    others: Mapping[str, Usage]

    def usages(self, namespace: str, own_pods: Sequence[Json]) -> Mapping[str, Usage]:
        """Return what all pods hold of each node.

        Args:
            namespace: namespace whose drivers and executors are known better.
            own_pods: the drivers and executors of this namespace.
        """
        known = [usages for name, usages in self.own.items() if name != namespace]
        return _sum([self.others, usage_by_node(own_pods), *known])


@dataclass(slots=True)
class _Result:
    read_s: float
    pods: ClusterPods | None = None
    forbidden: str = ""


@dataclass(slots=True)
class _Sums:
    own: dict[str, Mapping[str, Usage]] = field(default_factory=dict)
    others: Mapping[str, Usage] = field(default_factory=dict)

    def add(self, pods: Sequence[Json]) -> None:
        by_namespace: dict[str, list[Json]] = {}
        for pod in pods:
            labels = pod["metadata"].get("labels") or {}
            namespace = pod["metadata"]["namespace"] if labels.get(MANAGED_LABEL) == MANAGED_BY else ""
            by_namespace.setdefault(namespace, []).append(pod)
        self.others = _sum([self.others, usage_by_node(by_namespace.pop("", ()))])
        for namespace, own in by_namespace.items():
            self.own[namespace] = _sum([self.own.get(namespace, {}), usage_by_node(own)])


class ClusterReader:
    """The reader of one cluster. Its users share it, and so share its reads."""

    def __init__(self, lists: Lists, clock: Clock) -> None:
        """Read nothing before the first use.

        Args:
            lists: reads the collections.
            clock: measures the age of a result.
        """
        self._lists = lists
        self._clock = clock
        self._result: _Result | None = None
        self._error = "the reader is closed"
        self._task: asyncio.Task[None] | None = None

    async def read(self) -> ClusterPods:
        """Return the newest result, and read again in the background if the result is older than the interval.

        Raises:
            ForbiddenError: the account may not read the nodes or the pods of all namespaces.
            ClusterUnreachableError: there is no result that is recent enough.
        """
        if self._age_s() >= INTERVAL_S and self._task is None:
            self._task = asyncio.create_task(self._refresh())
        if self._age_s() >= MAX_AGE_S and self._task is not None:
            await asyncio.wait({self._task})
        if self._result is None or self._age_s() >= MAX_AGE_S:
            raise ClusterUnreachableError(self._error)
        if self._result.pods is None:
            raise ForbiddenError(self._result.forbidden)
        return self._result.pods

    async def close(self) -> None:
        """End a read that is in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _age_s(self) -> float:
        return float("inf") if self._result is None else self._clock.elapsed - self._result.read_s

    async def _refresh(self) -> None:
        started_s = self._clock.elapsed
        try:
            self._result = _Result(started_s, pods=await self._read())
        except ForbiddenError as error:
            self._result = _Result(started_s, forbidden=str(error))
        except (ClusterUnreachableError, ExpiredError) as error:
            self._error = str(error)
        except Exception as error:
            log.warning("A read of the nodes and pods failed", exc_info=True)
            self._error = (
                f"the read of the nodes and pods failed with {type(error).__name__}; the log contains the traceback"
            )
        finally:
            self._task = None

    async def _read(self) -> ClusterPods:
        nodes = [node async for page in self._pages(NODES, {}) for node in page]
        sums = _Sums()
        async for page in self._pages(PODS, {"fieldSelector": BOUND_PODS}):
            sums.add(page)
        return ClusterPods(nodes, sums.own, sums.others)

    async def _pages(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[Sequence[Json]]:
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = await self._lists.page(path, {**parameters, "limit": str(PAGE_SIZE), **more})
            yield page["items"]
            token = page["metadata"].get("continue") or ""
            if not token:
                return
            await self._clock.sleep(PAGE_PAUSE_S)


def _sum(several: Sequence[Mapping[str, Usage]]) -> Mapping[str, Usage]:
    total: dict[str, Usage] = {}
    for usages in several:
        for node, usage in usages.items():
            total[node] = total.get(node, Usage()) + usage
    return total
