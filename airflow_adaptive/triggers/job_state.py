"""Triggers that watch a job: for tasks that wait for a state of it, and for DAGs that are scheduled on what happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, cast

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_adaptive.launch.deferral import long_enough
from airflow_adaptive.launch.job_control import JobControl
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.scheduler.state import Outcome

log = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=5)
"""A look costs Airflow an operation of 12-30 ms."""


class JobEvent(StrEnum):
    """What happens to a job, as other DAGs may be scheduled on it."""

    RESCALED = "RESCALED"
    RESTARTED = "RESTARTED"
    """After a failure."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"


def shown_state(summary: Mapping[str, Any] | None) -> str | None:
    """The state of a job as people see it: the outcome of one that has ended; None if nothing is known."""
    return None if summary is None else summary.get("outcome") or summary.get("state")


class JobStateTrigger(BaseTrigger):
    """Fires when a job is in one of some states.

    Args:
        job: id of the job.
        states: names of states, or outcomes of a job that has ended.
        until: when to give up, ISO 8601.
    """

    def __init__(self, job: str, states: Sequence[str], until: str) -> None:
        """Only assign: the object is made on workers, too."""
        super().__init__()
        self.job = job
        self.states = states
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and constructor arguments."""
        arguments = {"job": self.job, "states": list(self.states), "until": self.until}
        return (f"{type(self).__module__}.{type(self).__qualname__}", arguments)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, with what the job shows then."""
        until = datetime.fromisoformat(self.until)
        yield TriggerEvent(await long_enough(wait_for_state(self.job, self.states, until)))


async def wait_for_state(job: str, states: Sequence[str], until: datetime) -> dict[str, Any]:
    """Look until the job is in one of the states, or the time is over; tells what it showed last."""
    control, clock = JobControl(job), SystemClock()
    while True:
        summary = await look(control)
        state = shown_state(summary)
        shown = {"job": job, "state": state, "parallelism": (summary or {}).get("parallelism")}
        if state in states:
            return {"status": "reached", **shown}
        if clock.now() >= until:
            return {"status": "timeout", **shown}
        left = max((until - clock.now()).total_seconds(), 0.0)
        await clock.sleep(min(LOOK_EVERY.total_seconds(), left))


async def look(control: JobControl) -> Mapping[str, Any] | None:
    """What the job shows; None also while Airflow does not answer."""
    try:
        return await asyncio.to_thread(control.summary)
    except AirflowRuntimeError as error:
        log.warning("Airflow can't be asked now: %s", error)
        return None


class AdaptiveJobEventTrigger(BaseEventTrigger):
    """For an `AssetWatcher`: an event each time something happens to a job.

    What happened while no triggerer ran is told when one does: where it stood last is kept in the state store of the asset that
    is watched. Several things of a kind that happen between two looks are one event.

    Args:
        job: id of the job.
        events: kinds that are told, all by default.
    """

    def __init__(self, job: str, events: Sequence[str] = tuple(JobEvent)) -> None:
        """Only assign; unknown kinds are refused, since that is found when the DAG is parsed.

        Raises:
            ValueError: there is no such kind of event.
        """
        super().__init__()
        self.job = job
        self.events = [JobEvent(event).value for event in events]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and constructor arguments."""
        return (f"{type(self).__module__}.{type(self).__qualname__}", {"job": self.job, "events": self.events})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Never ends."""
        control, clock, seen = JobControl(self.job), SystemClock(), await self._recalled()
        while True:
            summary = await look(control)
            if summary is not None:
                for event in happened(seen, summary) if seen else ():
                    if event in self.events:
                        yield TriggerEvent(told(event, summary))
                if (now := place(summary)) != seen:
                    seen = now
                    await self._remember(now)
            await clock.sleep(LOOK_EVERY.total_seconds())

    @property
    def _key(self) -> str:
        return f"seen of {self.job}"

    async def _recalled(self) -> Mapping[str, Any]:
        if self.asset_state_store is None:
            return {}
        return cast(Mapping[str, Any], await asyncio.to_thread(self.asset_state_store.get, self._key, {}))

    async def _remember(self, seen: Mapping[str, Any]) -> None:
        if self.asset_state_store is not None:
            await asyncio.to_thread(self.asset_state_store.set, self._key, dict(seen))


def place(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What tells whether something has happened since."""
    return {name: summary.get(name) for name in ("rescales", "restarts", "outcome", "since", "attempt")}


def happened(seen: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[JobEvent]:
    """What has happened since this was seen."""
    rescales, restarts = (summary[name] - (seen.get(name) or 0) for name in ("rescales", "restarts"))
    if rescales > 0:
        yield JobEvent.RESCALED
    if restarts > max(rescales, 0):
        yield JobEvent.RESTARTED
    end = (summary["outcome"], summary["since"])
    if end[0] in {outcome.value for outcome in Outcome} and end != (seen.get("outcome"), seen.get("since")):
        yield JobEvent(end[0])


def told(event: JobEvent, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What a DAG that is scheduled on it gets to know, small and JSON-able."""
    last = summary.get("last_transition") or {}
    names = ("job", "parallelism", "restarts", "rescales", "cause")
    return {
        "event": event.value,
        **{name: summary.get(name) for name in names},
        "state": shown_state(summary),
        "at": last.get("at"),
        "reason": last.get("reason"),
    }
