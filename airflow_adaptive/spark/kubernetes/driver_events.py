"""Events of a driver's pod, for a wait that the status of the pod does not explain, such as a volume that cannot be mounted."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_adaptive.ports import Clock, SubmissionState, SubmissionStatus
from airflow_adaptive.spark.kubernetes.api.errors import ApiError
from airflow_adaptive.spark.kubernetes.api.requests import KubernetesApi
from airflow_adaptive.spark.kubernetes.driver.status import VOLUME_ADVICE

log = logging.getLogger(__name__)

Json = Mapping[str, Any]

INTERVAL_S: Final = 3.0
"""Shortest time between two reads of the events of a driver."""

MOST_DRIVERS: Final = 1000
"""Drivers whose newest read is known."""

MISSING_VOLUME: Final = re.compile(
    r"FailedMount: .*(not found|references non-existent|hostPath type check failed)", re.IGNORECASE
)

IN_STATUS: Final = ("Failed", "BackOff")
"""Reasons of events about images and containers, which the status of the pod explains a moment later."""

PUBLISHED_LATER: Final = "kube-root-ca.crt"
"""ConfigMap that the controllers add to a new namespace."""


class DriverEvents:
    """Explains why drivers wait on a node. The account may lack the permission to list events, which only costs the explanation."""

    def __init__(self, api: KubernetesApi, namespace: str, clock: Clock) -> None:
        """Send nothing yet."""
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/events"
        self._clock = clock
        self._explained: dict[str, tuple[float, str]] = {}
        """Uid of a pod -> time of the newest read, and its result."""

    async def explain(self, pod: Json, status: SubmissionStatus) -> SubmissionStatus:
        """Return the status, with the cause of a wait on a node that the status does not contain."""
        if status.state is not SubmissionState.SUBMITTED or status.message or not pod["spec"].get("nodeName"):
            return status
        cause = await self._cause(pod)
        is_final = MISSING_VOLUME.search(cause) is not None
        return replace(status, message=f"{cause}: {VOLUME_ADVICE}" if is_final else cause, can_start=not is_final)

    async def _cause(self, pod: Json) -> str:
        uid, now = pod["metadata"]["uid"], self._clock.elapsed
        read_s, cause = self._explained.pop(uid, (now - INTERVAL_S, ""))
        if now - read_s >= INTERVAL_S:
            read_s, cause = now, await self._newest(pod)
        self._explained[uid] = read_s, cause
        while len(self._explained) > MOST_DRIVERS:
            del self._explained[next(iter(self._explained))]
        return cause

    async def _newest(self, pod: Json) -> str:
        selector = f"involvedObject.uid={pod['metadata']['uid']},type=Warning"
        try:
            page = await self._api.request("GET", self._path, query={"fieldSelector": selector})
        except ApiError as error:
            log.debug("The events of %s cannot be read: %s", pod["metadata"]["name"], error)
            return ""
        events = (event for event in page["items"] if _explains(event, pod))
        newest: Json = max(events, key=_time, default={})
        return ": ".join(" ".join(str(newest[part]).split()) for part in ("reason", "message") if newest.get(part))


def _explains(event: Json, pod: Json) -> bool:
    """Return whether an event explains a wait: the status does not, and what is missing is not created after the pod as usual."""
    # The ConfigMap and the Secret of the driver have the name of the pod.
    created_later, message = (pod["metadata"]["name"], PUBLISHED_LATER), str(event.get("message"))
    return event.get("reason") not in IN_STATUS and not any(name in message for name in created_later)


def _time(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
