"""A client of the namespace `team-a`, and submissions to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster
from airflow_adaptive._core.ports import DriverSubmission
from airflow_adaptive._engine.clock import SystemClock
from tests.support.kubernetes.client.fake_api import FakeApi


@asynccontextmanager
async def client_of(server: FakeApi, **fields: Any) -> AsyncIterator[KubernetesCluster]:
    secret_env = {"TOKEN": "t0ps3cret"}
    address = KubernetesAddress(
        server="https://api", namespace="team-a", secret_env=secret_env, max_cpu_millicores=4000, **fields
    )
    client = KubernetesCluster(address, server, SystemClock())
    try:
        yield client
    finally:
        await client.close()


def submission(epoch: int = 1, nonce: str = "n", name: str = "departures") -> DriverSubmission:
    conf = {"spark.kubernetes.container.image": "spark:4"}
    return DriverSubmission(name=name, epoch=epoch, nonce=nonce, script="/jobs/run.py", conf=conf)
