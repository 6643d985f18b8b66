"""The cluster of the benchmark, in a process of its own: a fake master behind HTTP, and all drivers."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from multiprocessing.connection import Connection
from pathlib import Path

from airflow_adaptive._core.ports import SubmissionState
from airflow_adaptive._core.protocol.documents import DriverStatus, encode_document
from airflow_adaptive._engine.journal.job_directory import JOURNAL, STATUS
from tests.lab.benchmarks.triggerer import HEARTBEAT_S, MEMORY_MB, Outages, name_of
from tests.lab.fakes.driver import FakeDrivers
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.support.servers.fake_master import FakeMaster

WORKER_CORES = 16
CORES_OF_A_JOB = 3
"""Its driver's and its executors'."""

FEWEST_WORKERS = 4

CHURN_S = 10.0
"""Between the death of a worker and the next."""

CHURN = "churn"
REQUESTS = "requests"
SLOW = "slow"
END = "end"
"""Messages to the cluster: let workers die, send the number of requests, answer slowly, end."""


class DiskJobDirectory(FakeJobDirectory):
    """A job directory on disk, as a fake driver uses one."""

    def __init__(self, job: str, base: Path) -> None:
        """The directory is made, as staging would."""
        super().__init__(job)
        self._directory = base / job
        self._directory.mkdir()

    def poll(self) -> bool:
        """Read the newest document of the log; False if there is none."""
        try:
            newest = max(os.listdir(self._directory / JOURNAL))
            self.journal = {int(newest.partition(".")[0]): (self._directory / JOURNAL / newest).read_bytes()}
        except (FileNotFoundError, ValueError):
            return False
        return True

    def report(self, status: DriverStatus) -> None:
        """Replace the status in one step, as Spark's checkpoint file manager does."""
        written = self._directory / f".{STATUS}"
        written.write_bytes(encode_document(status))
        written.replace(self._directory / STATUS)


class Cluster:
    """A master, its workers and the drivers of all jobs."""

    def __init__(self, master: FakeMaster, jobs: int, base: Path) -> None:
        """Workers with room for a quarter more than all jobs use."""
        self._master = master
        self._directories = {name: DiskJobDirectory(name, base) for name in map(name_of, range(jobs))}
        self._drivers = {
            name: FakeDrivers(master.cluster, it, time.monotonic) for name, it in self._directories.items()
        }
        self._churned: float | None = None
        self._over = threading.Event()
        with master.lock:
            for _ in range(max(FEWEST_WORKERS, jobs * CORES_OF_A_JOB * 5 // 4 // WORKER_CORES)):
                self._add_worker()

    def churn(self) -> None:
        """From now on a worker dies now and then, and another one joins."""
        self._churned = time.monotonic()

    def process_rows(self) -> None:
        """Let all drivers work, each every `HEARTBEAT_S`, until `end`."""
        while not self._over.is_set():
            begin = time.monotonic()
            self._change_workers(begin)
            self._tick(begin)
            self._over.wait(max(0.0, begin + HEARTBEAT_S - time.monotonic()))

    def end(self) -> None:
        """Work no more."""
        self._over.set()

    def _change_workers(self, now: float) -> None:
        if self._churned is None or now - self._churned < CHURN_S:
            return
        self._churned = now
        with self._master.lock:
            self._master.cluster.kill_worker(random.choice(self._master.cluster.workers).worker_id)
            self._add_worker()

    def _add_worker(self) -> None:
        self._master.cluster.add_worker(cores=WORKER_CORES, memory_mb=WORKER_CORES * MEMORY_MB)

    def _tick(self, begin: float) -> None:
        """One after the other, evenly spread over the heartbeat's time."""
        with self._master.lock:
            states = defaultdict(lambda: SubmissionState.UNKNOWN, self._master.cluster.states)
        for number, (name, directory) in enumerate(self._directories.items()):
            self._over.wait(max(0.0, begin + number * HEARTBEAT_S / len(self._directories) - time.monotonic()))
            if directory.poll():
                with self._master.lock:
                    self._drivers[name].tick(states)


def serve_cluster(pipe: Connection, jobs: int, base: Path, outages: Outages) -> None:
    """Run the cluster until the other end requests the end or is gone. The first message to the other end is the port."""
    with FakeMaster() as master:
        cluster = Cluster(master, jobs, base)
        thread = threading.Thread(target=cluster.process_rows)
        thread.start()
        pipe.send(master.port)
        try:
            while (message := pipe.recv()) != END:
                if message == CHURN:
                    cluster.churn()
                elif message == SLOW:
                    master.delay_s = outages.master_delay_s
                else:
                    pipe.send(dict(master.requests))
        except EOFError:
            pass  # The other end is gone.
        finally:
            cluster.end()
            thread.join()
