"""The trigger that waits for the slots of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_adaptive._airflow.process.abandoned_jobs import canceling_abandoned_jobs
from airflow_adaptive._airflow.process.deferral import SerializedByAttributes, event_of, with_minimum_deferral
from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._airflow.process.resource_wait import wait_for_slots
from airflow_adaptive._core.scheduler.snapshot import decode


class SparkResourcesTrigger(SerializedByAttributes, BaseTrigger):
    """Fires when the slots for a job are available, by the rules by which the job itself waits.

    Args:
        wanted: what the job needs (`WantedResources`), encoded.
        connections: Airflow connections of the cluster (`ConnectionIds` as a dict).
        until: deadline, in ISO 8601.
    """

    def __init__(self, wanted: dict[str, Any], connections: dict[str, str], until: str) -> None:
        super().__init__()
        self.wanted = wanted
        self.connections = connections
        self.until = until

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once: with the slots, at the deadline, or with an error (see `wait_for_slots`)."""
        connections: ConnectionIds = decode(ConnectionIds, self.connections)
        async with canceling_abandoned_jobs(str(self.wanted.get("graph", {}).get("job", ""))):
            event = event_of(await with_minimum_deferral(wait_for_slots(self.wanted, connections, self.until)))
        yield event
