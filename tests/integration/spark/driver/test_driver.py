"""A real driver rescales, fails, restarts and stops without losing or doubling a row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverState, DriverStatus
from airflow_adaptive._core.protocol.sources import SourceReport
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import JOB, ROWS, TIMEOUT_S, DriverOnCluster, Input, plan, sink_rows
from tests.support.driver.spark_version import NEEDS_REPARTITION

pytestmark = pytest.mark.timeout(900)

# Stateful, so that a batch that is lost or duplicated shows; a row with id -1 makes its batch fail.
UNBOUNDED = """
import sys
from airflow_adaptive.job import AdaptiveJob

def distinct(spark, parallelism):
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 3).json(sys.argv[1] + "/in")
    checked = rows.repartition(parallelism["read"]).selectExpr("id", "1 / (id + 1) AS checked")
    return checked.dropDuplicates(["id"]).writeStream.format("json").option("path", sys.argv[1] + "/out")

AdaptiveJob(distinct).run()
"""

# The function of the module needs a session before the script has one.
BOUNDED = """
import sys
from airflow_adaptive.job import AdaptiveJob
from pyspark.sql.functions import udf

@udf("long")
def same(value):
    return value

def copy(spark, parallelism):
    secret = spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
    if secret != "hush":
        raise ValueError("the secret property was lost")
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(sys.argv[1] + "/in")
    writer = rows.select(same("id").alias("id")).writeStream.format("json").option("path", sys.argv[1] + "/out")
    return writer.queryName("copied").trigger(availableNow=True)

AdaptiveJob(copy).run()
"""

# The function reads no parallelism. Its sink notes the number of tasks after the shuffle and the rows of each batch.
SHUFFLED = """
import json, os, sys
from airflow_adaptive.job import AdaptiveJob

directory = sys.argv[1]

def note(batch, number):
    ids = sorted(row.id for row in batch.collect())
    with open(f"{directory}/batch-{number}.written", "w") as file:
        json.dump({"tasks": batch.rdd.getNumPartitions(), "ids": ids}, file)
    os.rename(f"{directory}/batch-{number}.written", f"{directory}/batch-{number}.json")

def departures(spark, parallelism):
    rows = spark.readStream.schema("id long").json(directory + "/in")
    return rows.repartition("id").writeStream.foreachBatch(note)

AdaptiveJob(departures).run()
"""

SLOW = """
import sys
from airflow_adaptive.job import AdaptiveJob

def copy(spark, parallelism):
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(sys.argv[1] + "/in")
    return rows.writeStream.format("json").option("path", sys.argv[1] + "/out").trigger(processingTime="5 seconds")

AdaptiveJob(copy).run()
"""


def batches(root: Path) -> list[dict[str, object]]:
    names = sorted(root.glob("batch-*.json"), key=lambda path: int(path.stem.removeprefix("batch-")))
    return [json.loads(path.read_text()) for path in names]


def source(status: DriverStatus) -> SourceReport | None:
    return next((source for query in status.queries for source in query.sources), None)


def written(root: Path) -> list[int]:
    return sorted(row["id"] for row in sink_rows(root / "out"))


def test_rescales_fails_restarts_and_stops_without_losing_or_doubling_a_row(
    driver: DriverOnCluster, rows: Input, tmp_path: Path
) -> None:
    rows.write(15)
    driver.direct(Action.RUN, 1, plan(2))
    submission = driver.submit(UNBOUNDED, executors=2)
    status = driver.wait_status("batches on two", lambda now: bool(now.queries) and now.queries[0].committed >= 2)
    assert (status.state, status.version, status.parallelism) == (DriverState.RUNNING, 1, {"read": 2})
    assert status.submission_id == submission
    assert [executor.worker for executor in status.executors] == [driver.cluster.workers[0].ui_url] * 2
    assert (status.downtime_ms, status.queries[0].trigger_interval_ms) == (None, 0)

    driver.direct(Action.RUN, 2, replace(plan(1, query_version=2), retained_executors=2))
    status = driver.wait_status("the smaller plan", lambda now: now.version == 2 and now.downtime_ms is not None)
    assert (status.state, status.parallelism, len(status.executors)) == (DriverState.RUNNING, {"read": 1}, 2)
    assert status.downtime_ms is not None
    assert status.downtime_ms > 0
    committed = status.queries[0].committed

    rows.write(3)
    driver.wait_status("a batch while the surplus is held", lambda now: now.queries[0].committed > committed)
    assert driver.application_cores() == 2
    driver.direct(Action.RUN, 2, plan(1, query_version=2))
    driver.wait_status("one executor", lambda now: len(now.executors) == 1)
    wait_until(lambda: driver.application_cores() == 1, TIMEOUT_S, "the core's return to the cluster")

    rows.write(9)
    driver.direct(Action.RUN, 3, plan(2, query_version=3))
    status = driver.wait_status("two executors again", lambda now: now.version == 3)
    assert (status.state, len(status.executors)) == (DriverState.RUNNING, 2)
    assert driver.application_cores() == 2

    rows.put("poison.json", range(-1, 0))
    status = driver.wait_status("the failure", lambda now: now.state is DriverState.FAILED)
    assert status.version == 3
    assert status.failure is not None
    assert (status.failure.error_class, status.failure.query) == ("DIVIDE_BY_ZERO", JOB)

    rows.put("poison.json", range(0))
    driver.direct(Action.HOLD, 3, plan(2, query_version=3))
    driver.wait_status("hold", lambda now: now.state is DriverState.HOLDING)
    rows.write(4)
    driver.direct(Action.RUN, 4, plan(2, state_partitions=8, query_version=4, read=8))
    driver.wait_status("the restart", lambda now: now.state is DriverState.RUNNING and now.failure is None)
    driver.wait_status("the checkpoint's number of state partitions", lambda now: now.parallelism == {"read": 2})
    wait_until(lambda: written(tmp_path) == rows.ids, TIMEOUT_S, "all rows")

    driver.direct(Action.STOP, 4)
    assert driver.wait_end() == "FINISHED"
    status = driver.wait_status("the final status", lambda now: now.state is DriverState.STOPPED)
    assert driver.batches("offsets") == driver.batches("commits") == list(range(status.queries[0].committed))
    assert written(tmp_path) == rows.ids
    assert "no batch boundary" not in driver.output()


@pytest.mark.long
def test_never_starts_a_query_when_the_log_names_another_epoch(driver: DriverOnCluster, rows: Input) -> None:
    rows.write(1)
    driver.direct(Action.RUN, 1, plan(1), epoch=2)
    driver.submit(UNBOUNDED, executors=1)
    assert driver.wait_end() == "FAILED"
    assert not (driver.directory / "checkpoints").exists()
    assert "fenced: the journal is at epoch 2" in driver.output()


@pytest.mark.long
def test_finishes_a_bounded_query_with_its_own_name_and_secrets(
    driver: DriverOnCluster, rows: Input, tmp_path: Path
) -> None:
    rows.write(5)
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(BOUNDED, executors=1, conf={"spark.hadoop.fs.s3a.secret.key": "hush"})
    assert driver.wait_end() == "FINISHED"
    status = driver.wait_status("the final status", lambda now: now.state is DriverState.FINISHED)
    assert [(query.name, query.committed, query.input_rows) for query in status.queries] == [("copied", 3, 5 * ROWS)]
    assert status.queries[0].trigger_interval_ms is None
    assert (driver.directory / "checkpoints" / "copied" / "commits").is_dir()
    assert written(tmp_path) == rows.ids


@NEEDS_REPARTITION
@pytest.mark.long
def test_shuffle_without_state_follows_the_plan_when_its_query_restarts(
    driver: DriverOnCluster, rows: Input, tmp_path: Path
) -> None:
    rows.write(1)
    driver.direct(Action.RUN, 1, plan(1, state_partitions=2))
    driver.submit(SHUFFLED, 1)
    wait_until(lambda: len(batches(tmp_path)) == 1, 2 * TIMEOUT_S, "the first batch")
    driver.direct(Action.RUN, 2, replace(plan(1, state_partitions=5, query_version=2), repartition=True))
    status = driver.wait_status("the second plan", lambda it: it.version == 2)
    assert status.state is DriverState.RUNNING
    assert status.vertices_read == ()
    rows.write(1)
    wait_until(lambda: len(batches(tmp_path)) == 2, TIMEOUT_S, "a batch of the second plan")
    found = batches(tmp_path)
    assert [batch["tasks"] for batch in found] == [2, 5]
    assert [batch["ids"] for batch in found] == [rows.ids[:10], rows.ids[10:]]
    assert len(driver.submissions) == 1, "the same driver"


@pytest.mark.long
def test_driver_reports_the_files_that_spark_has_listed_and_not_read(driver: DriverOnCluster, rows: Input) -> None:
    rows.write(12)
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(SLOW, executors=1)
    status = driver.wait_status(
        "unread files", lambda now: (found := source(now)) is not None and bool(found.unread_files)
    )
    found = source(status)
    assert found is not None
    assert found.unread_files in {10, 8, 6, 4, 2}
    assert found.lag_s is not None
    assert found.lag_s > 0
    assert not found.is_lag_minimum
    driver.wait_status("the load", lambda now: now.load is not None and now.load.task_ms > 0 < now.load.peak_heap_bytes)

    status = driver.wait_status(
        "no unread file", lambda now: (found := source(now)) is not None and found.unread_files == 0
    )
    found = source(status)
    assert found is not None
    assert (found.lag_s, found.is_lag_minimum) == (0.0, False)
