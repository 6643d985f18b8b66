"""The trigger of the sensor: the waiting phase without a worker slot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.launch.deferral import long_enough
from airflow_adaptive.launch.process_resources import Process
from airflow_adaptive.ports import PortError
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.resource_wait import wait_for_resources
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.snapshot import decode


class SparkResourcesTrigger(BaseTrigger):
    """Fires when the slots for a job are there, by the job's own waiting policy.

    Args:
        wanted: `graph`, `options`, `executor` and `driver` of the job, encoded.
        conn_id: Airflow connection of the Spark cluster.
        until: when to give up, ISO 8601.
    """

    def __init__(self, wanted: dict[str, Any], conn_id: str, until: str) -> None:
        """Only assign: the object is made on workers, too."""
        super().__init__()
        self.wanted = wanted
        self.conn_id = conn_id
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and constructor arguments."""
        arguments = {"wanted": self.wanted, "conn_id": self.conn_id, "until": self.until}
        return (f"{type(self).__module__}.{type(self).__qualname__}", arguments)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, with what was found, with nothing at `until`, or with an error."""
        yield TriggerEvent(await long_enough(look_for_resources(self.wanted, self.conn_id, self.until)))


async def look_for_resources(wanted: dict[str, Any], conn_id: str, until: str) -> dict[str, Any]:
    """Wait for the slots of a job; the event says what was found."""
    process = Process.current()
    try:
        address = await process.traffic.read(AdaptiveSparkHook(conn_id).address)
    except (PortError, ValueError) as error:
        return {"status": "error", "message": str(error)}
    options = decode(Options, wanted["options"])
    async with process.cluster(address) as (_, shared):
        found = await wait_for_resources(
            decode(JobGraph, wanted["graph"]),
            options,
            decode(ExecutorShape, wanted["executor"]),
            decode(DriverShape, wanted["driver"]),
            lambda: shared.unclaimed(options.poll_interval),
            SystemClock(),
            datetime.fromisoformat(until),
        )
    return {"status": "timeout"} if found is None else {"status": "found", **asdict(found)}
