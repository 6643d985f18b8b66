"""Executors come and go under a running stateful query, in real drivers on a real cluster (rescale tier 0)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies
from airflow_adaptive._core.protocol.documents import Action, DriverPlan, DriverState, DriverStatus
from airflow_adaptive.local.waiting import wait_until
from tests.lab.faults.harness import sink_log
from tests.lab.faults.harness.deployment import SINK
from tests.support.driver.driver_on_cluster import TIMEOUT_S, DriverOnCluster, plan
from tests.support.driver.rate_counts import KEYS, ROWS_PER_S, check_counts

pytestmark = pytest.mark.long

SOURCE_PARTITIONS = 2
PARTITIONS = 4
TOO_MANY = 3
"""Executors of a plan for which the cluster has no room, so that the driver waits for executors without end."""

START_S = 240.0
BATCHES_TO_SPREAD = 3
"""That begin with the new executors there."""

MOST_IDLE_S = 60.0
"""From one batch to the next: the source has new numbers each second, and the machine may be busy."""

# Counts numbers by key: which numbers there were follows from the offset of the source, so every count is known. Each batch that is
# over is noted.
STATEFUL = """
import json, sys, threading, time
from pathlib import Path
from strict_sink import StrictSink
from airflow_adaptive.job import AdaptiveJob

root = sys.argv[1]

def note(spark):
    noted = set()
    while True:
        for query in spark.streams.active:
            for progress in query.recentProgress if query.name else ():
                batch = [str(progress.runId), progress.batchId, progress.timestamp, progress.durationMs]
                if "addBatch" in progress.durationMs and tuple(batch[:2]) not in noted:
                    noted.add(tuple(batch[:2]))
                    with open(root + "/batches", "a") as file:
                        print(json.dumps(batch), file=file)
        time.sleep(0.1)

def count(spark, parallelism):
    threading.Thread(target=note, args=(spark,), daemon=True).start()
    rate = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_S)
    numbers = rate.option("numPartitions", SOURCE_PARTITIONS).load()
    keyed = numbers.groupBy((numbers.value % KEYS).alias("key")).count()
    writer = keyed.writeStream.outputMode("update").trigger(processingTime="300 milliseconds")
    return writer.foreachBatch(StrictSink(spark, Path(root)))

AdaptiveJob(count).run()
"""
for name, value in {"KEYS": KEYS, "ROWS_PER_S": ROWS_PER_S, "SOURCE_PARTITIONS": SOURCE_PARTITIONS}.items():
    STATEFUL = STATEFUL.replace(name, str(value))


@dataclass(frozen=True)
class Batch:
    """One that is over; times in seconds."""

    run: str
    number: int
    began: float
    took: float

    @property
    def ended(self) -> float:
        return self.began + self.took


def on(executors: int, *, query_version: int = 1, retained_executors: int = 0) -> DriverPlan:
    return replace(
        plan(executors, state_partitions=PARTITIONS, query_version=query_version, count=executors),
        retained_executors=retained_executors,
    )


def batches(root: Path) -> list[Batch]:
    """Those that are over."""
    lines = map(json.loads, (root / "batches").read_text().splitlines())
    return [
        Batch(run, number, datetime.fromisoformat(began).timestamp(), durations["triggerExecution"] / 1000)
        for run, number, began, durations in lines
    ]


def newest(root: Path) -> int:
    return max(batch.number for batch in batches(root))


def placed(driver: DriverOnCluster, tasks: int) -> Iterator[tuple[int, set[str]]]:
    """Number of a batch and the executors that had tasks of its stage with so many, as far as Spark still tells."""
    for stage in driver.spark("stages?status=complete"):
        batch = re.search(r"batch = (\d+)", stage.get("description", ""))
        if batch is not None and stage["numTasks"] == tasks:
            details = driver.spark(f"stages/{stage['stageId']}/{stage['attemptId']}")
            yield int(batch[1]), set(details["executorSummary"])


def first_on(driver: DriverOnCluster, tasks: int, executors: set[str]) -> float:
    """First batch whose stage with so many tasks had some on all of these executors; infinite while there is none."""
    return min((batch for batch, used in placed(driver, tasks) if used >= executors), default=math.inf)


def failed_tasks(driver: DriverOnCluster) -> int:
    """Of all executors, also those that are gone, and stages."""
    stages = driver.spark("stages")
    executors = driver.spark("allexecutors")
    return sum(stage["numFailedTasks"] for stage in stages) + sum(executor["failedTasks"] for executor in executors)


def has_state(status: DriverStatus) -> bool:
    return bool(status.queries) and status.queries[0].committed >= 3


def started(driver: DriverOnCluster, executors: int, root: Path) -> DriverStatus:
    driver.direct(Action.RUN, 1, on(executors))
    driver.submit(STATEFUL, executors=executors, dependencies=Dependencies(py_files=[str(SINK)]))
    status = driver.wait_status("state", has_state, START_S)
    wait_until((root / "batches").exists, TIMEOUT_S, "the first batches")
    return status


def wait_batches(root: Path, more: int) -> None:
    before = newest(root)
    wait_until(lambda: newest(root) >= before + more, TIMEOUT_S, f"{more} more batch(es)")


def stopped(driver: DriverOnCluster, version: int) -> None:
    driver.direct(Action.STOP, version)
    assert driver.wait_end() == "FINISHED"


def assert_nothing_lost(driver: DriverOnCluster, root: Path) -> None:
    """Each number was counted once, in one run of the query, and no batch is missing, nor was one late to begin."""
    writes = sink_log.read_writes(root / "sink")
    check_counts(writes)
    assert list(sink_log.violations(writes)) == []
    assert [write.batch for write in sink_log.written(writes)] == list(range(driver.batches("commits")[-1] + 1))
    noted = batches(root)
    assert max(after.began - before.ended for before, after in pairwise(noted)) < MOST_IDLE_S
    assert len({batch.run for batch in noted}) == 1
    assert [batch.number for batch in noted] == list(range(len(noted)))
    assert driver.batches("offsets") == driver.batches("commits")


def test_executors_come_and_go_and_the_query_runs_on_with_all_its_state(
    driver: DriverOnCluster, tmp_path: Path
) -> None:
    status = started(driver, 1, tmp_path)
    assert (status.vertices_read, status.downtime_ms) == ((), None)

    driver.direct(Action.RUN, 2, on(2))
    status = driver.wait_status("a second executor", lambda now: now.version == 2)
    assert (status.state, len(status.executors), status.downtime_ms) == (DriverState.RUNNING, 2, 0)
    began_before = status.queries[0].batch_id + 1
    both = {executor.executor_id for executor in status.executors}
    wait_until(
        lambda: newest(tmp_path) > began_before + BATCHES_TO_SPREAD and first_on(driver, PARTITIONS, both) < math.inf,
        TIMEOUT_S,
        "tasks on both executors",
    )
    warmed_up, spread = (first_on(driver, tasks, both) for tasks in (SOURCE_PARTITIONS, PARTITIONS))
    assert warmed_up < spread <= began_before + BATCHES_TO_SPREAD

    driver.direct(Action.RUN, 3, on(1, retained_executors=2))
    status = driver.wait_status("the smaller plan", lambda now: now.version == 3)
    assert status.downtime_ms == 0
    wait_batches(tmp_path, 2)
    assert driver.application_cores() == 2

    driver.direct(Action.RUN, 4, on(1))
    status = driver.wait_status("one executor", lambda now: now.version == 4)
    assert (status.state, len(status.executors)) == (DriverState.RUNNING, 1)
    assert status.downtime_ms is not None
    assert 0 < status.downtime_ms < 1000 * MOST_IDLE_S
    wait_until(lambda: driver.application_cores() == 1, TIMEOUT_S, "the core's return to the cluster")
    wait_batches(tmp_path, 3)
    assert failed_tasks(driver) == 0

    driver.direct(Action.RUN, 5, on(TOO_MANY))
    wait_batches(tmp_path, 3)
    driver.wait_status("the driver to wait for executors", lambda now: now.version == 4 and len(now.executors) == 2)

    stopped(driver, 5)
    assert_nothing_lost(driver, tmp_path)
    assert "no batch boundary" not in driver.output()
