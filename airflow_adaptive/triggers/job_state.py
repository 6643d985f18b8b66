"""Triggers that observe a job: for tasks that wait for a state, and for DAGs that are scheduled on events of the job."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_adaptive._airflow.process.abandoned_jobs import cancel_abandoned_jobs, canceling_abandoned_jobs
from airflow_adaptive._airflow.process.deferral import (
    SerializedByAttributes,
    event_of,
    finish_in_background,
    with_minimum_deferral,
)
from airflow_adaptive._airflow.process.job_control import (
    POLL_INTERVAL,
    JobControl,
    JobEvent,
    event_payload,
    event_position,
    events_since,
    is_position,
    read_summary,
    wait_for_state,
)
from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._airflow.store.job_asset import JobStateStore, job_asset
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._engine.clock import SystemClock

log = logging.getLogger(__name__)

POSITION: Final = "position/"
"""Prefix of the keys of the positions of event triggers in the state store of a job."""


class JobStateTrigger(SerializedByAttributes, BaseTrigger):
    """Fires when a job is in one of several states.

    Args:
        job: id of the job.
        states: names of states, or outcomes of a job that has ended.
        until: deadline, in ISO 8601.
    """

    def __init__(self, job: str, states: Sequence[str], until: str) -> None:
        super().__init__()
        self.job = job
        self.states = list(states)
        self.until = until

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, when the job reaches a state or at the deadline (see `wait_for_state`)."""
        until = datetime.fromisoformat(self.until)
        async with canceling_abandoned_jobs(self.job):
            event = event_of(await with_minimum_deferral(wait_for_state(self.job, self.states, until)))
        yield event


class AdaptiveJobEventTrigger(SerializedByAttributes, BaseEventTrigger):
    """Fires an event for an `AssetWatcher` each time the job is rescaled, restarts or ends.

    The trigger keeps its position in the state store of the job, under a key that contains its kinds of events: Airflow runs one trigger for
    all watchers with the same job and kinds, also of different Assets, and another trigger for each other list of kinds. After a time without
    a triggerer it fires for the events of that time. Several events of one kind between two polls become one event.

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
        finish_in_background(cancel_abandoned_jobs(self.job, None))
        while True:
            summary = await read_summary(control)
            if summary is not None:
                for event in events_since(position, summary) if position else ():
                    if event in self.events:
                        yield event_of(event_payload(event, self.job, summary))
                if (newest := event_position(summary)) != position:
                    position = newest
                    await self._save(newest)
            await clock.sleep(POLL_INTERVAL.total_seconds())

    def _position(self) -> Any:
        """Return the stored position, which an earlier version of Airflow may have stored; blocks."""
        if self._store.get(self._key) is None:
            job_asset(self.job).move_into_state_store(self._key)
        return self._store.get(self._key, {})

    @property
    def _key(self) -> str:
        return f"{POSITION}{','.join(self.events)}"

    @property
    def _store(self) -> JobStateStore:
        return job_asset(self.job).store

    async def _restore(self) -> Mapping[str, Any]:
        """Return the stored position, empty without one. Wait until Airflow's store answers, because events would be lost otherwise."""
        while True:
            try:
                position = await self._access.read(self._position)
            except Exception as error:  # noqa: BLE001  backends of state stores raise exceptions of any class
                log.warning("The position of job %s cannot be read. The read is repeated: %s", self.job, error)
                await SystemClock().sleep(POLL_INTERVAL.total_seconds())
            else:
                return position if is_position(position) else {}

    async def _save(self, position: Mapping[str, Any]) -> None:
        """Store the position. After a failure, the next event stores its own position."""
        try:
            await self._access.write(lambda: self._store.set(self._key, dict(position)))
        except Exception as error:  # noqa: BLE001  backends of state stores raise exceptions of any class
            log.warning("The position of job %s cannot be stored: %s", self.job, error)

    @property
    def _access(self) -> StoreAccess:
        return ProcessResources.current().store_access
