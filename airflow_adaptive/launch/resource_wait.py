"""Waits for the slots of a job on a cluster that an Airflow connection names."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow_adaptive.launch.cluster.connection_ids import ConnectionIds
from airflow_adaptive.launch.process_resources import ProcessResources
from airflow_adaptive.ports import PortError
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.resource_wait import wait_for_resources
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.snapshot import decode


async def wait_for_slots(wanted: dict[str, Any], connections: ConnectionIds, until: str) -> dict[str, Any]:
    """Wait until the cluster has the slots of a job.

    Args:
        wanted: `graph`, `options`, `executor` and `driver` of the job, encoded.
        connections: Airflow connections of the cluster.
        until: deadline, in ISO 8601.

    Returns:
        `status`: "found" with the slots, the parallelism and the slots of each worker; "timeout"; or "error" with a message.
    """
    process = ProcessResources.current()
    try:
        address = await process.store_access.read_connection(connections.address)
    except (PortError, ValueError) as error:
        return {"status": "error", "message": str(error)}
    options = decode(Options, wanted["options"])
    async with process.cluster(connections, address) as (client, shared):
        found = await wait_for_resources(
            decode(JobGraph, wanted["graph"]),
            options,
            decode(ExecutorShape, wanted["executor"]),
            decode(DriverShape, wanted["driver"]),
            lambda: shared.unclaimed(client, options.poll_interval),
            SystemClock(),
            datetime.fromisoformat(until),
        )
    return {"status": "timeout"} if found is None else {"status": "found", **asdict(found)}
