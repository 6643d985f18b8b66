"""Scripts that start their queries themselves, in real drivers on a real cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverState, DriverStatus
from airflow_adaptive.job.entry.unmanaged_script import NO_CHECKPOINT, NOTE
from airflow_adaptive.local.guardian import kill
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import SCRIPT, TIMEOUT_S, DriverOnCluster, Input, plan, sink_rows

pytestmark = pytest.mark.timeout(900)

# Stateful, so that a batch that is lost or duplicated shows; a row with id -1 makes its batch fail.
ORDINARY = """
import sys
from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("departures").config("spark.sql.shuffle.partitions", "3").getOrCreate()
rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 3).json(root + "/in")
writer = rows.selectExpr("id", "1 / (id + 1) AS checked").dropDuplicates(["id"]).writeStream.format("json")
query = writer.option("path", root + "/out").option("checkpointLocation", root + "/checkpoint").start()
with open(root + "/runs", "a") as runs:
    print(query.runId, file=runs)
query.awaitTermination()
spark.stop()
with open(root + "/after", "a") as after:
    print("the end", file=after)
"""

RESTARTING = """
import sys
from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
while True:
    rows = spark.readStream.schema("id long").json(root + "/in")
    writer = rows.writeStream.format("json").option("checkpointLocation", root + "/checkpoint")
    try:
        writer.start(root + "/out").awaitTermination()
    except Exception as error:
        print("again", error)
"""

BOUNDED = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
secret = spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
rows = spark.readStream.schema("id long").json(sys.argv[1] + "/in")
writer = rows.writeStream.format("json").option("checkpointLocation", sys.argv[1] + "/checkpoint")
if secret == "hush":
    writer.queryName("copied").trigger(availableNow=True).start(sys.argv[1] + "/out")
"""

UNABLE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format("rate").load()
stream.writeStream.format("noop").start()
stream.selectExpr("nothing")
"""

# Watches its queries, as public scripts do; the batches of the second query are long.
WATCHING = """
import sys, time
from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
queries = []
for name, seconds in (("one", 0), ("two", 3)):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    writer = rows.writeStream.queryName(name).foreachBatch(lambda rows, _, s=seconds: (rows.count(), time.sleep(s)))
    queries.append(writer.option("checkpointLocation", f"{root}/checkpoints/{name}").start())
try:
    while True:
        for query in queries:
            if not query.isActive:
                raise RuntimeError(f"query {query.name} has stopped")
        time.sleep(0.05)
finally:
    for query in reversed(queries):
        query.stop()
"""

# The batches of the second query do not end.
WEDGED = """
import sys, time
from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.getOrCreate()


def sleep(rows, batch):
    open(f"{root}/asleep", "w").close()
    time.sleep(1000)


for name in ("one", "two"):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    writer = rows.writeStream.queryName(name).foreachBatch(sleep if name == "two" else lambda rows, _: rows.count())
    writer.option("checkpointLocation", f"{root}/checkpoints/{name}").start()
spark.streams.awaitAnyTermination()
"""

RELATIVE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
writer = spark.readStream.format("rate").load().writeStream.format("noop").option("checkpointLocation", "checkpoints")
try:
    writer.start().awaitTermination()
except Exception:
    raise SystemExit(3)
"""

SIZES = """
from pyspark.sql import SparkSession

SparkSession.builder.master("spark://h9:7077").config("spark.executor.memory", "2g").getOrCreate()
"""


def runs(driver: DriverOnCluster) -> int:
    return len((driver.root / "runs").read_text().splitlines())


def written(driver: DriverOnCluster) -> list[int]:
    return sorted(row["id"] for row in sink_rows(driver.root / "out"))


def batches(driver: DriverOnCluster, kind: str) -> list[int]:
    files = (driver.root / "checkpoint" / kind).glob("*")
    return sorted(int(file.name) for file in files if file.name.isdecimal())


def wait_written(driver: DriverOnCluster, rows: Input) -> None:
    def all_rows() -> bool:
        return (driver.root / "out" / "_spark_metadata").is_dir() and written(driver) == rows.ids

    try:
        wait_until(all_rows, TIMEOUT_S, "all rows")
    except TimeoutError as error:
        raise AssertionError(f"{error}; {written(driver)}; {driver.status()}\n{driver.output()}") from error


def wait_running(driver: DriverOnCluster, version: int) -> DriverStatus:
    def wanted(now: DriverStatus) -> bool:
        return (now.epoch, now.version, now.state) == (driver.epoch, version, DriverState.RUNNING) and bool(now.queries)

    return driver.wait_status(f"plan {version} active", wanted)


def begin(driver: DriverOnCluster, script: str, conf: Mapping[str, str] | None = None) -> DriverStatus:
    """Have a script run on one executor."""
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(script, executors=1, conf=conf)
    return wait_running(driver, 1)


def test_executors_come_and_go_under_a_script_that_then_stops_at_a_boundary(
    driver: DriverOnCluster, rows: Input
) -> None:
    """Before the first run, a driver was killed while it logged the offsets of the first batch."""
    partial = driver.root / "checkpoint" / "offsets" / ".0.489fa5fc-87a7-41a7-b070-d489cf31fbb9.tmp"
    partial.parent.mkdir(parents=True)
    partial.touch()
    rows.write(4)
    status = begin(driver, ORDINARY)
    assert (status.vertices_read, status.notice, status.queries[0].name) == ((), NOTE, "departures")
    wait_written(driver, rows)

    driver.direct(Action.RUN, 2, plan(2, query_version=1))
    status = wait_running(driver, 2)
    assert (len(status.executors), status.parallelism) == (2, {"read": 2})
    rows.write(4)
    wait_written(driver, rows)

    driver.direct(Action.RUN, 3, plan(1, query_version=1))
    assert len(wait_running(driver, 3).executors) == 1
    rows.write(4)
    wait_written(driver, rows)
    failed = sum(stage["numFailedTasks"] for stage in driver.spark("stages"))
    assert (runs(driver), failed) == (1, 0)

    driver.direct(Action.STOP, 3)
    assert driver.wait_end() == "FINISHED"
    driver.wait_status("the final status", lambda now: now.state is DriverState.STOPPED)
    assert batches(driver, "offsets") == batches(driver, "commits")
    assert (driver.root / "after").read_text() == "the end\n"
    assert "no batch boundary" not in driver.output()


@pytest.mark.long
def test_new_driver_goes_on_from_the_checkpoint_after_a_kill_and_after_a_suspension(
    driver: DriverOnCluster, rows: Input
) -> None:
    rows.write(6)
    begin(driver, ORDINARY)
    kill(driver.processes())
    driver.wait_end()

    rows.write(6)
    next_driver(driver, 2)
    wait_running(driver, 2)
    wait_written(driver, rows)
    driver.direct(Action.STOP, 2)  # suspend
    assert driver.wait_end() == "FINISHED"
    assert batches(driver, "offsets") == batches(driver, "commits")

    rows.write(3)
    next_driver(driver, 3)
    wait_written(driver, rows)


@pytest.mark.long
def test_new_driver_replays_the_batch_that_failed_and_stops_where_others_hold(
    driver: DriverOnCluster, rows: Input
) -> None:
    rows.write(3)
    begin(driver, ORDINARY)
    wait_written(driver, rows)
    rows.put("poison.json", range(-1, 0))
    assert driver.wait_end() == "FAILED"
    failed = driver.status()
    assert failed is not None
    assert failed.failure is not None
    assert (failed.state, failed.version, failed.failure.error_class) == (DriverState.FAILED, 1, "DIVIDE_BY_ZERO")
    assert f"({SCRIPT}:" in failed.failure.message

    rows.put("poison.json", range(0))
    next_driver(driver, 2)
    wait_running(driver, 2)
    wait_written(driver, rows)
    driver.direct(Action.HOLD, 2)  # its script can't be held: it is stopped
    assert driver.wait_end() == "FINISHED"
    assert written(driver) == rows.ids


@pytest.mark.long
def test_script_that_restarts_its_query_itself_is_stopped_all_the_same(driver: DriverOnCluster, rows: Input) -> None:
    rows.write(2)
    begin(driver, RESTARTING)
    wait_written(driver, rows)
    driver.direct(Action.RUN, 2, replace(plan(1, state_partitions=5, query_version=2), repartition=True))
    status = driver.wait_status("the rejection", lambda now: now.rejected_version == 2)
    assert status.rejection is not None
    assert "the script starts its queries itself" in status.rejection.message
    driver.direct(Action.STOP, 2)
    assert driver.wait_end() == "FINISHED"
    assert "again" not in driver.output()


@pytest.mark.long
def test_script_that_ends_while_its_query_runs_finishes_with_it(driver: DriverOnCluster, rows: Input) -> None:
    rows.write(3)
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(BOUNDED, executors=1, conf={"spark.hadoop.fs.s3a.secret.key": "hush"})
    assert driver.wait_end() == "FINISHED"
    status = driver.wait_status("the final status", lambda now: now.state is DriverState.FINISHED)
    assert [(query.name, query.active) for query in status.queries] == [("copied", False)]
    assert written(driver) == rows.ids


@pytest.mark.long
def test_script_that_raises_fails_the_job_with_its_line(driver: DriverOnCluster) -> None:
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(UNABLE, executors=1)
    assert driver.wait_end() == "FAILED"
    status = driver.status()
    assert status is not None
    assert status.failure is not None
    assert status.failure.error_class == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert f"({SCRIPT}:7)" in status.failure.message
    assert status.notice == f"{NOTE}; a query without a name {NO_CHECKPOINT}"


@pytest.mark.long
def test_script_that_watches_its_queries_stops_at_a_boundary_and_without_a_failure(driver: DriverOnCluster) -> None:
    begin(driver, WATCHING)
    folders = [driver.root / "checkpoints" / name for name in ("one", "two")]

    def numbers(folder: Path, kind: str) -> set[int]:
        return {int(file.name) for file in (folder / kind).glob("*") if file.name.isdecimal()}

    wait_until(lambda: all(len(numbers(folder, "commits")) > 1 for folder in folders), TIMEOUT_S, "batches")
    driver.direct(Action.STOP, 1)
    assert driver.wait_end() == "FINISHED"
    status = driver.wait_status("the final status", lambda now: now.state is DriverState.STOPPED)
    assert status.failure is None
    for folder in folders:
        assert numbers(folder, "commits") == numbers(folder, "offsets")
    assert "failed after the requested end of its queries: RuntimeError: query one has stopped" in driver.output()


@pytest.mark.long
def test_driver_whose_batch_does_not_end_stops_the_others_names_the_query_and_ends(driver: DriverOnCluster) -> None:
    begin(driver, WEDGED, {"spark.airflow.adaptive.stopTimeout": "3"})
    wait_until((driver.root / "asleep").exists, TIMEOUT_S, "the batch that does not end")
    driver.direct(Action.STOP, 1)
    assert driver.wait_end() == "FAILED"
    status = driver.status()
    assert status is not None
    assert status.failure is not None
    assert status.failure.error_class.endswith("BatchStillRunsError")
    assert status.failure.message.startswith("the batch of query 'two' did not end within 13 s of the request")
    assert [query.active for query in status.queries if query.name == "one"] == [False]


@pytest.mark.long
def test_script_with_a_relative_checkpoint_fails_before_its_query_starts(driver: DriverOnCluster) -> None:
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(RELATIVE, executors=1)
    assert driver.wait_end() == "FAILED"
    status = driver.status()
    assert status is not None
    assert status.failure is not None
    assert status.failure.error_class.endswith("AdaptiveJobError")
    assert f"{driver.submissions[-1]}/checkpoints ('checkpoints' in the script)" in status.failure.message
    assert not status.queries


@pytest.mark.long
def test_script_with_another_master_fails_before_its_context_exists(driver: DriverOnCluster) -> None:
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(SIZES, executors=1)
    assert driver.wait_end() == "FAILED"
    assert "the script sets the master 'spark://h9:7077' itself" in driver.output()
    assert "spark.executor.memory to '2g' instead of '512m' (parameter 'executor_memory')" in driver.output()
    assert driver.status() is None


def next_driver(driver: DriverOnCluster, version: int) -> None:
    """As the scheduler does once a driver is gone."""
    driver.epoch += 1
    driver.direct(Action.RUN, version, plan(1, query_version=version))
    driver.submit(ORDINARY, executors=1)
