"""What one triggerer needs for 10, 100 and 1,000 jobs.

Real loops over the real composition root (`hooks.world`): the HTTP client, job directories on this machine's disk, asset state
store and XComs. The cluster is the fake of the contract suite behind HTTP in a process of its own, with drivers that read the
log and report; every few seconds a worker dies and another one joins. Airflow's supervisor is a stub that answers one question at a
time, each in 15 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import logging
import multiprocessing
import os
import random
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from airflow_adaptive.job.documents import Status, encode_status
from airflow_adaptive.local.waiting import wait_until_async
from airflow_adaptive.ports import SubmissionState
from airflow_adaptive.runtime.job_directory import LOG, STATUS, JobDirectory
from airflow_adaptive.runtime.loop import Loop
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape, JobSpec
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.options import Options
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.state import Executing
from airflow_adaptive.testing.fake_channel import FakeChannel
from airflow_adaptive.testing.fake_driver import FakeDrivers
from airflow_adaptive.testing.fake_master import FakeMaster, result_of
from benchmarks.page import replace_section
from benchmarks.scheduler import machine_line

JOBS = (10, 100, 1_000)
SECONDS = 40

STORE_LATENCY_S = 0.015
WORKER_CORES = 16
MEMORY_MB = 512
HEARTBEAT_S = 2.0
"""Of the drivers: each looks at its log, commits a batch and reports so often."""
CHURN_S = 10.0
"""Between the death of a worker and the next."""
PATIENCE_S = 600.0
"""For all jobs to start."""

Figures = Mapping[str, float]


# ---- the cluster, in a process of its own ---------------------------------------------------------------------------


class DiskChannel(FakeChannel):
    """A job directory on disk, as a fake driver uses one."""

    def __init__(self, job: str, base: Path) -> None:
        super().__init__(job)
        self._directory = base / job

    def look(self) -> bool:
        """Read the newest document of the log; False if there is none."""
        try:
            newest = max(os.listdir(self._directory / LOG))
            self.log = {int(newest.partition(".")[0]): (self._directory / LOG / newest).read_bytes()}
        except (FileNotFoundError, ValueError):
            return False
        return True

    def report(self, status: Status) -> None:
        """Replace the status in one step, as Spark's checkpoint file manager does."""
        written = self._directory / f".{STATUS}"
        written.write_bytes(encode_status(status))
        written.replace(self._directory / STATUS)


def serve_cluster(pipe: Connection, jobs: int, base: Path) -> None:
    """Be the cluster until the other end says otherwise; it is told the port first, and how much was asked on request."""
    with FakeMaster() as master:
        with master.lock:
            for _ in range(max(4, jobs * 3 * 5 // 4 // WORKER_CORES)):
                add_worker(master)
        pipe.send(master.port)
        churning = threading.Event()
        over = threading.Event()
        work = threading.Thread(target=work_on, args=(master, jobs, base, churning, over))
        work.start()
        while (asked := pipe.recv()) != "end":
            churning.set() if asked == "churn" else pipe.send(dict(master.requests))
        over.set()
        work.join()


def add_worker(master: FakeMaster) -> None:
    """One more worker."""
    master.cluster.add_worker(cores=WORKER_CORES, memory_mb=WORKER_CORES * MEMORY_MB)


def work_on(master: FakeMaster, jobs: int, base: Path, churning: threading.Event, over: threading.Event) -> None:
    """Let all drivers work, each every `HEARTBEAT_S`."""
    channels = {name_of(number): DiskChannel(name_of(number), base) for number in range(jobs)}
    drivers = {name: FakeDrivers(master.cluster, channel) for name, channel in channels.items()}
    churned = time.monotonic()
    while not over.is_set():
        begin = time.monotonic()
        with master.lock:
            if churning.is_set() and begin - churned > CHURN_S:
                churned = begin
                master.cluster.kill_worker(random.choice(master.cluster.workers).worker_id)
                add_worker(master)
            snapshot = result_of(master.cluster.snapshot())
        states = defaultdict(lambda: SubmissionState.UNKNOWN, {name: it.state for name, it in snapshot.drivers.items()})
        for number, (name, channel) in enumerate(channels.items()):
            over.wait(max(0.0, begin + number * HEARTBEAT_S / jobs - time.monotonic()))
            if channel.look():
                with master.lock:
                    drivers[name].tick(snapshot, states)
        over.wait(max(0.0, begin + HEARTBEAT_S - time.monotonic()))


def name_of(number: int) -> str:
    """Id of a job."""
    return f"job-{number:04}"


# ---- the triggerer, in a process of its own -------------------------------------------------------------------------


class SlowSupervisor:
    """Airflow's supervisor: one question at a time."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.states: dict[tuple[str, str], Any] = {}
        self.variables: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()

    def send(self, message: Any) -> Any:
        """Answer as the supervisor would."""
        from airflow.sdk.exceptions import ErrorType  # noqa: PLC0415  the other processes need no Airflow
        from airflow.sdk.execution_time import comms  # noqa: PLC0415

        with self._one_at_a_time:
            time.sleep(STORE_LATENCY_S)
            self.asked[type(message).__name__] += 1
            match message:
                case comms.SetAssetStateStoreByName():
                    self.states[message.name, message.key] = message.value
                case comms.GetAssetStateStoreByName() if (message.name, message.key) in self.states:
                    return comms.AssetStateStoreResult(value=self.states[message.name, message.key])
                case comms.GetAssetStateStoreByName():
                    return comms.ErrorResponse(error=ErrorType.ASSET_STORE_NOT_FOUND)
                case comms.PutVariable():
                    self.variables[message.key] = message.value or ""
                case comms.GetVariable() if message.key in self.variables:
                    return comms.VariableResult(key=message.key, value=self.variables[message.key])
                case comms.GetVariable():
                    return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
                case _:
                    pass
        return None


@dataclass
class Counted:
    """Reads of the job directories."""

    reads: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what loops read while they run as always."""
        call = JobDirectory.call

        async def counted(directory: JobDirectory, work: Any, *args: Any, **kwargs: Any) -> Any:
            self.reads[work.__name__] += 1
            return await call(directory, work, *args, **kwargs)

        JobDirectory.call = counted  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            JobDirectory.call = call  # type: ignore[method-assign]


class Lag:
    """How late an event loop is."""

    EVERY_S = 0.01

    def __init__(self) -> None:
        self.late: list[float] = []

    async def watch(self) -> None:
        """Ask to be woken, and look at the clock."""
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(self.EVERY_S)
            self.late.append(time.perf_counter() - begin - self.EVERY_S)


def run_triggerer(pipe: Connection, jobs: int, base: Path, seconds: float, port: int, profile: str | None) -> None:
    """Run the loops of all jobs, and send the figures."""
    logging.disable()
    os.environ["AIRFLOW_HOME"] = str(base / "airflow")
    os.environ["AIRFLOW_CONN_BENCH"] = json.dumps(
        {"conn_type": "spark", "host": "spark://127.0.0.1", "extra": {"ui-port": port, "rest-port": port}}
    )
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415  only now its home is known

    supervisor = SlowSupervisor()
    task_runner.SUPERVISOR_COMMS = supervisor  # type: ignore[assignment]
    triggerer = Triggerer(pipe, jobs, base, supervisor)
    pipe.send(asyncio.run(triggerer.measure(seconds, profile)))


class Triggerer:
    """All loops, and what they cost."""

    def __init__(self, pipe: Connection, jobs: int, base: Path, supervisor: SlowSupervisor) -> None:
        self._pipe = pipe
        self._base = base
        self._supervisor = supervisor
        self._counted = Counted()
        self._loops: dict[str, Loop] = {}
        self._jobs = [name_of(number) for number in range(jobs)]

    async def measure(self, seconds: float, profile: str | None) -> Figures:
        """Start all, wait until they run, then measure."""
        with self._counted.counting():
            begin = time.monotonic()
            running = [asyncio.create_task(self._run(name)) for name in self._jobs]
            await self._started()
            started = time.monotonic() - begin
            await asyncio.sleep(HEARTBEAT_S)
            figures = await self._window(seconds, profile)
            wish = await self._wish()
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        return {"all run after (s)": started, **figures, "a wish is followed after (s)": wish}

    async def _run(self, name: str) -> None:
        from airflow_adaptive.hooks.asset_store import TaskKey  # noqa: PLC0415  see `run_triggerer`
        from airflow_adaptive.hooks.world import world  # noqa: PLC0415

        spec, options = self._spec(name), Options()
        task = TaskKey(dag_id="bench", task_id=name, run_id="run")
        async with world("bench", f"file://{self._base}", name, task, options.deploy_timeout) as ports:
            self._loops[name] = Loop(spec, ports, random.random)
            await self._loops[name].run()

    def _spec(self, name: str) -> JobSpec:
        return JobSpec(
            graph=JobGraph.single(name, ParallelismRange(1, 2)),
            options=Options.of({"local_recovery_timeout": "10 s"}),
            directory=f"file://{self._base}/{name}",
            script="file:///jobs/script.py",
            py_files=("file:///jobs/runtime.zip",),
            driver=DriverShape(cores=1, memory_mb=MEMORY_MB),
            executor=ExecutorShape(cores=1, memory_mb=MEMORY_MB),
            attempt="run/1",
        )

    async def _started(self) -> None:
        async def all_run() -> bool:
            running = sum(isinstance(loop.state.current, Executing) for loop in self._loops.values())
            return running == len(self._jobs)

        await wait_until_async(all_run, PATIENCE_S, "the start of all jobs")

    async def _window(self, seconds: float, profile: str | None) -> Figures:
        self._pipe.send("churn")
        polls = await self._requests()
        lag, profiler = Lag(), cProfile.Profile() if profile else None
        watching = asyncio.create_task(lag.watch())
        stores, files = self._supervisor.asked.copy(), self._counted.reads.copy()
        wall, cpu = time.monotonic(), time.process_time()
        if profiler is not None:
            profiler.enable()
        await asyncio.sleep(seconds)
        if profiler is not None:
            profiler.disable()
            profiler.dump_stats(str(profile))
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        watching.cancel()
        stores, files = self._supervisor.asked - stores, self._counted.reads - files
        asked = await self._requests()
        return {
            "CPU (cores)": cpu / wall,
            "memory (MiB)": rss_mb(),
            "polls of the master (1/s)": (asked["state"] - polls["state"]) / wall,
            "other questions to the master (1/s)": sum(asked[it] - polls[it] for it in ("status", "create", "kill"))
            / wall,
            "reads of reports (1/s)": files["_status"] / wall,
            "reads of logs (1/s)": (files["_read"] + files["_newest"]) / wall,
            "reads of inboxes and the signal (1/s)": sum(stores[it] for it in stores if it.startswith("Get")) / wall,
            "XComs pushed (1/s)": stores["SetXCom"] / wall,
            "event loop late, p99 (ms)": statistics.quantiles(lag.late, n=100)[98] * 1000,
            "event loop late, max (ms)": max(lag.late) * 1000,
        }

    async def _requests(self) -> Mapping[str, int]:
        self._pipe.send("requests")
        return await asyncio.to_thread(self._pipe.recv)

    async def _wish(self) -> float:
        """Seconds from asking a job to suspend until its loop follows."""
        from airflow_adaptive.hooks.asset_store import ask  # noqa: PLC0415  see `run_triggerer`
        from airflow_adaptive.ports import Wish  # noqa: PLC0415

        name = self._jobs[len(self._jobs) // 2]
        begin = time.monotonic()
        await asyncio.to_thread(ask, name, Wish.SUSPEND)

        async def followed() -> bool:
            return not isinstance(self._loops[name].state.current, Executing)

        await wait_until_async(followed, PATIENCE_S, f"the end of {name}")
        return time.monotonic() - begin


def rss_mb() -> float:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


# ---- the whole ------------------------------------------------------------------------------------------------------


def measure(jobs: int, seconds: float, profile: str | None = None) -> Figures:
    """All figures for so many jobs."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="airflow-adaptive-bench-") as folder:
        base = Path(folder)
        cluster, cluster_end = spawn.Pipe()
        triggerer, triggerer_end = spawn.Pipe()
        serving = spawn.Process(target=serve_cluster, args=(cluster_end, jobs, base))
        serving.start()
        port = cluster.recv()
        running = spawn.Process(target=run_triggerer, args=(triggerer_end, jobs, base, seconds, port, profile))
        running.start()
        triggerer_end.close()
        try:
            figures = relay(triggerer, cluster)
        finally:
            cluster.send("end")
            serving.join()
            running.join()
    return figures


def relay(triggerer: Connection, cluster: Connection) -> Figures:
    """Carry the triggerer's wishes to the cluster until it sends its figures."""
    while isinstance(told := triggerer.recv(), str):
        cluster.send(told)
        if told == "requests":
            triggerer.send(cluster.recv())
    figures: Figures = told
    return figures


def table(measured: Mapping[int, Figures]) -> Iterator[str]:
    """The figures as Markdown."""
    jobs = sorted(measured)
    yield f"| jobs | {' | '.join(f'{count:,}' for count in jobs)} |"
    yield "|---|" + "---:|" * len(jobs)
    for name in measured[jobs[0]]:
        yield f"| {name} | {' | '.join(f'{measured[count][name]:,.2f}' for count in jobs)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="benchmarks.triggerer", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=JOBS, help="numbers of jobs")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long is measured, for each")
    parser.add_argument("--write", type=Path, help="page whose section 'triggerer' is to be rewritten")
    parser.add_argument("--profile", help="file for a profile of the event loop's thread")
    asked = parser.parse_args(arguments)
    measured = {}
    for jobs in asked.jobs:
        measured[jobs] = measure(jobs, asked.seconds, asked.profile)
        print(f"{jobs} jobs: {measured[jobs]}", file=sys.stderr)
    lines = [machine_line(), "", *table(measured)]
    print("\n".join(lines))
    if asked.write is not None:
        replace_section(asked.write, "triggerer", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
