"""Reads what the capacity of a namespace depends on, as far as the account of the client may read it.

Theory: the lists of a large cluster are megabytes, and every adaptive job needs them. So one reader per cluster reads them page by page, in
the background and at a slow rate, and keeps only the sums by node. The pods of a job change faster than that; the client watches them,
so the sums keep the drivers and executors of each namespace apart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi, RefusedError
from airflow_adaptive._clusters.kubernetes.capacity.capacity import Capacity, NamespaceObjects, capacity, never_fits
from airflow_adaptive._clusters.kubernetes.capacity.quota import Cap
from airflow_adaptive._clusters.kubernetes.capacity.workers import ClusterPods, Usage, sum_by_node, usage_by_node
from airflow_adaptive._clusters.kubernetes.names import MANAGED_BY, MANAGER, Json
from airflow_adaptive._core.ports import Clock, ClusterUnreachableError, Request

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


class ForbiddenError(Exception):
    """The account of the client may not read a collection. The message names the missing verb and the collection."""


class ExpiredError(Exception):
    """The API server does not continue a list any more, because the list was begun too long ago."""


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
            namespace = pod["metadata"]["namespace"] if labels.get(MANAGED_BY) == MANAGER else ""
            by_namespace.setdefault(namespace, []).append(pod)
        self.others = sum_by_node([self.others, usage_by_node(by_namespace.pop("", ()))])
        for namespace, own in by_namespace.items():
            self.own[namespace] = sum_by_node([self.own.get(namespace, {}), usage_by_node(own)])


class ClusterReader:
    """The reader of one cluster. Its users share it, and so share its reads."""

    def __init__(self, lists: ApiLists, clock: Clock) -> None:
        self._lists = lists
        self._clock = clock
        self._result: _Result | None = None
        self._error = "the reader is closed"
        self._task: asyncio.Task[None] | None = None

    async def read(self) -> ClusterPods:
        """Return the newest result, and read again in the background if the result is older than the interval.

        Raises `ForbiddenError`, or `ClusterUnreachableError` without a result that is recent enough.
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


RULES_INTERVAL_S: Final = 2.0
"""Shortest time between two reads of the quotas. The use of a quota follows from the watched pods; the quota itself changes rarely."""


class ApiLists:
    """The port `Lists` on the API server."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    async def page(self, path: str, parameters: Mapping[str, str]) -> Json:
        """Return a page of a collection, see `Lists.page`."""
        try:
            return await self._api.request("GET", path, query=parameters)
        except RefusedError as error:
            if error.is_expired:
                raise ExpiredError(str(error)) from error
            if error.status == HTTPStatus.FORBIDDEN:
                where = " of all namespaces" if path == PODS else ""
                raise ForbiddenError(f"list {path.rpartition('/')[2]}{where}") from error
            raise ClusterUnreachableError(f"GET {path}: {error}") from error
        except ApiError as error:
            raise ClusterUnreachableError(str(error)) from error


class CapacityReader:
    """Reads the capacity of the namespace of an address."""

    def __init__(self, address: KubernetesAddress, api: KubernetesApi, clock: Clock, nodes: ClusterReader) -> None:
        self._cap = Cap(address.max_cpu_millicores, address.max_memory_bytes)
        self._address = address
        self._lists = ApiLists(api)
        self._nodes = nodes
        self._clock = clock
        self._rules: NamespaceObjects | None = None
        """Quotas and limit ranges of the namespace, and what the account may not read."""
        self._read_s = 0.0

    async def read(self, own_pods: Sequence[Json]) -> Capacity:
        """Return the capacity; `own_pods` are the drivers and executors of adaptive jobs. Raises `ClusterUnreachableError`."""
        return capacity(*await self._known(own_pods))

    async def never_fits(self, role: str, request: Request) -> str:
        """Return why the cluster never has room for a driver or an executor, see `capacity.never_fits`. Raises `ClusterUnreachableError`."""
        return never_fits(*await self._known(()), role, request)

    async def _known(self, own_pods: Sequence[Json]) -> tuple[NamespaceObjects, ClusterPods | None]:
        known = replace(await self._current_rules(), own_pods=own_pods)
        try:
            return known, await self._nodes.read()
        except ForbiddenError as error:
            return replace(known, forbidden=[str(error), *known.forbidden]), None

    async def _current_rules(self) -> NamespaceObjects:
        if self._rules is None or self._clock.elapsed - self._read_s >= RULES_INTERVAL_S:
            self._read_s = self._clock.elapsed
            found = {name: await self._list(name) for name in ("resourcequotas", "limitranges")}
            self._rules = NamespaceObjects(
                namespace=self._address.namespace,
                own_pods=(),
                quotas=found["resourcequotas"] or (),
                limit_ranges=found["limitranges"] or (),
                cap=self._cap,
                has_node_autoscaling=self._address.has_node_autoscaling,
                forbidden=[f"list {name}" for name, items in found.items() if items is None],
            )
        return self._rules

    async def _list(self, collection: str) -> Sequence[Json] | None:
        """Return a collection of the namespace, None if the account may not read it."""
        try:
            page = await self._lists.page(f"/api/v1/namespaces/{self._address.namespace}/{collection}", {})
        except ForbiddenError:
            return None
        items: Sequence[Json] = page["items"]
        return items
