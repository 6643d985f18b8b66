"""Jars, packages, files, archives and Python modules reach the driver and the executors of a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.dependencies import FOUND, SCRIPT, dependencies_in, ivy_properties
from tests.support.driver.driver_on_cluster import DriverOnCluster, Input, plan, sink_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TIMEOUT_S = 240.0
"""A session, an executor and a first batch, beside other tests."""


def test_driver_and_executors_have_what_the_script_needs(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    Input(tmp_path).write(1)
    driver = DriverOnCluster(spark_cluster, tmp_path)
    driver.direct(Action.RUN, 1, plan(1))
    driver.submit(SCRIPT, 1, ivy_properties(tmp_path), dependencies=dependencies_in(tmp_path))
    driver.wait_status("a batch", lambda now: bool(now.queries) and now.queries[0].committed > 0, TIMEOUT_S)
    driver.direct(Action.STOP, 2, plan(1))
    assert driver.wait_end(TIMEOUT_S) == "FINISHED"
    found = {(row["driver"], row["executor"]) for row in sink_rows(tmp_path / "out")}
    assert found == {FOUND}
