"""Weeks of a job's life in minutes: the real loop on a real job directory, in a world that never rests.

Everything that the process of a loop could keep is real: the directory's files, the threads, the event loop. Cluster, driver and
clock are fakes, and the fakes forget, as a real master does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import tracemalloc
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import psutil

from airflow_adaptive._airflow.store.task_xcoms import xcoms
from airflow_adaptive._core.ports import SubmissionState
from airflow_adaptive._core.protocol.documents import decode_journal
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.view import JobView
from airflow_adaptive._engine.journal.job_directory import HISTORY, JOURNAL, FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.loop import RunLimits
from tests.lab.benchmarks.triggerer.cluster import DiskJobDirectory
from tests.lab.fakes.job_store import FakeStore
from tests.lab.fakes.manual_clock import START, ManualClock
from tests.lab.simulation.one_job import Simulation

WEEK = timedelta(weeks=1)

MEMORY_MB = 512

MOST_WORKERS = 6

DRIVERS_REMEMBERED = 3
"""By the master, beside those that live."""

LARGE = 1 << 20
"""Bytes of a table that doubles once in weeks, such as that of Python's interned strings; what it holds is counted by itself."""

BUSY = timedelta(seconds=15)
"""Busy time after an event; afterwards, the job is idle until the next event."""

OPTIONS: dict[str, Any] = {
    "resource_wait_timeout": -1,
    "resource_stabilization_timeout": "1 s",
    "scaling_interval_min": "2 s",
    "executing_stabilization_timeout": "1 s",
    "max_trigger_delay": "2 s",
    "slot_idle_timeout": 0,
    "local_recovery_timeout": "5 s",
    "stop_timeout": "4 s",
    "restart_strategy": {"type": "fixed-delay", "attempts": 1_000_000, "delay": "1 s"},
    "history_size": 20,
}


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What a job takes up at one moment.

    Attributes:
        blocks: of memory that Python's objects take.
        memory: bytes that they take, 0 if Python does not count them (`tracemalloc`).
        descriptors: that are open.
        threads: of the process.
        log_documents: files in the log.
        history_documents: files in the history.
        scheduler_bytes: of the state in the newest log document.
    """

    blocks: int
    traced_memory: int
    descriptors: int
    threads: int
    journal_documents: int
    history_documents: int
    scheduler_bytes: int


def traced_bytes() -> int:
    """Bytes of Python's objects that are not `LARGE`, 0 if Python does not count them."""
    if not tracemalloc.is_tracing():
        return 0
    return sum(trace.size for trace in tracemalloc.take_snapshot().traces if trace.size < LARGE)


class MeasuredStore(FakeStore):
    """A store that forgets what it shows, but for its size.

    Attributes:
        rescales: number of published rescales.
        restarts: likewise.
        largest: bytes that all XComs of the job took at most, as JSON.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rescales = 0
        self.restarts = 0
        self.largest = 0

    async def publish(self, view: JobView) -> None:
        self.rescales, self.restarts = view.rescales, view.restarts
        self.largest = max(self.largest, sum(len(json.dumps(value)) for value in xcoms(view).values()))

    async def publish_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Forget them: their series have as many points as they may only after months of so few looks."""


class HastyClock(ManualClock):
    """Passes over the time in which nothing happens.

    Attributes:
        busy_until: until then all time passes.
        idle_until: then the next thing happens.
    """

    longest_step = timedelta(seconds=50)  # less than the lease of a driver
    busy_until = START
    idle_until = START

    async def sleep(self, seconds: float) -> None:
        """See `ManualClock`."""
        idle = (self.idle_until - self.now()).total_seconds()
        await super().sleep(seconds if self.now() < self.busy_until else max(seconds, idle))


class LongRun(Simulation):
    """A job on a cluster where something happens all the time.

    Attributes:
        happened: how often each thing did.
        largest_document: bytes of the largest document of the log.
    """

    def __init__(self, directory: Path, *, between: timedelta, seed: int = 0) -> None:
        """A cluster with room, and a job that has not begun.

        Args:
            directory: of all jobs.
            between: one thing that happens and the next.
            seed: of all chance.
        """
        super().__init__((1, 4), **OPTIONS)
        self.clock = self.hasty = HastyClock(self._tick)
        self.published: Any = MeasuredStore()
        self.disk: Any = DiskJobDirectory("job", directory)
        self.store, self.directory, self.drivers._directory = self.published, self.disk, self.disk
        jobs = FsspecJobDirectory(Storage.at(str(directory)), "job")
        self.ports = replace(self.ports, directory=jobs, store=self.published, clock=self.clock)
        self.happened: dict[str, int] = {}
        self.largest_document = 0
        self._folder = directory / "job"
        self._random = Random(seed)
        self._between = between
        self._thread = ThreadPoolExecutor(1)
        for _ in range(MOST_WORKERS // 2):
            self._add_worker()

    async def live(self, time: timedelta) -> None:
        """Run loops one after the other, each for as long as a trigger lives; in one thread, so that any other is a leak."""
        asyncio.get_running_loop().set_default_executor(self._thread)
        end = self.clock.now() + time
        while (now := self.clock.now()) < end:
            leave = RunLimits(recycle_at=min(now + self.spec.options.trigger_lifetime, end))
            await self.loop(leave).run()
            self._count("recycled")

    async def footprint(self) -> Footprint:
        """As it is now."""
        process = psutil.Process()
        newest = decode_journal(next(iter(self.disk.journal.values())))
        await asyncio.sleep(0)  # what is to be closed is closed when its last callback has run
        gc.collect()
        return Footprint(
            blocks=sys.getallocatedblocks(),
            traced_memory=traced_bytes(),
            descriptors=process.num_fds(),
            threads=threading.active_count(),
            journal_documents=len(list((self._folder / JOURNAL).iterdir())),
            history_documents=len(list((self._folder / HISTORY).iterdir())),
            scheduler_bytes=len(json.dumps(newest.scheduler)),
        )

    def _tick(self) -> None:
        if not self.disk.poll():
            return
        self.largest_document = max(self.largest_document, *map(len, self.disk.journal.values()))
        super()._tick()
        if self.clock.now() >= self.hasty.idle_until:
            self.hasty.busy_until = self.clock.now() + BUSY
            self.hasty.idle_until = self.clock.now() + self._between
            self._happen()
            self._forget()

    def _happen(self) -> None:
        """One thing; workers come and go, the author's query fails, drivers die, people change their minds."""
        things = (self._change_workers, self._change_workers, self._fail_query, self._request, self._kill_driver)
        thing = self._random.choice(things)
        thing()
        self._count(thing.__name__)

    def _change_workers(self) -> None:
        workers = self.cluster.workers
        if len(workers) >= self._random.randint(2, MOST_WORKERS):
            self.cluster.kill_worker(self._random.choice(workers).worker_id)
        else:
            self._add_worker()

    def _add_worker(self) -> None:
        self.cluster.add_worker(cores=2, memory_mb=2 * MEMORY_MB)

    def _fail_query(self) -> None:
        if self.drivers._sessions:
            self.drivers.fail_query(message=f"at {self.clock.now()} a task failed: " + "no " * 200)

    def _kill_driver(self) -> None:
        if self.cluster.submissions:
            self.cluster.kill_driver(list(self.cluster.submissions)[-1])

    def _request(self) -> None:
        self.published.requests = ControlRequests(requirements={"job": ParallelismRange(1, self._random.randint(1, 4))})

    def _count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    def _forget(self) -> None:
        """The fakes keep all that ever was; a master does not."""
        self.drivers.started.clear()
        living = (SubmissionState.SUBMITTED, SubmissionState.RUNNING)
        for submission_id in list(self.cluster.submissions)[:-DRIVERS_REMEMBERED]:
            if self.cluster._drivers[submission_id].state not in living:
                self.cluster.forget_driver(submission_id)
                self.drivers._sessions.pop(submission_id, None)
