"""A driver runs for weeks: batches, plans and documents by the thousand leave nothing behind in its process."""

from __future__ import annotations

import gc
import sys
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from airflow_adaptive._core.protocol.documents import (
    Action,
    Directive,
    DriverState,
    DriverStatus,
    FailureReport,
    JournalDocument,
    QueryReport,
    encode_document,
)
from airflow_adaptive.job.control.driver_status import FileStatusReporter
from airflow_adaptive.job.control.scheduler_link import JournalReader
from airflow_adaptive.job.queries.progress import ProgressCounter
from tests.support.driver.simulated_driver import SimulatedDriver, directive, plan

DOCUMENTS_KEPT = 20
"""By the loop, which compacts the log."""

TURNS_BETWEEN = 10
"""From one document to the next, with as many batches."""

NOISE_BLOCKS = 500

FAILURE = FailureReport(
    error_class="SparkException", message="a task failed " + "no " * 200, causes=("SparkException",)
)


@dataclass(frozen=True)
class Footprint:
    """What the driver's process holds."""

    blocks: int
    descriptors: int
    threads: int


@dataclass
class LongRunningDriver(SimulatedDriver):
    """A driver with the real reader of the log, reporter and counter of progress; its files are in memory.

    `footprints` are taken after each number of cycles in `cycles`; after the last one the directive is STOP.
    """

    cycles: tuple[int, ...] = ()
    footprints: list[Footprint] = field(default_factory=list)
    files: dict[int, bytes] = field(default_factory=dict)
    status: bytes = b""
    cycle: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self.reader = JournalReader(self, job="j", clock=self.clock, report=self.warnings.append)
        self.reporter = FileStatusReporter(self, heartbeat_interval_s=2.0, clock=self.clock, warn=self.warnings.append)
        self.counter = ProgressCounter()
        self.direct(directive(Action.RUN, 1, plan(1)))

    def direct(self, wanted: Directive) -> None:
        """The loop appends a document and compacts the log."""
        self.number += 1
        document = JournalDocument(job="j", number=self.number, at="", owner="a#1", directive=wanted, scheduler={})
        self.files[self.number] = encode_document(document)
        self.files.pop(self.number - DOCUMENTS_KEPT, None)

    def sleep(self, seconds: float) -> None:
        """A turn of the loop is over: a batch was committed, and now and then something happens."""
        self.time += seconds
        self.cycle += 1
        del self.history[:], self.statuses[:], self.balanced[:-1]
        self.follow_progress()
        if self.cycle in self.cycles:
            self.footprints.append(footprint())
        if self.cycle >= self.cycles[-1]:
            self.direct(directive(Action.STOP, self.number + 1))
        elif self.cycle % TURNS_BETWEEN == 0:
            self.happen(self.cycle // TURNS_BETWEEN)

    def happen(self, number: int) -> None:
        """New plans, every other to be built for, and every seventh time the query fails, which a new version answers."""
        if number % 7 == 0 and self.plan is not None:
            self.query_over, self.query_failure = True, FAILURE
        self.executor_count = 1 + number % 3
        self.direct(directive(Action.RUN, self.number + 1, plan(self.executor_count, query_version=number // 2)))

    def follow_progress(self) -> None:
        if self.plan is None:
            return
        progress: Any = SimpleNamespace(
            batchId=self.cycle,
            numInputRows=10,
            inputRowsPerSecond=10.0,
            durationMs={"addBatch": 5, "triggerExecution": 7},
            eventTime={},
            stateOperators=[],
            sources=[],
            sink=SimpleNamespace(description="ForeachBatchSink"),
            observedMetrics={},
        )
        self.counter.update(progress, lambda: [progress])

    def start(self, writer: Any, plan: Any) -> None:
        super().start(writer, plan)
        self.counter.begin("q", None)

    def newest(self) -> Directive | None:
        return self.reader.newest()

    def report(self, status: DriverStatus) -> bool:
        return self.reporter.report(status)

    def reports(self) -> tuple[QueryReport, ...]:
        return () if self.counter.report is None else (self.counter.report,)

    # ---- files ----

    def journal_numbers(self) -> list[int]:
        return list(self.files)

    def read_journal(self, number: int) -> bytes | None:
        return self.files.get(number)

    def read_status(self) -> bytes | None:
        return self.status

    def write_status(self, data: bytes) -> None:
        self.status = data


def footprint() -> Footprint:
    for thread in threading.enumerate():
        if thread.name == "long-operation":
            thread.join()  # The operation has ended, but its thread may not.
    gc.collect()
    return Footprint(sys.getallocatedblocks(), psutil.Process().num_fds(), threading.active_count())


@pytest.mark.no_cover  # coverage remembers each of the threads in which queries are built
@pytest.mark.long
def test_memory_and_threads_do_not_grow_over_thousands_of_batches_and_plans() -> None:
    driver = LongRunningDriver(executor_count=1, cycles=(2_000, 12_000))
    assert driver.run() is DriverState.STOPPED
    early, late = driver.footprints
    assert late.blocks - early.blocks < NOISE_BLOCKS
    assert (late.descriptors, late.threads) == (early.descriptors, early.threads)
    assert driver.counter.report is not None
    assert driver.counter.report.committed > 9_000
    assert driver.number > 1_100


def test_output_contains_failures_only() -> None:
    driver = LongRunningDriver(executor_count=1, cycles=(2_000,))
    driver.run()
    assert driver.warnings == [f"query failed: {FAILURE.error_class}: {FAILURE.message}"] * (200 // 7)
