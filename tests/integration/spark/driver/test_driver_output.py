"""The output of a driver on a real worker keeps a limited size while the driver writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive.job.entry.driver import MAX_BYTES, ROTATED_SUFFIX
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import TIMEOUT_S, DriverOnCluster, plan

pytestmark = pytest.mark.long

LINE = "x" * 1023

TALKATIVE = f"""
from airflow_adaptive.job import AdaptiveJob

def count(spark, parallelism):
    print("built for", parallelism["read"])
    for _ in range({MAX_BYTES // 1024}):
        print("{LINE}")
    rows = spark.readStream.format("rate").load().repartition(parallelism["read"])
    return rows.writeStream.format("noop")

AdaptiveJob(count).run()
"""


def test_output_is_cut_while_the_worker_goes_on_writing(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    spark_cluster.add_worker(cores=3, memory_mb=2048)
    driver = DriverOnCluster(spark_cluster, tmp_path)
    driver.direct(Action.RUN, 1, plan(1))
    submission, workers = driver.submit(TALKATIVE, executors=1), spark_cluster.directory / "work"
    folder = wait_until(lambda: next(workers.glob(f"*/{submission}"), None), TIMEOUT_S, "the driver's folder")
    stdout, old = folder / "stdout", folder / f"stdout{ROTATED_SUFFIX}"
    wait_until(old.exists, TIMEOUT_S, "the cut")
    wait_until(lambda: stdout.stat().st_size < MAX_BYTES, TIMEOUT_S, "a new beginning")
    assert MAX_BYTES < old.stat().st_size < 2 * MAX_BYTES
    assert "built for 1" in old.read_text()

    driver.direct(Action.RUN, 2, plan(2))
    wait_until(
        lambda: "built for 2" in stdout.read_text() or "built for 2" in old.read_text(), TIMEOUT_S, "more output"
    )
    driver.wait_status("batches on two", lambda now: now.version == 2 and now.queries[0].committed > 0)
    assert sum(file.stat().st_size for file in folder.glob("std*")) < 5 * MAX_BYTES
    driver.direct(Action.STOP, 3, plan(2))
    assert driver.wait_end() == "FINISHED"
