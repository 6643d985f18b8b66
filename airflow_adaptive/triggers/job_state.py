"""Triggers that observe a job: for tasks that wait for a state, and for DAGs that are scheduled on events of the job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_adaptive.launch.deferral import with_minimum_deferral
from airflow_adaptive.launch.job_control import JobControl
from airflow_adaptive.launch.job_events import JobEvent, event_payload, event_position, events_since, is_position
from airflow_adaptive.launch.job_state import POLL_INTERVAL, read_summary, wait_for_state
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.triggers.serialization import SerializedByAttributes


class JobStateTrigger(SerializedByAttributes, BaseTrigger):
    """Fires when a job is in one of several states.

    Args:
        job: id of the job.
        states: names of states, or outcomes of a job that has ended.
        until: deadline, in ISO 8601.
    """

    def __init__(self, job: str, states: Sequence[str], until: str) -> None:
        """Only assign. Workers create the object, too."""
        super().__init__()
        self.job = job
        self.states = list(states)
        self.until = until

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, when the job reaches a state or at the deadline (see `wait_for_state`)."""
        until = datetime.fromisoformat(self.until)
        yield TriggerEvent(await with_minimum_deferral(wait_for_state(self.job, self.states, until)))


class AdaptiveJobEventTrigger(SerializedByAttributes, BaseEventTrigger):
    """Fires an event for an `AssetWatcher` each time the job is rescaled, restarts or ends.

    The trigger keeps its position in the state store of the watched asset. After a time without a triggerer it fires for the events
    of that time. Several events of one kind between two polls become one event.

    Args:
        job: id of the job.
        events: kinds of events that fire the trigger (`JobEvent`); by default all kinds.
    """

    def __init__(self, job: str, events: Sequence[str] = tuple(JobEvent)) -> None:
        """Assign, and reject unknown kinds, because Airflow calls the constructor when it parses the DAG.

        Raises:
            ValueError: a kind of event does not exist.
        """
        super().__init__()
        self.job = job
        self.events = [JobEvent(event).value for event in events]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll the job without end, and fire for each new event."""
        control, clock, position = JobControl(self.job), SystemClock(), await self._restore()
        while True:
            summary = await read_summary(control)
            if summary is not None:
                for event in events_since(position, summary) if position else ():
                    if event in self.events:
                        yield TriggerEvent(event_payload(event, summary))
                if (newest := event_position(summary)) != position:
                    position = newest
                    await self._save(newest)
            await clock.sleep(POLL_INTERVAL.total_seconds())

    @property
    def _key(self) -> str:
        return f"position of {self.job}"

    async def _restore(self) -> Mapping[str, Any]:
        if self.asset_state_store is None:
            return {}
        position = await asyncio.to_thread(self.asset_state_store.get, self._key, {})
        return position if is_position(position) else {}

    async def _save(self, position: Mapping[str, Any]) -> None:
        if self.asset_state_store is not None:
            await asyncio.to_thread(self.asset_state_store.set, self._key, dict(position))
