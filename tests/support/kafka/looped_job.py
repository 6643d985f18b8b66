"""A job under a real loop, on the embedded cluster, with Spark's connector for Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from airflow_adaptive.local.cluster import HOST, LocalCluster
from tests.lab.fakes.job_store import FakeStore
from tests.support.kafka.jars import connector_jars
from tests.support.waiting import wait_until_async

JOB = "counts"

MEMORY_MB = 512

TIMEOUT_S = 240.0

OPTIONS = {
    "resource_stabilization_timeout": "2 s",
    "executing_stabilization_timeout": "1 s",
    "scaling_interval_min": "2 s",
    "resource_wait_timeout": "10 min",
    "deploy_timeout": "3 min",
}


class LoopedJob:
    """A job, its loop, and the folder that contains its job directory."""

    def __init__(
        self, cluster: LocalCluster, root: Path, script: str, args: Sequence[str], bounds: ParallelismRange
    ) -> None:
        """Describe a job; nothing runs yet.

        Args:
            cluster: cluster of the job.
            root: folder for the job directory.
            script: text of the script.
            args: arguments of the script.
            bounds: bounds of the parallelism.
        """
        self._root = root
        self._script = script
        self._args = tuple(args)
        self._bounds = bounds
        self._client = StandaloneCluster(_address(cluster))
        self._directory = FsspecJobDirectory(Storage.at(str(root)), JOB)
        self._store = FakeStore()
        self.loop: Loop

    @asynccontextmanager
    async def running(self, attempt: str = "1") -> AsyncIterator[Self]:
        """Run the loop of the job, and cancel the job in the end."""
        self.loop = Loop(
            await self._spec(attempt),
            Ports(cluster=self._client, directory=self._directory, store=self._store, clock=SystemClock()),
        )
        self._store.requests = ControlRequests()
        task = asyncio.create_task(self.loop.run())
        try:
            yield self
            self._store.requests = ControlRequests(desired_state=DesiredState.CANCELED)
            await asyncio.wait_for(task, TIMEOUT_S)
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Close the connection to the cluster."""
        await self._client.close()

    async def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition. The job must not end meanwhile."""

        async def holds() -> bool:
            assert self.loop.state.name not in {"Finished", "Failing"}, self.loop.state
            return condition()

        try:
            await wait_until_async(holds, TIMEOUT_S, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self.loop.state}\n{self.status()}") from error

    async def wait_executing(self, slots: int) -> None:
        """Wait until the job runs on that many slots."""
        await self.wait(f"{slots} slots", lambda: (self.loop.state.name, self.slots) == ("Executing", slots))

    @property
    def slots(self) -> int:
        """Slots of the plan."""
        return 0 if self.loop.state.plan is None else self.loop.state.plan.slots

    def request_bounds(self, lower: int, upper: int) -> None:
        """Set the bounds as a user does."""
        self._store.requests = ControlRequests(requirements={"job": ParallelismRange(lower, upper)})

    def status(self) -> dict[str, Any]:
        """Return the driver status."""
        file = self._root / JOB / "status.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    async def _spec(self, attempt: str) -> JobSpec:
        script = self._root / "script.py"
        script.write_text(self._script)
        code = await stage(self._directory, script)
        options: dict[str, Any] = OPTIONS
        return JobSpec(
            graph=JobGraph.single(JOB, self._bounds),
            options=Options.of(options),
            directory=self._directory.uri,
            script=code.script,
            py_files=code.py_files,
            args=self._args,
            conf={"spark.jars": ",".join(map(str, connector_jars()))},
            driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
            executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
            attempt=attempt,
        )


def _address(cluster: LocalCluster) -> ClusterAddress:
    port, ui_port, rest_port = (urlsplit(it).port or 0 for it in (cluster.master_url, cluster.ui_url, cluster.rest_url))
    return ClusterAddress(masters=(MasterAddress(host=HOST, port=port, ui_port=ui_port, rest_port=rest_port),))
