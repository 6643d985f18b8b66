"""Events of a driver's pod, for a wait that the status of the pod does not explain, such as a volume that cannot be mounted."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi
from airflow_adaptive._clusters.kubernetes.driver.status import VOLUME_ADVICE
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import Clock, SubmissionState, SubmissionStatus

log = logging.getLogger(__name__)

INTERVAL_S: Final = 3.0
"""Shortest time between two reads of the events of a namespace."""

LONGEST_WAIT_S: Final = 1.0
"""Longest time that a snapshot waits for a read. A slow API server then explains a wait in a later snapshot."""

MAX_EVENTS: Final = 1000

MISSING_VOLUME: Final = re.compile(
    r'FailedMount: .*((configmap|secret|persistentvolumeclaim) "[^"]*" not found|references non-existent|hostPath type check failed)',
    re.IGNORECASE,
)
"""Causes that do not end by themselves. Other objects, such as a CSI driver that is not registered yet, may appear."""

IN_STATUS: Final = ("Failed", "BackOff", "FailedScheduling")
"""Reasons of events about images, containers and nodes, which the status of the pod explains a moment later."""

SELECTOR: Final = ",".join(["involvedObject.kind=Pod", "type=Warning", *(f"reason!={reason}" for reason in IN_STATUS)])
"""Field selector of the events that may explain a wait."""

PUBLISHED_LATER: Final = "kube-root-ca.crt"
"""ConfigMap that the controllers add to a new namespace."""


class DriverEvents:
    """Explains why drivers wait on a node. The account may lack the permission to list events, which only costs the explanation.

    The API server reads all events of a namespace to find those of one pod. One list therefore serves all drivers that wait.
    """

    def __init__(self, api: KubernetesApi, namespace: str, clock: Clock) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/events"
        self._clock = clock
        self._reading: asyncio.Task[None] | None = None
        self._read_s = -math.inf
        self._warnings: Sequence[Json] = ()

    async def explain(self, pod: Json, status: SubmissionStatus) -> SubmissionStatus:
        """Return the status, with the cause of a wait on a node that the status does not contain."""
        is_explained = (
            status.state is not SubmissionState.SUBMITTED or status.message or not pod["spec"].get("nodeName")
        )
        has_volumes = _has_volumes(pod)
        if is_explained or has_volumes:
            return status
        events = [event for event in await self._read() if _explains(event, pod)]
        newest: Json = max(events, key=_time, default={})
        cause = ": ".join(" ".join(str(newest[part]).split()) for part in ("reason", "message") if newest.get(part))
        if MISSING_VOLUME.match(cause) is None:  # A search would try each `FailedMount: ` in the text of the event.
            return replace(status, message=cause)
        return replace(status, message=f"{cause}: {VOLUME_ADVICE}", can_start=has_volumes is not False)

    async def close(self) -> None:
        """End a read that is in progress."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read(self) -> Sequence[Json]:
        """Return the warnings about the pods of the namespace, and read them in the background if they are older than `INTERVAL_S`."""
        if self._reading is None and self._clock.elapsed - self._read_s >= INTERVAL_S:
            self._reading = asyncio.create_task(self._refresh())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=LONGEST_WAIT_S)
        return self._warnings

    async def _refresh(self) -> None:
        try:
            self._warnings = await self._list()
        except Exception:
            log.warning("The events of %s cannot be read", self._path, exc_info=True)
        finally:
            # The interval begins after the list, so a list that takes longer serves all that wait for it.
            self._read_s = self._clock.elapsed
            self._reading = None

    async def _list(self) -> Sequence[Json]:
        try:
            page = await self._api.request("GET", self._path, query={"fieldSelector": SELECTOR, "limit": MAX_EVENTS})
        except ApiError as error:
            log.debug("The events of %s cannot be read: %s", self._path, error)
            return ()
        events: Sequence[Json] = page["items"]
        return events


def _has_volumes(pod: Json) -> bool | None:
    """Return whether the kubelet has mounted all volumes of a pod; None before version 1.29, and if unknown.

    An event stays the newest warning of a pod after its cause has ended, for example while the image is pulled.
    """
    conditions = pod.get("status", {}).get("conditions") or ()
    status = next((each["status"] for each in conditions if each["type"] == "PodReadyToStartContainers"), "Unknown")
    return {"True": True, "False": False}.get(status)


def _explains(event: Json, pod: Json) -> bool:
    """Return whether an event explains the wait of a pod: what is missing is not created after the pod as usual."""
    # The ConfigMap and the Secret of the driver have the name of the pod.
    created_later, message = (pod["metadata"]["name"], PUBLISHED_LATER), str(event.get("message"))
    is_of_pod = event["involvedObject"].get("uid") == pod["metadata"]["uid"]
    return is_of_pod and not any(name in message for name in created_later)


def _time(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
