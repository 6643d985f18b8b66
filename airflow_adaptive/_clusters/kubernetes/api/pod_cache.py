"""The pods of a namespace, as lists and watch events describe them. Pure.

Theory: the object of a pod can disappear while its processes run (force deletion, a lost node). The end of a driver is therefore
proven only by an object: an object with a terminated container, or the last object of a pod, which the watch event DELETED contains. The
cache keeps the last objects of drivers that are gone. A pod that disappeared between two lists has no last object.

Spark deletes the pod of an executor that has failed within a second, so the cache also keeps the last executor of each driver that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from airflow_adaptive._clusters.kubernetes.driver.names import ROLE
from airflow_adaptive._clusters.kubernetes.job_pods import DRIVER, EXECUTOR, kept

Json = Mapping[str, Any]

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
