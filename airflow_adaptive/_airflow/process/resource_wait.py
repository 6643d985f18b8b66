"""Waits for the slots of a job on a cluster that an Airflow connection names."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow_adaptive._airflow.process.process_resources import ConnectionIds, ProcessResources
from airflow_adaptive._core.ports import ClusterClient, ClusterRefusedError, ClusterUnreachableError, PortError
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.resource_wait import wait_for_resources
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape

log = logging.getLogger(__name__)


async def wait_for_slots(wanted: dict[str, Any], connections: ConnectionIds, until: str) -> dict[str, Any]:
    """Wait until the cluster has the slots of a job. A cluster that accepts no driver ends the wait, because its slots never come.

    Args:
        wanted: `graph`, `options`, `executor` and `driver` of the job, encoded.
        connections: Airflow connections of the cluster.
        until: deadline, in ISO 8601.

    Returns:
        `status`: "found" with the slots, the parallelism and the slots of each worker; "timeout"; or "error" with a message.
    """
    process = ProcessResources.current()
    try:
        address = await process.store_access.read_connection(connections.spark, connections.address)
    except (PortError, ValueError) as error:
        return {"status": "error", "message": str(error)}
    options = decode(Options, wanted["options"])
    async with process.cluster(connections, address) as (client, shared):
        executor, driver = decode(ExecutorShape, wanted["executor"]), decode(DriverShape, wanted["driver"])
        if (refusal := await _refusal(client, driver, executor)) is not None:
            return {"status": "error", "message": refusal}
        found = await wait_for_resources(
            decode(JobGraph, wanted["graph"]),
            options,
            executor,
            driver,
            lambda: shared.unclaimed(client, options.poll_interval),
            SystemClock(),
            datetime.fromisoformat(until),
        )
    return {"status": "timeout"} if found is None else {"status": "found", **asdict(found)}


async def _refusal(client: ClusterClient, driver: DriverShape, executor: ExecutorShape) -> str | None:
    """Return why the cluster accepts no driver, or never has room for the job; None if it does, or if it does not answer now."""
    try:
        await client.check(driver.request, executor.request)
    except ClusterUnreachableError as error:
        log.info("The cluster cannot be checked now: %s", error)
    except ClusterRefusedError as error:
        return str(error)
    return None
