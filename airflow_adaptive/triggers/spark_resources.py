"""The trigger that waits for the slots of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_adaptive.launch.deferral import with_minimum_deferral
from airflow_adaptive.launch.resource_wait import wait_for_slots
from airflow_adaptive.triggers.serialization import SerializedByAttributes


class SparkResourcesTrigger(SerializedByAttributes, BaseTrigger):
    """Fires when the slots for a job are available, by the rules by which the job itself waits.

    Args:
        wanted: `graph`, `options`, `executor` and `driver` of the job, encoded.
        conn_id: Airflow connection of the Spark cluster.
        until: deadline, in ISO 8601.
    """

    def __init__(self, wanted: dict[str, Any], conn_id: str, until: str) -> None:
        """Only assign. Workers create the object, too."""
        super().__init__()
        self.wanted = wanted
        self.conn_id = conn_id
        self.until = until

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once: with the slots, at the deadline, or with an error (see `wait_for_slots`)."""
        yield TriggerEvent(await with_minimum_deferral(wait_for_slots(self.wanted, self.conn_id, self.until)))
