"""One list and one watch of the drivers and executors in a namespace, for all jobs of a process."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from airflow_adaptive._clusters.kubernetes.api.errors import ApiError, NoAnswerError, RefusedError
from airflow_adaptive._clusters.kubernetes.api.pod_cache import Json, KnownPod, PodCache
from airflow_adaptive._clusters.kubernetes.api.requests import KubernetesApi
from airflow_adaptive._core.ports import Clock, ClusterUnreachableError

log = logging.getLogger(__name__)

WATCH_S: Final = 20
"""Time after which the API server ends a watch, and the watch is resumed. A connection without data for longer is broken."""

SHORTEST_S: Final = 1.0
"""A watch that the server ends earlier is resumed after a pause."""

PAGE_SIZE: Final = 500

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0

EVENTS: Final = ("ADDED", "MODIFIED", "DELETED")


class _WatchError(Exception):
    """The watch cannot be resumed where it ended: the pods have to be listed again."""


class PodWatch:
    """Keeps a `PodCache` up to date in the background, from the first use until `close`."""

    def __init__(self, api: KubernetesApi, namespace: str, selector: str, clock: Clock) -> None:
        """Send nothing yet.

        Args:
            api: API server.
            namespace: namespace of the pods.
            selector: label selector of the pods.
            clock: measures the time since the API server answered.
        """
        self.cache = PodCache()
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector
        self._clock = clock
        self._version: str | None = None
        """Version up to which the cache contains all changes, None if the pods have to be listed."""
        self._confirmed_s: float | None = None
        """When the API server last confirmed that the cache is complete, None if it has not yet."""
        self._error = "the API server has not answered yet"
        self._answered = asyncio.Event()
        """Set after the first list, or its failure."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the watch, and wait until the API server has answered, or has failed to answer.

        Only a watch that begins before a deletion receives the last object of a pod.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"watch {self._path}")
        await self._answered.wait()

    async def pods(self) -> list[Json]:
        """Return all pods. Raises `ClusterUnreachableError` if the newest known state is too old."""
        await self._require_current()
        return self.cache.pods

    async def find(self, uid: str) -> KnownPod | None:
        """Return the pod with a uid, None if no pod with this uid is known. Raises as `pods`."""
        await self._require_current()
        return self.cache.find(uid)

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    @property
    def _max_age_s(self) -> float:
        """Age at which the state is too old: a watch, and the longest pause and request between two watches."""
        return WATCH_S + LONGEST_PAUSE_S + 4 * self._api.timeout_s

    async def _require_current(self) -> None:
        await self.start()
        if self._confirmed_s is None or self._clock.elapsed - self._confirmed_s > self._max_age_s:
            raise ClusterUnreachableError(f"the pods of {self._path} cannot be watched: {self._error}")

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._list_or_watch()
                pause_s = FIRST_PAUSE_S
                continue
            except (ApiError, _WatchError) as error:
                self._fail(error)
            except Exception as error:
                log.exception("The watch of %s failed; it begins again", self._path)
                self._fail(error)
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _list_or_watch(self) -> None:
        if self._version is None:
            self._version = await self._list()
        else:
            await self._watch(self._version)
        self._confirmed_s = self._clock.elapsed
        self._answered.set()

    def _fail(self, error: Exception) -> None:
        """Record an error. Only a watch that ended in the middle can be resumed."""
        if isinstance(error, RefusedError) or not isinstance(error, ApiError):
            self._version = None
        self._error = str(error) or type(error).__name__
        self._answered.set()

    async def _list(self) -> str:
        pods: list[Json] = []
        query: dict[str, str | int] = {"labelSelector": self._selector, "limit": PAGE_SIZE}
        while True:
            page = await self._api.request("GET", self._path, query=query)
            pods += page["items"]
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"]:
                self.cache.replace(pods)
                return str(page["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> None:
        query: dict[str, str | int] = {
            "labelSelector": self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": WATCH_S,
        }
        begun_s = self._clock.elapsed
        async with self._api.stream(self._path, query, WATCH_S + self._api.timeout_s) as lines:
            async for line in lines:
                self._apply(json.loads(line))
        if self._clock.elapsed - begun_s < SHORTEST_S:
            raise NoAnswerError("the API server, or a proxy, ends watches at once")

    def _apply(self, event: Json) -> None:
        kind, changed = event["type"], event["object"]
        if kind == "ERROR":
            raise _WatchError(f"{changed.get('code')} {changed.get('message')}")
        if kind in EVENTS:
            self.cache.apply(kind, changed)
        self._version = str(changed["metadata"]["resourceVersion"])
        self._confirmed_s = self._clock.elapsed
