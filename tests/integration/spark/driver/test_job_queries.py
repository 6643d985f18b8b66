"""The queries of one job in a real driver rescale together, continue together and fail together."""

from __future__ import annotations

import operator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverPlan, DriverState, DriverStatus
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import TIMEOUT_S, DriverOnCluster, Input, rejects, sink_rows
from tests.support.driver.spark_version import NEEDS_REPARTITION

pytestmark = pytest.mark.long

FIRST_BATCH_S = 2 * TIMEOUT_S
"""Of two queries that begin at once."""

NAMES = ("distinct", "copied")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# `distinct` is stateful, so that a batch that is lost or duplicated shows; a row with id -1 makes a batch of `copied` fail.
# Each call notes the pools that it finds, which are those of the call before, and may then misbehave.
UNBOUNDED = """
import os, sys
from airflow_adaptive.job import AdaptiveJob

directory = sys.argv[1]

def rows(spark):
    return spark.readStream.schema("id long").option("maxFilesPerTrigger", 3).json(directory + "/in")

def to_file(frame, name):
    return frame.writeStream.queryName(name).format("json").option("path", directory + "/" + name)

def note_pools(spark):
    root = spark.sparkContext._jsc.sc().taskScheduler().rootPool()
    pools = [pool for pool in root.schedulableQueue().toArray()]
    with open(directory + "/pools.txt", "a") as file:
        print(*sorted(f"{pool.name()}={pool.weight()}" for pool in pools), file=file)

def departures(spark, parallelism):
    note_pools(spark)
    distinct = to_file(rows(spark).dropDuplicates(["id"]), "distinct")
    checked = rows(spark).selectExpr("id", "1 / (id + 1) AS checked").filter("checked > -1 OR checked <= -1")
    copied = to_file(checked.repartition(parallelism["copied"]), "copied").trigger(processingTime="1 second")
    if os.path.exists(directory + "/one"):
        return distinct
    if os.path.exists(directory + "/starts"):
        copied.option("checkpointLocation", directory + "/mine").queryName("mine").start()
    return [distinct, copied]

AdaptiveJob(departures).run()
"""


def plan(version: int, executors: int, **shares: int) -> DriverPlan:
    return DriverPlan(
        parallelism={"distinct": executors, "copied": executors},
        executors=executors,
        state_partitions={"distinct": 2, "copied": 3},
        query_version=version,
        pool_weights=shares,
    )


def committed(status: DriverStatus) -> list[int]:
    return [query.committed for query in status.queries]


def batches(driver: DriverOnCluster, query: str, log: str) -> list[int]:
    files = (driver.directory / "checkpoints" / query / log).glob("*")
    return sorted(int(file.name) for file in files if file.name.isdecimal())


def cut(driver: DriverOnCluster) -> list[str]:
    """Queries of which a batch was begun that is not committed."""
    return [name for name in NAMES if batches(driver, name, "offsets") != batches(driver, name, "commits")]


def written(driver: DriverOnCluster) -> list[list[int]]:
    return [sorted(row["id"] for row in sink_rows(driver.root / name)) for name in NAMES]


def state_partitions(driver: DriverOnCluster) -> int:
    return len(list((driver.directory / "checkpoints" / "distinct" / "state" / "0").glob("[0-9]")))


def wait_for_all(driver: DriverOnCluster, rows: Input) -> None:
    wait_until(lambda: written(driver) == [rows.ids] * 2, FIRST_BATCH_S, "all rows in both outputs")


def test_queries_run_beside_each_other_and_go_on_with_another_plan_and_another_driver(
    driver: DriverOnCluster, rows: Input, tmp_path: Path
) -> None:
    rows.write(12)
    driver.direct(Action.RUN, 1, plan(1, 2, distinct=3, copied=1))
    driver.submit(UNBOUNDED, executors=2)
    status = driver.wait_status("batches of both", lambda now: min(committed(now), default=0) >= 2, FIRST_BATCH_S)
    assert [(query.name, query.active) for query in status.queries] == [(name, True) for name in NAMES]
    assert (status.state, status.vertices_read) == (DriverState.RUNNING, ("copied",))

    driver.direct(Action.RUN, 2, plan(1, 2, distinct=1, copied=1))
    status = driver.wait_status("the other shares", lambda now: now.version == 2)
    before = committed(status)
    rows.write(3)
    driver.wait_status("batches of both with them", lambda now: all(map(operator.gt, committed(now), before)))

    driver.direct(Action.RUN, 3, plan(3, 1, distinct=1, copied=1))
    rows.write(6)
    status = driver.wait_status("the smaller plan", lambda now: now.version == 3 and now.downtime_ms is not None)
    assert status.parallelism == {"distinct": 1, "copied": 1}
    wait_for_all(driver, rows)
    assert {stage["schedulingPool"] for stage in driver.spark("stages?status=complete")} == set(NAMES)

    driver.direct(Action.STOP, 3)
    assert driver.wait_end() == "FINISHED"
    driver.wait_status("the final status", lambda now: now.state is DriverState.STOPPED)
    assert cut(driver) == []
    assert "no batch boundary" not in driver.output()

    rows.write(6)
    driver.epoch = 2
    driver.direct(Action.RUN, 4, plan(4, 2, distinct=1, copied=2))
    driver.submit(UNBOUNDED, executors=2)
    wait_for_all(driver, rows)
    driver.direct(Action.STOP, 4)
    assert driver.wait_end() == "FINISHED"
    assert cut(driver) == []
    # The pool of the share before stays until the next plan: a stage may have been in it.
    assert (tmp_path / "pools.txt").read_text().splitlines() == [
        "default=1",
        "copied=1 default=1 distinct=1 distinct=3",
        "default=1",
    ]
    assert state_partitions(driver) == 2


def test_queries_go_on_when_the_function_misbehaves_and_fail_together_when_one_does(
    driver: DriverOnCluster, rows: Input, tmp_path: Path
) -> None:
    rows.write(6)
    driver.direct(Action.RUN, 1, plan(1, 1))
    driver.submit(UNBOUNDED, executors=1)
    driver.wait_status("batches of both", lambda now: min(committed(now), default=0) >= 1, FIRST_BATCH_S)

    for version, (sign, error) in enumerate(
        {"one": "'copied' is missing", "starts": "called start()"}.items(), start=2
    ):
        (tmp_path / sign).touch()
        driver.direct(Action.RUN, version, plan(version, 1))
        status = driver.wait_status("the rejection", rejects(version))
        assert (status.state, status.version) == (DriverState.RUNNING, 1)
        assert status.rejection is not None
        assert error in status.rejection.message
        (tmp_path / sign).unlink()
    rows.write(3)
    wait_for_all(driver, rows)

    rows.put("poison.json", [-1])
    status = driver.wait_status("the failure", lambda now: now.state is DriverState.FAILED)
    assert status.failure is not None
    assert (status.failure.error_class, status.failure.query) == ("DIVIDE_BY_ZERO", "copied")
    assert [query.active for query in status.queries] == [False, False]
    assert cut(driver) == ["copied"]

    rows.put("poison.json", [])
    rows.write(3)
    driver.direct(Action.RUN, 4, plan(4, 1))
    status = driver.wait_status("the restart", lambda now: now.state is DriverState.RUNNING)
    assert status.failure is None
    wait_until(lambda: written(driver)[1] == rows.ids, TIMEOUT_S, "all rows of the query that had failed")
    wait_until(lambda: set(written(driver)[0]) - {-1} == set(rows.ids), TIMEOUT_S, "all rows of the other")
    assert len(written(driver)[0]) == len(set(written(driver)[0]))
    driver.direct(Action.STOP, 4)
    assert driver.wait_end() == "FINISHED"
    assert cut(driver) == []


@NEEDS_REPARTITION
def test_state_of_each_query_gets_the_partitions_of_its_plan(driver: DriverOnCluster, rows: Input) -> None:
    rows.write(6)
    driver.direct(Action.RUN, 1, plan(1, 2))
    driver.submit(UNBOUNDED, executors=2, conf={"spark.sql.streaming.stateStore.providerClass": ROCKSDB})
    driver.wait_status("batches of both", lambda now: min(committed(now), default=0) >= 1, FIRST_BATCH_S)

    wanted = replace(plan(2, 2), state_partitions={"distinct": 4, "copied": 3}, repartition=True)
    driver.direct(Action.RUN, 2, wanted)
    rows.write(3)
    status = driver.wait_status("the plan", lambda now: now.version == 2 and now.state is DriverState.RUNNING)
    assert (status.rejected_version, status.failure) == (0, None)
    wait_for_all(driver, rows)
    assert state_partitions(driver) == 4
    driver.direct(Action.STOP, 2)
    assert driver.wait_end() == "FINISHED"
    assert cut(driver) == []
