"""Client of a Kubernetes cluster: drivers are pods that the client creates through the API, without spark-submit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_adaptive.ports import (
    ActiveDriver,
    Clock,
    ClusterRefusedError,
    ClusterSnapshot,
    ClusterUnreachableError,
    DriverLog,
    DriverSubmission,
    LogPages,
    NotSubmittedError,
    SubmissionState,
    SubmissionStatus,
    redact,
)
from airflow_adaptive.spark.kubernetes.address import KubernetesAddress
from airflow_adaptive.spark.kubernetes.api.errors import ApiError, RefusedError
from airflow_adaptive.spark.kubernetes.api.requests import Json, Query
from airflow_adaptive.spark.kubernetes.api_source import ApiSource
from airflow_adaptive.spark.kubernetes.capacity.capacity import UnboundedError
from airflow_adaptive.spark.kubernetes.capacity.executors import by_application
from airflow_adaptive.spark.kubernetes.capacity.pod_requests import pod_request
from airflow_adaptive.spark.kubernetes.capacity_reader import CapacityReader
from airflow_adaptive.spark.kubernetes.cluster_reads import ClusterReads
from airflow_adaptive.spark.kubernetes.driver.code import mount_code
from airflow_adaptive.spark.kubernetes.driver.executor_start import can_work, executors_error
from airflow_adaptive.spark.kubernetes.driver.manifests import driver_manifests
from airflow_adaptive.spark.kubernetes.driver.names import (
    APPLICATION,
    EPOCH,
    JOB,
    ROLE,
    DriverIdentity,
    job_name,
    read_submission_id,
    submission_id,
)
from airflow_adaptive.spark.kubernetes.driver.output import separated
from airflow_adaptive.spark.kubernetes.driver.status import CONTAINER, driver_status, is_node_lost, waiting_reason
from airflow_adaptive.spark.kubernetes.driver_events import DriverEvents
from airflow_adaptive.spark.kubernetes.driver_objects import DriverObjects
from airflow_adaptive.spark.kubernetes.executor_requests import request_difference
from airflow_adaptive.spark.kubernetes.prerequisites import Prerequisites
from airflow_adaptive.spark.secrets import masked

log = logging.getLogger(__name__)

DRIVER: Final = "driver"
ACTIVE: Final = (SubmissionState.SUBMITTED, SubmissionState.RUNNING)

LOG_LINES: Final = 400
LOG_BYTES: Final = 1 << 20
"""Largest end of a log that is read."""

LOG_CHARACTERS: Final = 16 * 1024

END_LINES: Final = 20
"""Lines of each stream in the task log after a normal end. Airflow may lose long records, so each line is a record."""

LINE_CHARACTERS: Final = 300


class KubernetesCluster:
    """A `ClusterClient` for one namespace of a Kubernetes cluster. All jobs of a process share the client."""

    def __init__(self, address: KubernetesAddress, source: ApiSource, clock: Clock) -> None:
        """Create a client; it sends nothing yet.

        Args:
            address: API server, namespace and options.
            source: gives the API client. Clients with the same source share connections and reads; the last `close` closes the source.
            clock: measures the age of what the client knows.
        """
        self._address = address
        self._reads = ClusterReads.of(source, address.timeout_s, clock)
        self._api = self._reads.api
        self._objects = DriverObjects(self._api, address.namespace)
        self._watch = self._reads.acquire(address.namespace)
        self._capacity = CapacityReader(address, self._api, clock, self._reads.nodes)
        self._prerequisites = Prerequisites(self._api, address)
        self._events = DriverEvents(self._api, address.namespace, clock)
        self._killed: set[str] = set()
        """Uids of the pods that this process has killed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.master_url!r}, {self._address.namespace!r})"

    async def check(self) -> None:
        """Check the version of the cluster, the permissions of the account, and that something bounds the number of executors.

        Raises `ClusterRefusedError` or `ClusterUnreachableError`.
        """
        await self._prerequisites.check()
        try:
            await self.snapshot()
        except UnboundedError as error:
            raise ClusterRefusedError(str(error)) from error

    async def snapshot(self) -> ClusterSnapshot:
        """Return the drivers and executors of the namespace, and its capacity. Raises `ClusterUnreachableError`."""
        pods = await self._watch.pods()
        found = await self._capacity.read(pods)
        drivers = [pod for pod in pods if pod["metadata"]["labels"].get(ROLE) == DRIVER]
        executors = by_application(pods)
        described = [self._active_driver(pod, executors.get(pod["metadata"]["name"], {})) for pod in drivers]
        of_pods = zip(drivers, await asyncio.gather(*described), strict=True)
        active = {_submission_id(pod): driver for pod, driver in of_pods if driver is not None}
        return ClusterSnapshot(
            workers=found.workers,
            granted=found.executors.granted,
            pending=found.executors.pending,
            master_url=self._address.master_url,
            log_pages={_submission_id(pod): pages for pod in drivers if (pages := self._log_pages(pod)) is not None},
            names={pod["metadata"]["name"]: _job(pod) for pod in drivers if _submission_id(pod) in active},
            drivers=active,
            limits=found.limits,
            executor_workers=found.executors.workers,
        )

    async def submit(self, submission: DriverSubmission) -> str:
        """Create a driver and return its submission id; a repeated submission returns the id of the same driver.

        Raises `NotSubmittedError`, `ClusterUnreachableError` (whether it was created is unknown) or `SubmissionRefusedError`.
        """
        submission, code = await mount_code(submission)
        manifests = driver_manifests(submission, self._address, code)
        try:
            await self._objects.delete_before(manifests.identity, ended=False)
        except ClusterUnreachableError as error:
            raise NotSubmittedError(str(error)) from error
        try:
            pod = await self._objects.create(manifests)
        except NotSubmittedError:
            await self._delete_ended(manifests.identity)  # They may use the quota.
            raise
        self._watch.cache.add(pod)
        await self._delete_ended(manifests.identity)
        name, namespace = manifests.identity.pod, self._address.namespace
        if (label := job_name(submission.name)) != submission.name:
            log.info(
                "The id of job %s is not a short DNS label. Its objects have the label %s=%s",
                submission.name,
                JOB,
                label,
            )
        log.info("Job %s is pod %s. Its logs: kubectl --namespace %s logs %s", submission.name, name, namespace, name)
        selector = f"{APPLICATION}={name},{ROLE}=executor"
        log.info("The logs of its executors: kubectl --namespace %s logs --selector %s --prefix", namespace, selector)
        log.info("Its Spark UI on http://localhost:4040: kubectl --namespace %s port-forward %s 4040", namespace, name)
        return _submission_id(pod)

    async def status(self, submission_id: str) -> SubmissionStatus:
        """Return the state of a driver. Raises `ClusterUnreachableError`."""
        _, uid = read_submission_id(submission_id)
        known = await self._watch.find(uid)
        if known is None:
            return SubmissionStatus(state=SubmissionState.UNKNOWN, message="the API server has no pod of this driver")
        status = driver_status(
            known.object, is_gone=known.is_gone, is_deleted=known.is_deleted, is_killed=uid in self._killed
        )
        return await self._events.explain(known.object, status)

    async def kill(self, submission_id: str) -> None:
        """Delete the pod of a driver. A repeated request, or one for a driver that has ended, is not an error.

        Raises `ClusterUnreachableError`.
        """
        name, uid = read_submission_id(submission_id)
        await self._watch.start()
        known = self._watch.cache.find(uid)
        has_ended = known is not None and driver_status(known.object, is_deleted=known.is_deleted).state.over
        if uid and not has_ended:  # The pod of a driver that has ended keeps the log.
            self._killed.add(uid)
            await self._objects.delete(name, uid)

    async def driver_log(self, submission_id: str) -> DriverLog:
        """Return the end of a driver's output; see `ClusterClient.driver_log`."""
        name, uid = read_submission_id(submission_id)
        known = await self._watch.find(uid)
        if known is None or known.is_gone or is_node_lost(known.object):  # Only the node has the log.
            return DriverLog()
        path = f"/api/v1/namespaces/{self._address.namespace}/pods/{name}/log"
        query: Query = {"container": CONTAINER, "tailLines": LOG_LINES, "limitBytes": LOG_BYTES}
        try:
            text = await self._api.text(path, query)
        except RefusedError as error:  # The container has not started, or the pod is gone.
            log.info("The log of %s cannot be read: %s", name, error)
            return DriverLog(waits=await self._executor_waits(name))
        except ApiError as error:
            raise ClusterUnreachableError(f"the log of {name} cannot be read now: {error}") from error
        written = separated(masked(text[-LOG_CHARACTERS:], self._address.secrets))
        return replace(written, waits=await self._executor_waits(name))

    async def clean_up(self, job: str) -> None:
        """Delete the pods of the drivers of a job that has ended, and with them all their objects. Raises `ClusterUnreachableError`.

        The pod of a driver that has ended normally contains its output, so the end of the output is logged before.
        """
        await self._log_output(job)
        await self._objects.clean_up(job)

    async def close(self) -> None:
        """End the watch, and close the connections, unless other clients share them."""
        try:
            await self._events.close()
        finally:
            await self._reads.release(self._address.namespace)

    async def _active_driver(self, pod: Json, executors: Mapping[str, Json]) -> ActiveDriver | None:
        status = driver_status(pod)
        if status.state not in ACTIVE:
            return None
        if status.state is SubmissionState.RUNNING:
            message = executors_error(executors) or request_difference(pod, executors.values())
            status = replace(status, message=message, can_start=can_work(executors))
        status = await self._events.explain(pod, status)
        return ActiveDriver(
            state=status.state, request=pod_request(pod), message=status.message, can_start=status.can_start
        )

    async def _executor_waits(self, driver: str) -> str:
        """Return why an executor of a driver waits, from its pod or from the events of the pod; "" if none waits for a known reason."""
        for pod in await self._watch.pods():
            labels = pod["metadata"].get("labels") or {}
            is_executor = labels.get(APPLICATION) == driver and labels.get(ROLE) != DRIVER
            if is_executor and pod.get("status", {}).get("phase") == "Pending":
                status = SubmissionStatus(state=SubmissionState.SUBMITTED, message=waiting_reason(pod))
                if reason := (await self._events.explain(pod, status)).message:
                    return f"executor pod {pod['metadata']['name']} waits: {reason}"
        return ""

    def _log_pages(self, driver: Json) -> LogPages | None:
        """Return the page of a log collector, which shows both streams of a container together."""
        page = self._address.log_page(driver["metadata"]["name"])
        return LogPages(stdout=page, stderr=page) if page else None

    async def _log_output(self, job: str) -> None:
        """Log the end of the output of the newest driver, if it has ended normally. The log of a driver that failed is part of its diagnosis."""
        drivers = [pod for pod in self._watch.cache.pods if _is_driver(pod, job)]
        newest = max(drivers, key=lambda pod: int(pod["metadata"]["labels"][EPOCH]), default=None)
        if newest is None or driver_status(newest).state is not SubmissionState.FINISHED:
            return
        try:
            written = await self.driver_log(_submission_id(newest))
        except ClusterUnreachableError as error:
            log.info("%s", error)
            return
        for name, text in (("stdout", written.stdout), ("stderr", written.stderr)):
            for line in text.splitlines()[-END_LINES:]:
                log.info("%s %s | %s", newest["metadata"]["name"], name, redact(line)[:LINE_CHARACTERS])

    async def _delete_ended(self, identity: DriverIdentity) -> None:
        """Delete what ended drivers of earlier epochs left. A failure must not fail a submission; the next submission tries again."""
        try:
            await self._objects.delete_before(identity, ended=True)
        except ClusterUnreachableError as error:
            log.warning("Objects of earlier drivers of %s remain: %s", identity.job, error)


def _submission_id(pod: Json) -> str:
    return submission_id(pod["metadata"]["name"], pod["metadata"]["uid"])


def _job(pod: Json) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(JOB, ""))


def _is_driver(pod: Json, job: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get(ROLE) == DRIVER and labels.get(JOB) == job_name(job)
