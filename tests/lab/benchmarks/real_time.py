"""The latency of a job in Real-Time Mode before, during and after rescales: `make lab TASK=bench-real-time`.

One job on an embedded cluster and a real broker, while records arrive at a constant rate. The latencies come from the output: each row contains
the time of its record and the time at which the row left the query.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.benchmarks.balance import machine_line
from tests.support.kafka.cluster import running_kafka
from tests.support.kafka.looped_job import MEMORY_MB
from tests.support.kafka.real_time_job import RealTimeJob
from tests.support.published_tables import publish

RECORDS_PER_S: Final = 20

STEADY_S: Final = 60.0
"""Duration of a phase without a rescale."""

BATCH_S: Final = 5.0

SETTLING_S: Final = 3 * BATCH_S
"""Time after the start, in which the JVMs become warm. Not measured."""

HEADER: Final = "| Phase | Records | p50 (ms) | p99 (ms) | p99 to before | Pause (ms) | Pause to a batch |\n|---|---:|---:|---:|---:|---:|---:|"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the output: when its record was produced, and when the row left the query, in Unix milliseconds."""

    at: int
    left: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The latencies of the records that were produced in a phase, and the longest time without output, in milliseconds."""

    records: int
    p50_ms: float
    p99_ms: float
    pause_ms: int


Phases = Mapping[str, tuple[int, int]]
"""Name -> begin and end, in Unix milliseconds."""


def measure(rows: Sequence[Row], begin: int, end: int) -> Measurement:
    """Measure a phase. A record that was written twice counts once, with its first row."""
    chosen = sorted((row for row in rows if begin <= row.at < end), key=lambda row: row.left)
    latencies = [row.left - row.at for row in chosen]
    pauses = (later.left - earlier.left for earlier, later in itertools.pairwise(chosen))
    p99 = statistics.quantiles(latencies, n=100, method="inclusive")[98]
    return Measurement(len(chosen), statistics.median(latencies), p99, max(pauses))


def table(phases: Phases, rows: Sequence[Row]) -> Iterator[str]:
    """The measurements as Markdown. The first phase is the one before all rescales."""
    found = {name: measure(rows, *phase) for name, phase in phases.items()}
    before = next(iter(found.values()))
    yield HEADER
    for name, it in found.items():
        ratios = f"{it.p99_ms / before.p99_ms:.1f} | {it.pause_ms} | {it.pause_ms / BATCH_S / 1000:.2f}"
        yield f"| {name} | {it.records} | {it.p50_ms:.0f} | {it.p99_ms:.0f} | {ratios} |"


class Run:
    """The job, its load, and the times of the phases."""

    def __init__(self, cluster: LocalCluster, job: RealTimeJob) -> None:
        """Measure this job; nothing runs yet."""
        self._cluster = cluster
        self._job = job
        self.produced = 0
        self.phases: dict[str, tuple[int, int]] = {}

    async def measure(self) -> Sequence[Row]:
        """Run the job through all phases, and return its output."""
        async with self._job.running():
            await self._job.wait_executing(3)
            async with self._load():
                await asyncio.sleep(SETTLING_S)
                await self._steady("before, 3 slots")
                with self._phase("rescale to 4 slots"):
                    add_slots(self._cluster, 1)
                    await self._rescaled(4)
                await self._steady("after, 4 slots")
                with self._phase("rescale to 3 slots"):
                    self._job.request_bounds(1, 3)
                    await self._rescaled(3)
                await self._steady("after, 3 slots")
            await self._job.wait("all rows", lambda: len(self._job.counts()) == self.produced)
        first = {row["name"]: Row(row["at"], row["left"]) for row in reversed(self._job.rows())}
        return list(first.values())

    @asynccontextmanager
    async def _load(self) -> AsyncIterator[None]:
        """Produce records in the background."""
        task = asyncio.create_task(self._produce())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _produce(self) -> None:
        begin = time.monotonic()
        while True:
            due = int((time.monotonic() - begin) * RECORDS_PER_S)
            while self.produced < due:
                self._job.produce({f"record-{self.produced}": 1})
                self.produced += 1
            await asyncio.sleep(1 / RECORDS_PER_S)

    async def _steady(self, name: str) -> None:
        with self._phase(name):
            await asyncio.sleep(STEADY_S)

    async def _rescaled(self, slots: int) -> None:
        await self._job.wait_executing(slots)
        await asyncio.sleep(BATCH_S)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begin = _now_ms()
        yield
        self.phases[name] = (begin, _now_ms())


def _now_ms() -> int:
    return int(time.time() * 1000)


def add_slots(cluster: LocalCluster, slots: int) -> None:
    """Add a worker with slots for executors of the job."""
    cluster.add_worker(cores=slots, memory_mb=slots * MEMORY_MB)


async def run() -> list[str]:
    """Run the benchmark, and return the lines of its section."""
    with (
        LocalCluster() as cluster,
        running_kafka() as kafka,
        tempfile.TemporaryDirectory(prefix="airflow-adaptive-") as folder,
    ):
        add_slots(cluster, 4)  # one for the driver
        job = RealTimeJob(cluster, kafka, "bench", Path(folder), slots=4)
        measured = Run(cluster, job)
        rows = await measured.measure()
        await job.close()
    lost = measured.produced - len(rows)
    return [machine_line(), f"{measured.produced} records, {lost} lost.", "", *table(measured.phases, rows)]


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="tests.lab.benchmarks.real_time", description=__doc__)
    parser.add_argument("--write", type=Path, help="page whose section 'real-time mode' is to be rewritten")
    options = parser.parse_args()
    lines = asyncio.run(run())
    print("\n".join(lines))
    if options.write is not None:
        publish("real-time mode", "\n".join(lines), options.write)


if __name__ == "__main__":
    main()
