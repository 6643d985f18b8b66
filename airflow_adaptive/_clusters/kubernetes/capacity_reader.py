"""Reads what the capacity of a namespace depends on, as far as the account of the client may read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api.errors import ApiError, RefusedError
from airflow_adaptive._clusters.kubernetes.api.requests import Json, KubernetesApi
from airflow_adaptive._clusters.kubernetes.capacity.capacity import Capacity, NamespaceObjects, capacity, never_fits
from airflow_adaptive._clusters.kubernetes.capacity.cluster_reader import (
    PODS,
    ClusterPods,
    ClusterReader,
    ExpiredError,
    ForbiddenError,
)
from airflow_adaptive._clusters.kubernetes.capacity.quota import Cap
from airflow_adaptive._core.ports import Clock, ClusterUnreachableError, Request

INTERVAL_S: Final = 2.0
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
                raise ForbiddenError(_verb(path)) from error
            raise ClusterUnreachableError(f"GET {path}: {error}") from error
        except ApiError as error:
            raise ClusterUnreachableError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Rules:
    """Quotas and limit ranges of the namespace, and what the account may not read."""

    quotas: Sequence[Json]
    limit_ranges: Sequence[Json]
    forbidden: Sequence[str]


class CapacityReader:
    """Reads the capacity of the namespace of an address."""

    def __init__(self, address: KubernetesAddress, api: KubernetesApi, clock: Clock, nodes: ClusterReader) -> None:
        """Send nothing yet.

        Args:
            address: namespace and cap.
            api: reads the quotas.
            clock: measures the age of the quotas.
            nodes: reads the nodes, and the pods of all namespaces.
        """
        self._namespace = address.namespace
        self._cap = Cap(address.max_cpu_millicores, address.max_memory_bytes)
        self._has_node_autoscaling = address.has_node_autoscaling
        self._lists = ApiLists(api)
        self._nodes = nodes
        self._clock = clock
        self._rules: _Rules | None = None
        self._read_s = 0.0

    async def read(self, own_pods: Sequence[Json]) -> Capacity:
        """Return the capacity.

        Args:
            own_pods: drivers and executors of adaptive jobs in the namespace.

        Raises:
            ClusterUnreachableError: the API server does not answer, or the account may not read anything that bounds the capacity.
        """
        return capacity(*await self._known(own_pods))

    async def never_fits(self, role: str, request: Request) -> str:
        """Return why the cluster never has room for a driver or an executor, see `capacity.never_fits`. Raises `ClusterUnreachableError`."""
        return never_fits(*await self._known(()), role, request)

    async def _known(self, own_pods: Sequence[Json]) -> tuple[NamespaceObjects, ClusterPods | None]:
        rules = await self._current_rules()
        pods, forbidden = await self._pods()
        known = NamespaceObjects(
            namespace=self._namespace,
            own_pods=own_pods,
            quotas=rules.quotas,
            limit_ranges=rules.limit_ranges,
            cap=self._cap,
            has_node_autoscaling=self._has_node_autoscaling,
            forbidden=[*forbidden, *rules.forbidden],
        )
        return known, pods

    async def _pods(self) -> tuple[ClusterPods | None, Sequence[str]]:
        try:
            return await self._nodes.read(), ()
        except ForbiddenError as error:
            return None, [str(error)]

    async def _current_rules(self) -> _Rules:
        if self._rules is None or self._clock.elapsed - self._read_s >= INTERVAL_S:
            self._read_s = self._clock.elapsed
            quotas, limit_ranges = await self._list("resourcequotas"), await self._list("limitranges")
            forbidden = [
                f"list {name}"
                for name, found in (("resourcequotas", quotas), ("limitranges", limit_ranges))
                if found is None
            ]
            self._rules = _Rules(quotas or (), limit_ranges or (), forbidden)
        return self._rules

    async def _list(self, collection: str) -> Sequence[Json] | None:
        """Return a collection of the namespace, None if the account may not read it."""
        try:
            page = await self._lists.page(f"/api/v1/namespaces/{self._namespace}/{collection}", {})
        except ForbiddenError:
            return None
        items: Sequence[Json] = page["items"]
        return items


def _verb(path: str) -> str:
    return f"list {path.rpartition('/')[2]}" + (" of all namespaces" if path == PODS else "")
