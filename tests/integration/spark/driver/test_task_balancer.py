"""Stateful tasks spread over executors that were added, in a real driver on a real cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import TASKS, Action, DriverPlan
from airflow_adaptive.job.executors import is_balanced
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import TIMEOUT_S, DriverOnCluster, plan

pytestmark = pytest.mark.long

PARTITIONS = 8

# Writes down each change of the waits that Spark places tasks by.
STATEFUL = """
import sys, threading, time
from airflow_adaptive.job import AdaptiveJob

def watch(conf):
    seen = None
    while True:
        waits = " ".join(conf.get(f"spark.locality.wait{level}", "unset") for level in ("", ".node"))
        if waits != seen:
            with open(sys.argv[1] + "/waits", "a") as file:
                print(waits, file=file)
        seen = waits
        time.sleep(0.05)

def count(spark, parallelism):
    conf = spark.sparkContext._jsc.sc().conf()
    if not any(thread.name == "watch" for thread in threading.enumerate()):
        threading.Thread(target=watch, args=(conf,), name="watch", daemon=True).start()
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).option("numPartitions", 1).load()
    return rows.groupBy("value").count().writeStream.outputMode("update").format("noop")

AdaptiveJob(count).run()
"""

FOUND = "unset 1s"
DROPPED = "0s 0s"


def balanced(executors: int) -> DriverPlan:
    return replace(plan(executors, state_partitions=PARTITIONS), load_balance_mode=TASKS)


def newest_tasks(driver: DriverOnCluster) -> dict[str, int]:
    """Tasks of the newest stateful stage on each executor that is there."""
    there = {executor["id"]: 0 for executor in driver.spark("executors") if executor["id"] != "driver"}
    stages = [stage for stage in driver.spark("stages?status=complete") if stage["numTasks"] == PARTITIONS]
    newest = max(stages, key=lambda stage: stage["stageId"])
    summary = driver.spark(f"stages/{newest['stageId']}/{newest['attemptId']}")["executorSummary"]
    return there | {executor: metrics["succeededTasks"] for executor, metrics in summary.items()}


def is_spread(driver: DriverOnCluster) -> bool:
    tasks = newest_tasks(driver)
    return len(tasks) == 2 and is_balanced(tasks, dict.fromkeys(tasks, 1))


def test_stateful_tasks_spread_over_added_executors_and_the_wait_is_as_before(
    driver: DriverOnCluster, tmp_path: Path
) -> None:
    waits = tmp_path / "waits"
    driver.direct(Action.RUN, 1, balanced(1))
    driver.submit(STATEFUL, executors=1, conf={"spark.locality.wait.node": "1s"})
    driver.wait_status("state", lambda now: bool(now.queries) and now.queries[0].committed >= 2)
    assert waits.read_text().splitlines() == [FOUND]

    driver.direct(Action.RUN, 2, balanced(2))
    driver.wait_status("two executors", lambda now: now.version == 2)
    wait_until(lambda: is_spread(driver), TIMEOUT_S, "an even stage after the scale-up")

    driver.kill_executor("1")
    driver.wait_status("another", lambda now: [executor.executor_id for executor in now.executors] == ["0", "2"])
    wait_until(lambda: is_spread(driver), TIMEOUT_S, "an even stage after the replacement")
    wait_until(lambda: waits.read_text().splitlines()[-1] == FOUND, TIMEOUT_S, "the wait's return")
    assert DROPPED in waits.read_text().splitlines()
    assert is_spread(driver)
