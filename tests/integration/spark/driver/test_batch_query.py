"""A batch in a real driver runs to its end, or is stopped and commits nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action, DriverState
from tests.support.driver.driver_on_cluster import JOB, DriverOnCluster, plan

pytestmark = pytest.mark.long

TASKS = 4

PATIENT = """
import os, sys, time
from airflow_adaptive.job import AdaptiveJob
from pyspark.sql.functions import col, udf

directory, tasks = sys.argv[1], 4

def waits_for_the_sign(number):
    while not os.path.exists(directory + "/go"):
        time.sleep(0.1)
    return number

def numbers(spark, parallelism):
    rows = spark.range(0, tasks, 1, tasks).select(udf(waits_for_the_sign, "long")(col("id")).alias("id"))
    return rows.write.format("json").mode("overwrite").option("path", directory + "/out")

AdaptiveJob(numbers).run()
"""


def written(root: Path) -> list[int]:
    files = (root / "out").glob("part-*.json")
    return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())


def test_batch_runs_to_its_end_on_executors_that_join_it(driver: DriverOnCluster, tmp_path: Path) -> None:
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(PATIENT, executors=1)
    status = driver.wait_status("the batch", lambda now: now.state is DriverState.RUNNING)
    assert [(query.name, query.active) for query in status.queries] == [(JOB, True)]

    driver.direct(Action.RUN, 2, plan(2))
    driver.wait_status("another executor", lambda now: now.version == 2 and len(now.executors) == 2)
    (tmp_path / "go").touch()
    assert driver.wait_end() == "FINISHED"
    driver.wait_status("the final status", lambda now: now.state is DriverState.FINISHED)
    assert written(tmp_path) == list(range(TASKS))


def test_batch_that_is_directed_to_stop_is_cut_and_commits_nothing(driver: DriverOnCluster, tmp_path: Path) -> None:
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(PATIENT, executors=1)
    driver.wait_status("the batch", lambda now: now.state is DriverState.RUNNING and bool(now.executors))
    driver.direct(Action.STOP, 2)
    assert driver.wait_end() == "FINISHED"
    driver.wait_status("the final status", lambda now: now.state is DriverState.STOPPED)
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert written(tmp_path) == []
