"""The triggerer of the benchmark, in a process of its own: the loops of all jobs, and what they cost."""

from __future__ import annotations

import asyncio
import cProfile
import json
import logging
import os
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.loop import Loop
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape, JobSpec
from tests.lab.benchmarks.triggerer import HEARTBEAT_S, MEMORY_MB, Measurements, Outages, name_of
from tests.lab.benchmarks.triggerer.cluster import CHURN, REQUESTS, SLOW
from tests.lab.benchmarks.triggerer.waits import Waits, slow_storage
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.lab.benchmarks.triggerer.supervisor import SlowSupervisor

TIMEOUT_S = 600.0
"""For all jobs to start."""

SLOTS = 2
"""That a job can use."""

P99 = 98
"""Index among the quantiles of a hundred."""


class Lag:
    """How late an event loop is.

    Attributes:
        late: seconds, each time.
    """

    EVERY_S = 0.01

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.late: list[float] = []

    async def watch(self) -> None:
        """Ask to be woken, and look at the clock."""
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(self.EVERY_S)
            self.late.append(time.perf_counter() - begin - self.EVERY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All counters at one moment; CPU and wall times in seconds."""

    wall: float = field(default_factory=time.monotonic)
    cpu: float = field(default_factory=time.process_time)
    own_thread: float = field(default_factory=time.thread_time)
    files: Counter[str]
    stores: Counter[str]
    master: Counter[str]

    def since(self, before: Readings) -> Measurements:
        """What was used and done each second."""
        wall = self.wall - before.wall
        files, stores, master = self.files - before.files, self.stores - before.stores, self.master - before.master
        return {
            "CPU (cores)": (self.cpu - before.cpu) / wall,
            "event loop's thread (cores, included in CPU)": (self.own_thread - before.own_thread) / wall,
            "memory (MiB)": rss_mb(),
            "polls of the master (1/s)": master["state"] / wall,
            "other questions to the master (1/s)": sum(master[it] for it in ("status", "create", "kill")) / wall,
            "reads of driver status (1/s)": files["status"] / wall,
            "reads of journals (1/s)": (files["read"] + files["newest"]) / wall,
            "documents written (1/s)": files["create"] / wall,
            "reads of control requests (1/s)": stores["GetAssetStateStoreByName"] / wall,
            "reads of the change marker (1/s)": stores["GetVariable"] / wall,
            "XComs pushed (1/s)": stores["SetXCom"] / wall,
        }


class Triggerer:
    """All loops, and what they cost."""

    def __init__(self, pipe: Connection, jobs: int, base: Path, supervisor: SlowSupervisor, outages: Outages) -> None:
        """Nothing runs yet.

        Args:
            pipe: to the process that forwards messages to the cluster.
            jobs: how many.
            base: where their directories are.
            supervisor: Airflow's end.
            outages: faults that begin when all jobs run.
        """
        self._pipe = pipe
        self._base = base
        self._supervisor = supervisor
        self._outages = outages
        self._waits = Waits()
        self._files: Counter[str] = Counter()
        self._loops: dict[str, Loop] = {}
        self._jobs = [name_of(number) for number in range(jobs)]

    async def measure(self, seconds: float, profile: str | None) -> Measurements:
        """Start all, wait until they run, then measure."""
        with counting(self._files), self._waits.measured(), slow_storage() as storage:
            running = self._start()
            started = (await self._seconds_until(self._all_run, running))[0]
            restarted: Measurements = {}
            self._pipe.send(SLOW)
            storage.delay_s = self._outages.storage_delay_s
            if self._outages.restart:
                await stop(running)
                running = self._start()
                seconds_to_claim, cpu = await self._seconds_until(self._all_claimed, running)
                restarted = {"all have taken over after a restart (s)": seconds_to_claim, "CPU of the restart (s)": cpu}
            await asyncio.sleep(HEARTBEAT_S)
            measurements = await self._window(seconds, profile)
            desired_state = await self._desired_state_delay()
            await stop(running)
        return {
            "all run after (s)": started,
            **restarted,
            **measurements,
            "a desired state takes effect after (s)": desired_state,
        }

    def _start(self) -> list[asyncio.Task[None]]:
        """Start all loops."""
        self._loops.clear()
        self._waits.forget()
        return [asyncio.create_task(self._run(name)) for name in self._jobs]

    async def _seconds_until(
        self, condition: Callable[[], bool], tasks: list[asyncio.Task[None]]
    ) -> tuple[float, float]:
        """Wait for a condition of the loops, and return the seconds and the CPU seconds of the wait."""
        begin, cpu = time.monotonic(), time.process_time()

        async def fulfilled() -> bool:
            for task in tasks:
                if task.done():
                    task.result()
            return condition()

        await wait_until_async(fulfilled, TIMEOUT_S, "the start of all jobs")
        return time.monotonic() - begin, time.process_time() - cpu

    def _all_run(self) -> bool:
        """Return whether all jobs run on all slots that they can use."""
        return len(self._loops) == len(self._jobs) and all(map(runs, self._loops.values()))

    def _all_claimed(self) -> bool:
        """Return whether each loop has claimed its journal and read its driver status, which it reads after the claim."""
        return self._waits.status_readers == len(self._jobs)

    async def _run(self, name: str) -> None:
        from airflow_adaptive._airflow.process.job_loop import may_run  # noqa: PLC0415
        from airflow_adaptive._airflow.process.job_ports import job_ports  # noqa: PLC0415
        from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob  # noqa: PLC0415
        from airflow_adaptive._core.view import TaskKey  # noqa: PLC0415  see `run_triggerer`

        task = TaskKey(dag_id="bench", task_id=name, run_id="run")
        job = DeployedJob(self._spec(name), ConnectionIds("bench"), f"file://{self._base}", task)
        async with job_ports(job, may_run(job), job.spec.options.deploy_timeout) as ports:
            self._loops[name] = Loop(job.spec, ports)
            await self._loops[name].run()

    def _spec(self, name: str) -> JobSpec:
        return JobSpec(
            graph=JobGraph.single(name, ParallelismRange(1, SLOTS)),
            options=Options.of({"local_recovery_timeout": "10 s"}),
            directory=f"file://{self._base}/{name}",
            script="file:///jobs/script.py",
            py_files=("file:///jobs/runtime.zip",),
            driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
            executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
            attempt="run/1",
        )

    async def _window(self, seconds: float, profile: str | None) -> Measurements:
        self._pipe.send(CHURN)
        before, lag = await self._readings(), Lag()
        watching = asyncio.create_task(lag.watch())
        self._waits.begin()
        with profiling(profile), self._supervisor.hanging() if self._outages.store_hangs else nullcontext():
            await asyncio.sleep(seconds)
        after = await self._readings()
        watching.cancel()
        return {
            **after.since(before),
            **self._waits.longest(),
            "event loop delay, p99 (ms)": statistics.quantiles(lag.late, n=100)[P99] * 1000,
            "event loop delay, max (ms)": max(lag.late) * 1000,
        }

    async def _readings(self) -> Readings:
        self._pipe.send(REQUESTS)
        master: Mapping[str, int] = await asyncio.to_thread(self._pipe.recv)
        return Readings(files=self._files.copy(), stores=self._supervisor.requests.copy(), master=Counter(master))

    async def _desired_state_delay(self) -> float:
        """Seconds from asking a job to suspend until its loop follows."""
        from airflow_adaptive._airflow.store.control_requests import store_request  # noqa: PLC0415  see `run_triggerer`
        from airflow_adaptive._core.requirements.control_requests import (  # noqa: PLC0415
            DESIRED_STATE,
            ControlRequest,
            DesiredState,
        )

        name = self._jobs[len(self._jobs) // 2]
        begin = time.monotonic()
        suspension = ControlRequest(key=DESIRED_STATE, value=DesiredState.SUSPENDED.value)
        await asyncio.to_thread(store_request, name, suspension)

        async def followed() -> bool:
            return not isinstance(self._loops[name].state.current, Executing)

        await wait_until_async(followed, TIMEOUT_S, f"the end of {name}")
        return time.monotonic() - begin


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the loops, as a triggerer that ends does."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def runs(loop: Loop) -> bool:
    """Whether a job runs on all slots that it can use, so that there is no rescale to come."""
    plan = loop.state.plan
    return isinstance(loop.state.current, Executing) and plan is not None and plan.slots == SLOTS


@contextmanager
def counting(calls: Counter[str]) -> Iterator[None]:
    """Count what loops do in the job directories while they run as always."""
    methods = {name: getattr(FsspecJobDirectory, name) for name in ("newest", "read", "create", "status")}

    def counted(name: str) -> Any:
        async def method(directory: FsspecJobDirectory, *args: Any) -> Any:
            calls[name] += 1
            return await methods[name](directory, *args)

        return method

    for name in methods:
        setattr(FsspecJobDirectory, name, counted(name))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(FsspecJobDirectory, name, method)


@contextmanager
def profiling(path: str | None) -> Iterator[None]:
    """Profile this thread, the event loop's, into a file; not at all without a path."""
    if path is None:
        yield
        return
    with cProfile.Profile() as profiler:
        yield
    profiler.dump_stats(path)


def rss_mb() -> float:
    """Resident memory of this process now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def run_triggerer(
    pipe: Connection, jobs: int, base: Path, seconds: float, port: int, outages: Outages, profile: str | None
) -> None:
    """Run the loops of all jobs, and send the measurements."""
    logging.disable()
    os.environ["AIRFLOW_HOME"] = str(base / "airflow")
    os.environ["AIRFLOW_CONN_BENCH"] = json.dumps(
        {"conn_type": "spark", "host": "spark://127.0.0.1", "extra": {"ui-port": port, "rest-port": port}}
    )
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415  only now its home is known

    from tests.lab.benchmarks.triggerer.supervisor import SlowSupervisor  # noqa: PLC0415

    supervisor = SlowSupervisor()
    task_runner.SUPERVISOR_COMMS = supervisor  # type: ignore[assignment]
    pipe.send(asyncio.run(Triggerer(pipe, jobs, base, supervisor, outages).measure(seconds, profile)))
