"""A Spark standalone cluster and an Airflow on this machine, for the demo and for tests."""

from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

__all__ = ["LocalCluster", "LocalClusterError", "LocalWorker", "wait_until"]
