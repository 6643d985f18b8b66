"""What tests of real drivers have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import DriverOnCluster, Input


@pytest.fixture
def rows(tmp_path: Path) -> Input:
    return Input(tmp_path)


@pytest.fixture
def driver(spark_cluster: LocalCluster, tmp_path: Path) -> DriverOnCluster:
    """On a worker that has room for a driver and two executors."""
    spark_cluster.add_worker(cores=3, memory_mb=2048)
    return DriverOnCluster(spark_cluster, tmp_path)
