"""Finds what the status of a driver's pod does not tell: refusals of the API server in its log, and the events of a pod that waits.

The API server evaluates the permissions of the driver's account, and the admission of executors, only when the driver sends its requests. Spark
logs the answers, and repeats requests for executors without an end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi
from airflow_adaptive._clusters.kubernetes.driver.properties import EXECUTOR_CONTAINER
from airflow_adaptive._clusters.kubernetes.driver.status import (
    CONTAINERS,
    INIT_CONTAINERS,
    OUT_OF_MEMORY,
    VOLUME_ADVICE,
    disruptions,
    failed_containers,
)
from airflow_adaptive._clusters.kubernetes.job_pods import CORES_VARIABLE
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import Clock, SubmissionState, SubmissionStatus

log = logging.getLogger(__name__)

INTERVAL_S: Final = 5
"""Shortest time between two reads of the log of a driver."""

RECENT_S: Final = 30
"""Age of the lines that are read of a running driver. Spark repeats a refused request every second."""

TIMEOUT_S: Final = 5.0
"""Longest wait for the log of a driver that has ended: a restart must not wait for its explanation."""

CONCURRENT: Final = 8

ReadLog = Callable[[str, Mapping[str, str | int]], Awaitable[str]]
"""Reads the end of the log of a driver; arguments are the name of the pod and parameters of the request. Raises `ApiError`."""


@dataclass(slots=True)
class _Read:
    text: str = ""
    at_s: float = -math.inf
    task: asyncio.Task[None] | None = None


class DriverRefusals:
    """The refusals of the drivers in a namespace."""

    def __init__(self, read_log: ReadLog, clock: Clock) -> None:
        self._read_log = read_log
        self._clock = clock
        self._reads: dict[str, _Read] = {}
        """Name of the pod of a driver -> newest read of its log."""
        self._slots = asyncio.Semaphore(CONCURRENT)

    def of_executors(self, drivers: Iterable[str]) -> Mapping[str, str]:
        """Return why the API server refuses executors, by driver without an executor. Their logs are read in the background."""
        reads = {driver: self._reads.pop(driver) if driver in self._reads else _Read() for driver in drivers}
        self._cancel()
        self._reads = reads
        for driver, read in reads.items():
            if read.task is None and self._clock.elapsed - read.at_s >= INTERVAL_S:
                read.task = asyncio.create_task(self._refresh(driver, read))
        return {driver: read.text for driver, read in reads.items()}

    async def at_end(self, driver: str) -> str:
        """Return the refusal that ended a driver, "" if the log contains none, or cannot be read."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return refusal_at_end(await self._read_log(driver, {}))
        except (ApiError, TimeoutError) as error:
            log.info("The log of %s cannot be searched for a refusal: %s", driver, str(error) or type(error).__name__)
            return ""

    async def close(self) -> None:
        """End the reads that are in progress."""
        tasks = self._cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _cancel(self) -> set[asyncio.Task[None]]:
        tasks = {read.task for read in self._reads.values() if read.task is not None}
        for task in tasks:
            task.cancel()
        return tasks

    async def _refresh(self, driver: str, read: _Read) -> None:
        try:
            async with self._slots:
                read.text = refusal_of_executors(await self._read_log(driver, {"sinceSeconds": RECENT_S}))
        except ApiError as error:
            log.debug("The log of %s cannot be read: %s", driver, error)
        finally:
            read.at_s = self._clock.elapsed
            read.task = None


EXCEPTION: Final = "KubernetesClientException: "
"""Of Spark's client, in the line of a refusal."""

REFUSED: Final = re.compile(
    r"\b[\w.]{1,253} (?:\"[^\"]{1,253}\" )?is (?:forbidden|invalid): (?!exceeded quota)|admission webhook \"[^\"]{1,253}\" denied the request"
)
"""An answer that stays the same. A quota may have room later, and a webhook that fails may answer later."""

TRACEBACK: Final = "Traceback (most recent call last)"

WITHOUT_EXECUTORS: Final = "stopped while waiting for backend"
"""In the exception of a session that Spark stopped because no executor came."""

WITHOUT_PERMISSION: Final = re.compile(r"User \"[^\"]*\" cannot \w+ resource")
POD_SECURITY: Final = "violates PodSecurity"

DETAILS: Final = "Received status: "
"""What follows the message of the API server."""

MAX_LINE: Final = 8192

MAX_CHARACTERS: Final = 700


def refusal_of_executors(log: str) -> str:
    """Return why the API server refuses executors, and the remedy; "" if the log contains no refusal."""
    text = _last(log)
    return text and f"the API server refuses the executors: {_cut(text)}: {_remedy(text)}"


def refusal_at_end(log: str) -> str:
    """Return why the API server refused a request without which the driver ended, and the remedy; "" if something else ended the driver."""
    if WITHOUT_EXECUTORS in log:
        return refusal_of_executors(log)
    text = _last(log.rpartition(TRACEBACK)[2])
    return text and f"the API server refused the driver: {_cut(text)}: {_remedy(text)}"


def _last(log: str) -> str:
    """Return the text of the last refusal, "" without one."""
    for line in reversed(log.splitlines()):
        text = line[:MAX_LINE].partition(EXCEPTION)[2].partition(DETAILS)[0]
        found = REFUSED.search(text)
        if found is not None:
            return text[found.start() :].strip(" .")
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ..."


def _remedy(text: str) -> str:
    if WITHOUT_PERMISSION.search(text):
        return (
            "bind the Role of docs/kubernetes/driver-account.yaml to the account of the driver (`service_account_name`)"
        )
    if POD_SECURITY in text:
        return "use docs/kubernetes/restricted-pod.yaml as `executor_pod_template`"
    return "correct `executor_pod_template`, and the properties of executors in `conf`"


LINES: Final = 5
"""Lines of the output of an executor that failed."""


def spark_container(executor: Json) -> str:
    """Return the name of Spark's container in the pod of an executor. A pod template can give it another name."""
    for container in executor["spec"].get("containers") or ():
        if any(each.get("name") == CORES_VARIABLE for each in container.get("env") or ()):
            return str(container["name"])
    return EXECUTOR_CONTAINER


def other_image(executor: Json, driver: Json) -> str:
    """Return the images of an executor and of its driver, "" if both have the same one, or it is unknown."""
    executors, drivers = _images(executor), _images(driver)
    is_known = executors and drivers and executors != drivers
    return f" (image {', '.join(executors)}; the driver has {', '.join(drivers)})" if is_known else ""


def _images(pod: Json) -> list[str]:
    return sorted({str(each["image"]) for each in pod["status"].get("containerStatuses") or () if each.get("image")})


def can_work(executors: Collection[str], errors: int) -> bool:
    """Return whether a driver has, had or may get an executor; `errors` is the number of executors that cannot start.

    Spark numbers the executors of a driver from 1, and keeps those that wait. If the highest number is higher than the number of executors, then
    others have ended, so the image was available before and may be available again.
    """
    has_first_executors_only = max(map(int, executors), default=0) <= len(executors)
    return not (executors and has_first_executors_only and errors == len(executors))


def executor_failure(executor: Json) -> tuple[str, str]:
    """Return why the pod of an executor has failed, and the last output of the container that ended with an error, "" without one.

    Kubernetes reports the output in the status of the pod, which Spark deletes at once (`pod_template.executor_template`).
    """
    ended = [*failed_containers(executor, INIT_CONTAINERS), *failed_containers(executor, CONTAINERS)]
    if not ended:
        return f"an executor has failed: {disruptions(executor) or 'for an unknown reason'}", ""
    name, end = ended[0]["name"], ended[0]["state"]["terminated"]
    reason = "" if end.get("reason") in (None, "Error") else f" ({end['reason']})"
    remedy = "raise spark.executor.memoryOverhead" if end.get("reason") == OUT_OF_MEMORY else ""
    cause = f"the container {name!r} of an executor ended with exit code {end['exitCode']}{reason}"
    lines = [" ".join(line.split()) for line in str(end.get("message") or "").splitlines()]
    return ": ".join(filter(None, [cause, disruptions(executor), remedy])), " | ".join(filter(None, lines[-LINES:]))


EVENTS_INTERVAL_S: Final = 3.0
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
        """Return the warnings about the pods of the namespace, and read them in the background if they are older than `EVENTS_INTERVAL_S`."""
        if self._reading is None and self._clock.elapsed - self._read_s >= EVENTS_INTERVAL_S:
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
