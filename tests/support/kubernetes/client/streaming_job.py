"""A streaming job on a test cluster: the real loop in the process of the test, a strict sink, and folders that every pod sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.declaration.spark_submit import Dependencies
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_driver, planned_executor
from airflow_adaptive._core.ports import ClusterClient, ClusterUnreachableError
from airflow_adaptive._core.requirements.control_requests import DesiredState
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import Loop, Ports
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive._engine.staging import stage
from tests.lab.fakes.job_store import FakeStore
from tests.lab.faults.harness.deployment import JOB, MEMORY_MB, SCRIPT, SINK, deployed
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.sink_log import BatchWrite, read_writes, row_ids
from tests.lab.faults.harness.strict_sink import FOLDER
from tests.support.waiting import wait_until_async

ROWS: Final = 10
"""Rows of each input file."""

MOST_EXECUTORS: Final = 2

TIMEOUT_S: Final = 240.0

NO_DEPENDENCIES: Final = Dependencies()
NO_PARAMETERS: Final = KubernetesParameters()
NO_OPTIONS: Final[Mapping[str, Any]] = {}


class StreamingJob:
    """Copies rows from files to the strict sink.

    Attributes:
        store: control requests and published views.
    """

    def __init__(
        self,
        root: Path,
        conf: Mapping[str, str],
        client: ClusterClient,
        *,
        storage: Storage | None = None,
        script: Path = SCRIPT,
        dependencies: Dependencies = NO_DEPENDENCIES,
        parameters: KubernetesParameters = NO_PARAMETERS,
        options: Mapping[str, Any] = NO_OPTIONS,
    ) -> None:
        self.store = FakeStore()
        self._root = root
        self._client = client
        self._script = script
        self._dependencies = dependencies
        self._parameters = parameters
        self._options = options
        self._conf = conf
        self._directory = FsspecJobDirectory(storage or Storage.at(str(root / "jobs")), JOB)
        self._files = 0
        self._task: asyncio.Task[SchedulerState] | None = None
        own = [] if storage else [root / "jobs", root / "jobs" / JOB]
        for folder in (root, root / "in", root / FOLDER, *own):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)  # The user of the containers is not the user of the tests.

    @asynccontextmanager
    async def running(self, attempt: str = "1", conf: Mapping[str, str] | None = None) -> AsyncIterator[Loop]:
        """Run the loop of the job."""
        loop = await self._loop(attempt, conf or {})
        task = self._task = asyncio.create_task(loop.run())
        try:
            yield loop
        finally:
            if not task.done():
                task.cancel()
            await asyncio.wait([task])

    async def run_to_end(self) -> SchedulerState:
        """Run the loop until the job has ended, and return its last state."""
        return await (await self._loop("1", {})).run()

    async def _loop(self, attempt: str, conf: Mapping[str, str]) -> Loop:
        ports = Ports(cluster=self._client, directory=self._directory, store=self.store, clock=SystemClock())
        return Loop(await self._spec(attempt, {**self._conf, **conf}), ports)

    async def _spec(self, attempt: str, conf: Mapping[str, str]) -> JobSpec:
        needed = self._dependencies
        code = await stage(self._directory, self._script, [SINK, *needed.local_py_files], needed.local_files)
        driver = planned_driver(conf, 1, MEMORY_MB)
        executor = planned_executor(conf, 1, MEMORY_MB)
        changes: Mapping[str, Any] = {
            "graph": JobGraph.single(JOB, ParallelismRange(1, MOST_EXECUTORS), max_parallelism=MOST_EXECUTORS),
            "options": self._options,
            "conf": needed.properties(conf, code.files),
            "driver_template": self._parameters.driver_template(),
            "executor_template": self._parameters.executor_template(),
            "driver": DriverShape(cores=1, memory_mb=MEMORY_MB, requested=driver),
            "executor": ExecutorShape(cores=1, memory_mb=MEMORY_MB, requested=executor),
        }
        return deployed(JOB, self._directory, code, self._root, attempt, changes)

    def feed(self, files: int = 2) -> None:
        """Add input files, each at once."""
        for _ in range(files):
            ids = range(self._files * ROWS, (self._files + 1) * ROWS)
            hidden = self._root / "in" / f".{self._files:05d}.json"
            hidden.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
            hidden.rename(self._root / "in" / f"{self._files:05d}.json")
            self._files += 1

    async def wait_rows(self) -> None:
        """Wait until all rows are in the output."""
        expected = set(range(self._files * ROWS))
        await wait_until_async(lambda: _value(expected <= set(row_ids(self.writes()))), TIMEOUT_S, "all rows")

    async def wait_for_state(self, loop: Loop, state: str, parallelism: int | None = None) -> SchedulerState:
        """Wait until the job has a state, and its plan a parallelism."""

        async def reached() -> SchedulerState | None:
            now = loop.state
            has_parallelism = parallelism is None or (
                now.plan is not None and sum(now.plan.parallelism.values()) == parallelism
            )
            return now if now.name == state and has_parallelism else None

        try:
            return await wait_until_async(reached, TIMEOUT_S, f"{state} with {parallelism} slots")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{await self.story(loop)}") from error

    async def story(self, loop: Loop) -> str:
        """Return what explains the state of the job: decisions, last error, state and log of the driver."""
        lines: list[object] = [loop.state.current, loop.last_error]
        lines += [decision for view in self.store.views[-1:] for decision in view.history.decisions]
        try:
            if loop.driver is not None:
                lines += [await self._client.status(loop.driver), await self._client.driver_log(loop.driver)]
            lines.append(await self._client.snapshot())
        except ClusterUnreachableError as error:
            lines.append(error)
        return "\n".join(map(str, lines))

    async def suspend(self, loop: Loop) -> None:
        """Suspend the job, and wait until the job and its loop have ended."""
        await self._end(loop, DesiredState.SUSPENDED)

    async def cancel(self, loop: Loop) -> None:
        """Cancel the job, and wait until the job and its loop have ended."""
        await self._end(loop, DesiredState.CANCELED)

    async def _end(self, loop: Loop, desired_state: DesiredState) -> None:
        self.store.requests = replace(self.store.requests, desired_state=desired_state)
        await self.wait_for_state(loop, "Finished")
        await wait_until_async(lambda: _value(self._task is None or self._task.done()), TIMEOUT_S, "end of the loop")

    def outcome(self, recovery_s: float) -> Outcome:
        """Return what is in the sink, with the violations of the guarantees."""
        return Outcome.of(self.writes(), range(self._files * ROWS), recovery_s)

    def writes(self) -> list[BatchWrite]:
        """Return the attempts of all drivers to write a batch."""
        return read_writes(self._root / FOLDER)


async def _value(value: bool) -> bool:
    return value
