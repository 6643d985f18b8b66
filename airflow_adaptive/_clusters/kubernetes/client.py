"""Client of a Kubernetes cluster: drivers are pods that the client creates through the API, without spark-submit.

Theory: the connections of two jobs may differ in Spark properties or in the cap, and still lead to the same cluster with the same credentials.
Clients share their reads if they have the same `ApiSource`. Clients with other credentials share nothing, because one account may read
what another account must not.

The log of a container contains the output of Python and the log of the JVM, interleaved by line. The readers of a driver's output need them apart: the last exception of Python
explains the end of a script, and the lines of Spark's log that follow are no part of its message.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_adaptive._clusters.kubernetes.address import ApiSource, KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi, Query, RefusedError
from airflow_adaptive._clusters.kubernetes.capacity.capacity import UnboundedError
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import pod_request
from airflow_adaptive._clusters.kubernetes.capacity.reader import ApiLists, CapacityReader, ClusterReader
from airflow_adaptive._clusters.kubernetes.capacity.workers import departure
from airflow_adaptive._clusters.kubernetes.driver.manifests import driver_manifests, mount_code
from airflow_adaptive._clusters.kubernetes.driver.status import (
    CONTAINER,
    container_error,
    driver_status,
    failed_init_container,
    is_node_lost,
    waiting_reason,
)
from airflow_adaptive._clusters.kubernetes.driver_objects import DriverObjects
from airflow_adaptive._clusters.kubernetes.driver_refusals import (
    DriverEvents,
    DriverRefusals,
    can_work,
    executor_failure,
    other_image,
    spark_container,
)
from airflow_adaptive._clusters.kubernetes.job_pods import DriverPod, JobPods, job_pods, request_difference
from airflow_adaptive._clusters.kubernetes.names import (
    APPLICATION,
    JOB,
    MANAGED_BY,
    MANAGER,
    ROLE,
    DriverIdentity,
    Json,
    job_name,
    read_submission_id,
    submission_id,
)
from airflow_adaptive._clusters.kubernetes.pod_watch import PodWatch
from airflow_adaptive._clusters.kubernetes.prerequisites import Prerequisites
from airflow_adaptive._clusters.properties import masked
from airflow_adaptive._core.ports import (
    ActiveDriver,
    Clock,
    ClusterRefusedError,
    ClusterSnapshot,
    ClusterUnreachableError,
    DriverLog,
    DriverSubmission,
    LogPages,
    NotSubmittedError,
    Request,
    SubmissionState,
    SubmissionStatus,
)
from airflow_adaptive._core.protocol.failures import redact

log = logging.getLogger(__name__)

ACTIVE: Final = (SubmissionState.SUBMITTED, SubmissionState.RUNNING)

LOG_LINES: Final = 400
LOG_BYTES: Final = 1 << 20
"""Largest end of a log that is read."""

LOG_CHARACTERS: Final = 16 * 1024

MAX_NAMED: Final = 10
"""Ignored pods that the log names at a time."""

END_LINES: Final = 20
"""Lines of each stream in the task log after a normal end. Airflow may lose long records, so each line is a record."""

LINE_CHARACTERS: Final = 300


class KubernetesCluster:
    """A `ClusterClient` for one namespace of a Kubernetes cluster. All jobs of a process share the client."""

    def __init__(self, address: KubernetesAddress, source: ApiSource, clock: Clock) -> None:
        self._address = address
        self._reads = ClusterReads.of(source, address.timeout_s, clock)
        self._api = self._reads.api
        self._objects = DriverObjects(self._api, address.namespace)
        self._watch = self._reads.acquire(address.namespace)
        self.hints = self._watch.hints
        self._capacity = CapacityReader(address, self._api, clock, self._reads.nodes)
        self._prerequisites = Prerequisites(self._api, address)
        self._events = DriverEvents(self._api, address.namespace, clock)
        self._refusals = DriverRefusals(self._end_of_log, clock)
        self._killed: set[str] = set()
        """Uids of the pods that this process has killed."""
        self._deletions: asyncio.Task[None] | None = None
        self._ignored: set[str] = set()
        """Uids of the pods that are reported as ignored."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.master_url!r}, {self._address.namespace!r})"

    async def check(self, driver: Request | None = None, executor: Request | None = None) -> None:
        """Check the version of the cluster, the permissions of the account, that something bounds the number of executors, and the sizes of pods.

        Raises `ClusterRefusedError` or `ClusterUnreachableError`.
        """
        await self._prerequisites.check()
        try:
            await self.snapshot()
        except UnboundedError as error:
            raise ClusterRefusedError(str(error)) from error
        requests = {"driver": driver, "executor": executor}
        found = [await self._capacity.never_fits(role, each) for role, each in requests.items() if each is not None]
        if misfits := "; ".join(filter(None, found)):
            raise ClusterRefusedError(misfits)

    async def snapshot(self) -> ClusterSnapshot:
        """Return the drivers and executors of the namespace, and its capacity. Raises `ClusterUnreachableError`."""
        pods = await self._watch.pods()
        found, known = await self._capacity.read(pods), self._job_pods(pods)
        drivers = known.drivers.values()
        self._begin_deletions([driver for driver in drivers if driver.executors and self._is_over(driver.pod)])
        refusals = self._refusals.of_executors(
            driver.identity.pod
            for driver in drivers
            if not driver.executors and driver_status(driver.pod).state is SubmissionState.RUNNING
        )
        described = await asyncio.gather(
            *(self._active_driver(driver, refusals.get(driver.identity.pod, ""), found.nodes) for driver in drivers)
        )
        active = {
            _submission_id(driver.pod): status
            for driver, status in zip(drivers, described, strict=True)
            if status is not None
        }
        granted, pending = (
            {driver.identity.pod: cores for driver in drivers if (cores := driver.total_cores(with_node=with_node))}
            for with_node in (True, False)
        )
        return ClusterSnapshot(
            workers=found.workers,
            granted=granted,
            pending=pending,
            master_url=self._address.master_url,
            log_pages={
                _submission_id(driver.pod): pages
                for driver in drivers
                if (pages := self._log_pages(driver.identity.pod)) is not None
            },
            names={
                driver.identity.pod: driver.identity.job for driver in drivers if _submission_id(driver.pod) in active
            },
            drivers=active,
            limits=found.limits,
            executor_workers={driver.identity.pod: driver.workers(found.worker_of) for driver in drivers},
        )

    async def submit(self, submission: DriverSubmission) -> str:
        """Create a driver and return its submission id; a repeated submission returns the id of the same driver.

        Raises `NotSubmittedError`, `ClusterUnreachableError` (whether it was created is unknown) or `SubmissionRefusedError`.
        """
        submission, code = await mount_code(submission)
        manifests = driver_manifests(submission, self._address, code)
        replaces = not submission.is_standby  # A standby starts while the driver of an earlier epoch runs.
        try:
            if replaces:
                await self._objects.delete_before(manifests.identity, ended=False)
        except ClusterUnreachableError as error:
            raise NotSubmittedError(str(error)) from error
        try:
            pod = await self._objects.create(manifests)
        except NotSubmittedError:
            if replaces:
                await self._delete_ended(manifests.identity)  # They may use the quota.
            raise
        self._watch.cache.add(pod)
        await self._delete_ended(manifests.identity, replaces=replaces)
        name, namespace = manifests.identity.pod, self._address.namespace
        if (label := job_name(submission.name)) != submission.name:
            log.info(
                "The id of job %s is not a short DNS label. Its objects have the label %s=%s",
                submission.name,
                JOB,
                label,
            )
        log.info("Job %s is pod %s. Its logs: %s", submission.name, name, self._log_command(name))
        selector = f"{APPLICATION}={name},{ROLE}=executor"
        log.info("The logs of its executors: kubectl --namespace %s logs --selector %s --prefix", namespace, selector)
        log.info("Its Spark UI on http://localhost:4040: kubectl --namespace %s port-forward %s 4040", namespace, name)
        return _submission_id(pod)

    async def status(self, submission_id: str) -> SubmissionStatus:
        """Return the state of a driver. Raises `ClusterUnreachableError`."""
        name, uid = read_submission_id(submission_id)
        known = await self._watch.find(uid)
        if known is None:
            message = "the API server has no pod of this driver"
            return SubmissionStatus(state=SubmissionState.UNKNOWN, message=message, log_command="")
        status = driver_status(
            known.object, is_gone=known.is_gone, is_deleted=known.is_deleted, is_killed=uid in self._killed
        )
        has_log = not (known.is_gone or known.is_deleted or is_node_lost(known.object))
        status = replace(status, log_command=self._log_command(name) if has_log else "")
        if (
            status.state is SubmissionState.FAILED
            and not known.is_gone
            and (refusal := await self._refusals.at_end(name))
        ):
            return replace(status, message=refusal, can_start=False)
        return await self._events.explain(known.object, status)

    async def kill(self, submission_id: str) -> None:
        """Delete the pod of a driver, and its executors. A repeated request, or one for a driver that has ended, is not an error.

        The garbage collector deletes the executors only after the pod of the driver is gone, which takes until a lost node returns.

        Raises `ClusterUnreachableError`.
        """
        name, uid = read_submission_id(submission_id)
        await self._watch.start()
        known = self._watch.cache.find(uid)
        has_ended = known is not None and driver_status(known.object, is_deleted=known.is_deleted).state.over
        if uid and not has_ended:  # The pod of a driver that has ended keeps the log.
            self._killed.add(uid)
            await self._objects.delete(name, uid)
        driver = self._job_pods(self._watch.cache.pods).drivers.get(uid)
        if driver is not None:
            await self._delete_executors([driver])

    async def kill_epochs(self, job: str, nonce: str, epochs: Collection[int]) -> None:
        """Kill drivers by their epochs, see `ClusterClient`. A driver without a node neither starts nor ends by itself."""
        self._objects.nonces[job] = nonce
        label = job_name(job)
        pods = [pod for pod in await self._watch.pods() if pod["metadata"]["labels"].get(JOB) == label]
        for driver in job_pods(pods).drivers.values():
            found = driver.identity
            if (found.job, found.nonce) == (job, nonce) and found.epoch in epochs and not self._is_over(driver.pod):
                log.info("Driver %s is deleted, because its epoch is not to run any more", found.pod)
                await self.kill(_submission_id(driver.pod))

    async def driver_log(self, submission_id: str) -> DriverLog:
        """Return the end of a driver's output; see `ClusterClient.driver_log`."""
        name, uid = read_submission_id(submission_id)
        known = await self._watch.find(uid)
        if known is None or known.is_gone or is_node_lost(known.object):  # Only the node has the log.
            return DriverLog()
        try:
            failed = failed_init_container(known.object).get("name")
            text = await self._end_of_log(name, {"container": failed} if failed else {})
        except RefusedError as error:  # The container has not started, or the pod is gone.
            log.info("The log of %s cannot be read: %s", name, error)
            return DriverLog(waits=await self._executor_waits(name))
        except ApiError as error:
            raise ClusterUnreachableError(f"the log of {name} cannot be read now: {error}") from error
        if failed:  # Its last lines are the cause, whatever wrote them.
            return DriverLog(stderr=text[-LOG_CHARACTERS:])
        return replace(separated(text[-LOG_CHARACTERS:]), waits=await self._executor_waits(name))

    async def _end_of_log(self, pod: str, query: Query) -> str:
        """Return the end of the log of a pod, with the secrets of the cluster masked. Raises `ApiError`."""
        path = f"/api/v1/namespaces/{self._address.namespace}/pods/{pod}/log"
        limits: Query = {"container": CONTAINER, "tailLines": LOG_LINES, "limitBytes": LOG_BYTES}
        return masked(await self._api.text(path, {**limits, **query}), self._address.secrets)

    async def clean_up(self, job: str) -> None:
        """Delete the pods of the drivers of a job that has ended, and with them all their objects. Raises `ClusterUnreachableError`.

        The pod of a driver that has ended normally contains its output, so the end of the output is logged before.
        """
        await self._log_output(job)
        await self._objects.clean_up(job)

    async def close(self) -> None:
        """End the watch, and close the connections, unless other clients share them."""
        if self._deletions is not None:
            self._deletions.cancel()
            await asyncio.wait({self._deletions})
        try:
            await self._refusals.close()
            await self._events.close()
        finally:
            await self._reads.release(self._address.namespace)

    def _job_pods(self, pods: Sequence[Json]) -> JobPods:
        """Return the drivers and executors, and log once which pods have their labels and are none."""
        found = job_pods(pods)
        names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
        new = [uid for uid in found.ignored if uid not in self._ignored]
        for uid in new[:MAX_NAMED]:
            log.warning(
                "Pod %s of namespace %s has the labels of a driver or an executor, and is ignored: %s",
                names[uid],
                self._address.namespace,
                found.ignored[uid],
            )
        if len(new) > MAX_NAMED:
            log.warning(
                "%d more pods of namespace %s have the labels of drivers or executors, and are ignored",
                len(new) - MAX_NAMED,
                self._address.namespace,
            )
        self._ignored = {*found.ignored}
        return found

    def _is_over(self, driver: Json) -> bool:
        return driver["metadata"]["uid"] in self._killed or driver_status(driver).state.over

    def _begin_deletions(self, drivers: Sequence[DriverPod]) -> None:
        """Delete the executors of drivers that have ended or were killed, in the background: they hold room that the next driver needs.

        An executor that waits for a node does not notice the end of its driver. The next snapshot deletes what remains.
        """
        if drivers and (self._deletions is None or self._deletions.done()):
            self._deletions = asyncio.create_task(self._delete_executors(drivers))

    async def _delete_executors(self, drivers: Iterable[DriverPod]) -> None:
        executors = [pod["metadata"] for driver in drivers for pod in driver.executors.values()]
        deletions = (self._objects.delete(pod["name"], pod["uid"]) for pod in executors)
        try:
            await asyncio.gather(*deletions)
        except ClusterUnreachableError as error:
            log.warning("An executor of a driver that has ended remains: %s", error)

    async def _active_driver(self, driver: DriverPod, refusal: str, nodes: Mapping[str, Json]) -> ActiveDriver | None:
        """Return a driver that has not ended; `refusal` is why the API server refuses its executors."""
        pod = driver.pod
        status = driver_status(pod)
        if status.state not in ACTIVE:
            return None
        if status.state is SubmissionState.RUNNING:
            message, can_start = (refusal, False) if refusal else await self._executors(driver)
            status = replace(status, message=message, can_start=can_start)
        status = await self._events.explain(pod, status)
        name = str(pod["spec"].get("nodeName") or "")
        node = nodes.get(name)
        return ActiveDriver(
            state=status.state,
            request=pod_request(pod),
            message=status.message,
            can_start=status.can_start,
            leaves=None if node is None else departure(node, pod),
            worker_address=name,
        )

    async def _executor_waits(self, driver: str) -> str:
        """Return why an executor of a driver waits, from its pod, the events of the pod or its log, or why the last one failed; "" if unknown."""
        for known in self._job_pods(await self._watch.pods()).drivers.values():
            for pod in known.executors.values() if known.identity.pod == driver else ():
                if reason := await self._wait_of_executor(pod):
                    return f"executor pod {pod['metadata']['name']} waits: {reason.message}"
                if problem := await self._problem_of_executor(pod):
                    return f"executor pod {pod['metadata']['name']}{other_image(pod, known.pod)}: {problem}"
            if known.identity.pod == driver and (
                failed := self._watch.cache.failed_executor(known.pod["metadata"]["uid"])
            ):
                cause, output = executor_failure(failed)
                return masked(f"{cause}; its last output: {output}" if output else cause, self._address.secrets)
        return ""

    async def _wait_of_executor(self, pod: Json) -> SubmissionStatus | None:
        """Return why an executor waits, and whether it may start; None if it does not wait, or for an unknown reason."""
        if pod["status"].get("phase") != "Pending":
            return None
        error = container_error(pod, spark_container(pod))
        status = SubmissionStatus(
            state=SubmissionState.SUBMITTED, message=error or waiting_reason(pod), can_start=not error
        )
        explained = await self._events.explain(pod, status)
        return explained if explained.message else None

    async def _problem_of_executor(self, pod: Json) -> str:
        """Return the newest exception in the log of an executor that runs, "" if unknown. One that cannot register ends only after two minutes."""
        if pod["status"].get("phase") != "Running":
            return ""
        try:
            text = await self._end_of_log(pod["metadata"]["name"], {"container": spark_container(pod)})
        except ApiError as error:
            log.info("The log of %s cannot be read: %s", pod["metadata"]["name"], error)
            return ""
        return newest_exception(text)

    async def _executors(self, driver: DriverPod) -> tuple[str, bool]:
        """Return what is unusual about the executors of a running driver, and whether it has, had or may get an executor."""
        errors: dict[str, str] = {}
        waits: list[str] = []
        for number, pod in driver.executors.items():
            found = await self._wait_of_executor(pod)
            if found is not None and not found.can_start:
                errors[number] = f"executor {pod['metadata']['name']} cannot start: {found.message}"
            elif found is not None:
                waits.append(f"an executor waits: {found.message}")
        failed = self._watch.cache.failed_executor(driver.pod["metadata"]["uid"])
        failures = [executor_failure(failed)[0]] if failed else []
        unusual = [*errors.values(), *waits, *failures, request_difference(driver.pod, driver.executors.values())]
        return unusual[0], can_work([*driver.executors], len(errors))

    def _log_command(self, pod: str) -> str:
        return f"kubectl --namespace {self._address.namespace} logs {pod}"

    def _log_pages(self, pod: str) -> LogPages | None:
        """Return the page of a log collector, which shows both streams of a container together."""
        page = self._address.log_page(pod)
        return LogPages(stdout=page, stderr=page) if page else None

    async def _log_output(self, job: str) -> None:
        """Log the end of the output of the newest driver, if it has ended normally. The log of a driver that failed is part of its diagnosis."""
        known = self._job_pods(self._watch.cache.pods).drivers.values()
        drivers = [driver for driver in known if driver.identity.job == job]
        newest = max(drivers, key=lambda driver: driver.identity.epoch, default=None)
        if newest is None or driver_status(newest.pod).state is not SubmissionState.FINISHED:
            return
        try:
            written = await self.driver_log(_submission_id(newest.pod))
        except ClusterUnreachableError as error:
            log.info("%s", error)
            return
        for name, text in (("stdout", written.stdout), ("stderr", written.stderr)):
            for line in text.splitlines()[-END_LINES:]:
                log.info("%s %s | %s", newest.identity.pod, name, redact(line)[:LINE_CHARACTERS])

    async def _delete_ended(self, identity: DriverIdentity, *, replaces: bool = True) -> None:
        """Delete what ended drivers of earlier epochs left. A failure must not fail a submission; the next submission tries again."""
        try:
            await self._objects.delete_before(identity, ended=True, running=replaces)
        except ClusterUnreachableError as error:
            log.warning("Objects of earlier drivers of %s remain: %s", identity.job, error)


def _submission_id(pod: Json) -> str:
    return submission_id(pod["metadata"]["name"], pod["metadata"]["uid"])


class ClusterReads:
    """The reads of one cluster with the same credentials. `acquire` opens them, and the last `release` closes them."""

    def __init__(self, source: ApiSource, timeout_s: float, clock: Clock) -> None:
        self.api = KubernetesApi(source, timeout_s)
        self.nodes = ClusterReader(ApiLists(self.api), clock)
        self._source = source
        self._clock = clock
        self._watches: dict[str, PodWatch] = {}
        self._users: Counter[str] = Counter()

    @classmethod
    def of(cls, source: ApiSource, timeout_s: float, clock: Clock) -> ClusterReads:
        """Return the reads of a source, which the caller acquires."""
        return _open.get(source) or cls(source, timeout_s, clock)

    def acquire(self, namespace: str) -> PodWatch:
        """Return the watch of the drivers and executors in a namespace, and share it until `release`."""
        _open[self._source] = self
        self._users[namespace] += 1
        if namespace not in self._watches:
            self._watches[namespace] = PodWatch(self.api, namespace, f"{MANAGED_BY}={MANAGER}", self._clock)
        return self._watches[namespace]

    async def release(self, namespace: str) -> None:
        """End the use of a namespace. Its last user ends the watch, and the last user of all closes the connections."""
        self._users[namespace] -= 1
        if self._users[namespace]:
            return
        del self._users[namespace]
        watch = self._watches.pop(namespace)
        is_last = not self._users
        if is_last:
            del _open[self._source]
        await watch.close()
        if is_last:
            await self.nodes.close()
            await self._source.close()


_open: dict[ApiSource, ClusterReads] = {}
"""The reads that have users."""


JVM_LINE: Final = re.compile(
    r"\S+ \S+ (?:FATAL|ERROR|WARN|INFO|DEBUG|TRACE) |"
    r"NOTE: |WARNING: |SLF4J|Using Spark's default log4j|Setting (?:default|Spark) log level|To adjust logging level|"
    r'Files \S+ from |Exception in thread |log4j:|\{"ts":'
)
"""First line of a message of the JVM, of Spark's log, or of spark-submit."""

CONTINUED: Final = re.compile(r"\t|Caused by: |\s+\.\.\. \d+ ")
"""Line of a stack trace of Java, which belongs to the line before it."""

JAVA_EXCEPTION: Final = re.compile(r"[a-z][\w$]*(\.[\w$]+)+(: |$)")
"""First line of a stack trace of Java, below the message of the JVM that it explains."""


def separated(text: str) -> DriverLog:
    """Return the output of a driver's container, with the log of the JVM as the standard error."""
    python: list[str] = []
    jvm: list[str] = []
    current = python
    for line in text.splitlines(keepends=True):
        is_explained = current is jvm and JAVA_EXCEPTION.match(line)
        if not is_explained and not CONTINUED.match(line):
            current = jvm if JVM_LINE.match(line) else python
        current.append(line)
    return DriverLog(stdout="".join(python), stderr="".join(jvm))


def newest_exception(text: str) -> str:
    """Return the last exception of Java in the output of a container, or its cause; "" without one."""
    lines = [line.removeprefix("Caused by: ") for line in text.splitlines()]
    return next((line for line in reversed(lines) if JAVA_EXCEPTION.match(line)), "")
