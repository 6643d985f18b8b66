"""Fixtures of a real Spark cluster: `pytest_plugins = ["airflow_adaptive.testing.fixtures"]` in a top-level conftest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_adaptive.local.cluster import LocalCluster


@pytest.fixture(scope="session")
def spark_master() -> Iterator[LocalCluster]:
    """One embedded cluster for all tests of a session; take `spark_cluster` instead, which cleans up between them."""
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def spark_cluster(spark_master: LocalCluster) -> Iterator[LocalCluster]:
    """The session's cluster without workers: a test adds those that it needs, and none of it is left for the next."""
    yield spark_master
    spark_master.reset()
