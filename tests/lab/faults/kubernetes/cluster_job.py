"""A job on the test cluster for tests that break something. Its loop runs in a thread, so that the tests can wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Driver, SchedulerState
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.loop import Loop
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.sink_log import BatchWrite
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import MOST_EXECUTORS, NO_OPTIONS, TIMEOUT_S, StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace
from tests.support.kubernetes.node import Node

SCRIPT: Final = Path(__file__).with_name("job_script.py")

DRIVERS: Final = "spark-role=driver"
EXECUTORS: Final = "spark-role=executor"

OBJECTS_TIMEOUT_S: Final = 180.0
"""The controllers delete the pods of a node that does not exist after a minute."""

ACCOUNT: Final = ("Role spark", "RoleBinding spark", "ServiceAccount spark")
"""Objects of the namespace without the objects of a job."""

Found = TypeVar("Found")


class ClusterJob:
    """One job, its loop and its driver.

    Attributes:
        team: namespace of the job.
        recovery_s: from the fault until the rows that came with the fault were in the output.
    """

    def __init__(self, cluster: KubernetesCluster, team: Namespace, portal: BlockingPortal, job: StreamingJob) -> None:
        self.team = team
        self.recovery_s = 0.0
        self._cluster = cluster
        self._portal = portal
        self._job = job
        self._deployment = ExitStack()
        self._attempts = 0
        self._loop: Loop | None = None
        self._struck_at = 0.0

    # ---- what people do ----

    def deploy(self, conf: Mapping[str, str] | None = None) -> None:
        """Run the job, or another deployment of the job with other Spark properties."""
        self.close()
        self._attempts += 1
        running = self._job.running(str(self._attempts), conf)
        self._loop = self._deployment.enter_context(self._portal.wrap_async_context_manager(running))

    def request(self, parallelism: int) -> None:
        """Set the upper bound of the parallelism."""
        bounds = {"job": ParallelismRange(1, parallelism)}
        self._job.store.requests = replace(self._job.store.requests, requirements=bounds)

    def driver_killer(self) -> Callable[[], None]:
        """Return a function that kills the processes of the current driver without the API server."""
        uid = self.team.api.get(self.driver_path)["metadata"]["uid"]
        return partial(self.driver_node.kill_pod, uid)

    def feed(self, files: int = 2) -> None:
        """Add input files."""
        self._job.feed(files)

    def close(self) -> None:
        """End the loop."""
        self._deployment.close()

    # ---- what everybody sees ----

    def writes(self) -> list[BatchWrite]:
        """Return the attempts of all drivers to write a batch."""
        return self._job.writes()

    @property
    def loop(self) -> Loop:
        """The loop of the newest deployment."""
        assert self._loop is not None
        return self._loop

    @property
    def state(self) -> SchedulerState:
        """State of the scheduler."""
        return self.loop.state

    @property
    def epoch(self) -> int:
        """Epoch of the newest driver."""
        return self.state.epoch

    @property
    def driver_pod(self) -> str:
        """Name of the pod of the driver."""
        assert self.state.driver is not None
        return pod_of(self.state.driver)

    @property
    def standby_pod(self) -> str:
        """Name of the pod of the standby that is prepared, "" without one."""
        standby = self.state.standby
        return "" if standby.driver is None or not standby.is_prepared else pod_of(standby.driver)

    @property
    def driver_path(self) -> str:
        """Path of the pod of the driver."""
        return self.team.path("pods", self.driver_pod)

    @property
    def driver_node(self) -> Node:
        """Node of the driver."""
        return self.node_of(self.driver_pod)

    def node_of(self, pod: str) -> Node:
        """Return the node of a pod."""
        return self._cluster.node(self.team.api.get(self.team.path("pods", pod))["spec"]["nodeName"])

    @property
    def node_names(self) -> list[str]:
        """Names of all nodes."""
        return [node.name for node in self._cluster.nodes]

    def failures(self) -> str:
        """Error classes and messages of all failures and of their concurrent failures, oldest first."""
        found = [failure for record in self.state.failures for failure in (record.failure, *record.concurrent)]
        return "\n".join(f"{failure.error_class}: {failure.message}" for failure in found)

    def reasons(self) -> list[ReasonCode]:
        """Reasons of all decisions, oldest first."""
        return [decision.reason_code for decision in self._job.store.views[-1].history.decisions]

    def is_executing(self, parallelism: int) -> bool:
        """Return whether the job runs with this parallelism."""
        now = self.state
        return now.name == "Executing" and now.plan is not None and sum(now.plan.parallelism.values()) == parallelism

    def wait_for(self, what: str, condition: Callable[[], Found | None], timeout_s: float = TIMEOUT_S) -> Found:
        """Wait. The error after the timeout describes the job."""
        try:
            return wait_until(condition, timeout_s, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def story(self) -> str:
        """Return what explains the state of the job."""
        return f"{self._portal.call(self._job.story, self.loop)}\n{self.failures()}"

    # ---- the fault ----

    def run_well(self, parallelism: int = MOST_EXECUTORS) -> None:
        """Wait until the job runs with this parallelism and all rows are in the output."""
        self.feed()
        self.wait_for(f"Executing with {parallelism} slots", lambda: self.is_executing(parallelism))
        self._portal.call(self._job.wait_rows)
        self.wait_for("a committed batch", lambda: self.state.driver is not None and self.state.driver.has_worked)

    def strike(self, fault: Callable[[], Any], state: str = "Executing") -> None:
        """Apply a fault. The job must be in the state before and directly after the fault. More input comes."""
        before = self.state
        assert before.name == state, self.story()
        fault()
        self._struck_at = time.monotonic()
        assert (self.state.name, self.epoch) == (state, before.epoch), self.story()
        self.feed()

    def since_fault(self) -> float:
        """Return the seconds since the fault."""
        return time.monotonic() - self._struck_at

    def last(self, seconds: float) -> None:
        """Wait until the fault has lasted for this time."""
        self.wait_for("the fault to last", lambda: self.since_fault() >= seconds)

    def wait_for_driver(self, epoch: int) -> None:
        """Wait until the job starts the driver of an epoch."""
        self.wait_for(f"the driver of epoch {epoch}", lambda: self.epoch >= epoch)
        assert self.epoch == epoch, self.story()

    def recover(self, parallelism: int | None = None) -> None:
        """Wait until the rows that came with the fault are in the output, and the job runs again."""
        self._portal.call(self._job.wait_rows)
        self.recovery_s = self.since_fault()
        if parallelism is None:
            self.wait_for("Executing", lambda: self.state.name == "Executing")
        else:
            self.wait_for(f"Executing with {parallelism} slots", lambda: self.is_executing(parallelism))

    # ---- the end ----

    def finish(self, *others: str) -> Outcome:
        """Suspend the job, wait until none of its objects remains, and return what came out.

        Args:
            others: objects of the test in the namespace.
        """
        self._portal.call(self._job.suspend, self.loop)
        self.close()
        expected = sorted([*ACCOUNT, *others])
        try:
            wait_until(lambda: self.team.remaining_objects() == expected, OBJECTS_TIMEOUT_S, "end of all objects")
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self.team.remaining_objects()} and not {expected}") from error
        return self._job.outcome(self.recovery_s)


def pod_of(driver: Driver) -> str:
    """Return the name of the pod of a driver that was submitted."""
    return (driver.submission_id or "").partition("@")[0]


@contextmanager
def created_job(
    cluster: KubernetesCluster, team: Namespace, root: Path, options: Mapping[str, Any] = NO_OPTIONS, **of_client: Any
) -> Iterator[ClusterJob]:
    """A job that was not deployed yet. At the end, its loop does not run.

    Args:
        cluster: test cluster.
        team: namespace with the account of the drivers.
        root: folder of the job.
        options: of the scheduler.
        of_client: arguments of `cluster_client`.
    """
    control_plane = cluster.control_plane
    with start_blocking_portal() as portal:
        connected = cluster_client(control_plane, team.name, **of_client)
        with portal.wrap_async_context_manager(connected) as client:
            conf = pod_properties(root, control_plane.url)
            streaming = StreamingJob(root, conf, client, script=SCRIPT, options=options)
            job = ClusterJob(cluster, team, portal, streaming)
            try:
                yield job
            finally:
                job.close()
