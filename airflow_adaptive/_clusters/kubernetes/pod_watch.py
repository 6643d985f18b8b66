"""One list and one watch of the drivers and executors in a namespace, for all jobs of a process.

Theory: the object of a pod can disappear while its processes run (force deletion, a lost node). The end of a driver is therefore
proven only by an object: an object with a terminated container, or the last object of a pod, which the watch event DELETED contains. The
cache keeps the last objects of drivers that are gone. A pod that disappeared between two lists has no last object.

Spark deletes the pod of an executor that has failed within a second, so the cache also keeps the last executor of each driver that failed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi, RefusedError, UnknownOutcomeError
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import is_terminal
from airflow_adaptive._clusters.kubernetes.job_pods import DRIVER, EXECUTOR, driver_identity, kept
from airflow_adaptive._clusters.kubernetes.names import ROLE, Json
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
        self.hints: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """Name of a job -> hint to its loop (`_engine.clock.Hint`), which gets it when the driver of the job ends."""
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
            raise UnknownOutcomeError("the API server, or a proxy, ends watches at once")

    def _apply(self, event: Json) -> None:
        kind, changed = event["type"], event["object"]
        if kind == "ERROR":
            raise _WatchError(f"{changed.get('code')} {changed.get('message')}")
        if kind in EVENTS:
            self.cache.apply(kind, changed)
            is_over = kind == "DELETED" or is_terminal(changed)
            if is_over and (driver := driver_identity(changed)) and (hint := self.hints.get(driver.job)):
                hint.give()
        self._version = str(changed["metadata"]["resourceVersion"])
        self._confirmed_s = self._clock.elapsed


Kept = TypeVar("Kept")

MAX_GONE: Final = 2000
"""Drivers that are gone and whose last objects are kept, and drivers whose last failed executor is kept. The loop of a job evaluates the last object within seconds."""


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod.

    Attributes:
        object: newest known object.
        is_deleted: whether the object is the last object, which the API server had when it removed the pod.
        is_gone: whether the API server has no object of this pod any more.
    """

    object: Json
    is_deleted: bool = False
    is_gone: bool = False


class PodCache:
    """The newest known object of each pod, without the parts that nothing uses (`job_pods.kept`)."""

    def __init__(self) -> None:
        self._pods: dict[str, Json] = {}
        self._gone: dict[str, KnownPod] = {}
        self._failed: dict[str, Json] = {}
        """Uid of a driver -> its last executor that failed."""

    @property
    def pods(self) -> list[Json]:
        """All pods that exist."""
        return [*self._pods.values()]

    def find(self, uid: str) -> KnownPod | None:
        """Return the pod with a uid, None if the pod is not known."""
        pod = self._pods.get(uid)
        return KnownPod(pod) if pod is not None else self._gone.get(uid)

    def failed_executor(self, driver: str) -> Json | None:
        """Return the last executor of a driver that failed, None without one."""
        return self._failed.get(driver)

    def replace(self, pods: Iterable[Json]) -> None:
        """Replace all pods with the result of a list."""
        listed = {_uid(pod): kept(pod) for pod in pods}
        for uid, pod in listed.items():
            self._gone.pop(uid, None)
            self._keep_failed(pod)
        for uid, pod in self._pods.items():
            if uid not in listed:
                self._forget(uid, KnownPod(pod, is_gone=True))
        self._pods = listed

    def add(self, pod: Json) -> None:
        """Add a pod that this process has created, if the watch has not reported the pod yet."""
        if self.find(_uid(pod)) is None:
            self._pods[_uid(pod)] = kept(pod)

    def apply(self, event: str, pod: Json) -> None:
        """Apply a watch event: ADDED, MODIFIED or DELETED."""
        uid = _uid(pod)
        if event == "DELETED":
            self._pods.pop(uid, None)
            self._forget(uid, KnownPod(kept(pod), is_deleted=True, is_gone=True))
        else:
            self._gone.pop(uid, None)
            self._pods[uid] = kept(pod)
            self._keep_failed(self._pods[uid])

    def _keep_failed(self, pod: Json) -> None:
        """Keep an executor that failed; one that is being deleted was ended by others."""
        metadata, is_failed = pod["metadata"], pod["status"].get("phase") == "Failed"
        if is_failed and metadata["labels"].get(ROLE) == EXECUTOR and not metadata.get("deletionTimestamp"):
            for owner in metadata.get("ownerReferences") or ():
                _keep(self._failed, str(owner.get("uid")), pod)

    def _forget(self, uid: str, last: KnownPod) -> None:
        if last.object["metadata"]["labels"].get(ROLE) == DRIVER:
            _keep(self._gone, uid, last)
            self._failed.pop(uid, None)


def _keep(kept_objects: dict[str, Kept], uid: str, newest: Kept) -> None:
    kept_objects.pop(uid, None)
    kept_objects[uid] = newest
    while len(kept_objects) > MAX_GONE:
        del kept_objects[next(iter(kept_objects))]


def _uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])
