"""Fixtures of a real Spark cluster: `pytest_plugins = ["tests.lab.fixtures"]` in a top-level conftest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_adaptive.local.cluster import LocalCluster


@pytest.fixture(scope="session")
def spark_master() -> Iterator[LocalCluster]:
    """One embedded cluster for all tests of a session. Tests use `spark_cluster`, which resets the cluster after each test."""
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def spark_cluster(spark_master: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster of the session, without workers. Each test adds its own workers, which the fixture removes afterwards."""
    yield spark_master
    spark_master.reset()
