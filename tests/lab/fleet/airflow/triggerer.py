"""A triggerer: the process that runs the triggers, and its supervisor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.lab.fleet.airflow.api_server import ApiServer, Record
from tests.lab.fleet.airflow.leaks import leaks
from tests.lab.fleet.airflow.scheduler import Scheduler
from tests.lab.fleet.airflow.tables import TaskState, Trigger
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import Action
from tests.lab.fleet.kernel.process import SimulatedProcess

SYNC_INTERVAL_S = 1.0
"""Interval between two rounds of the supervisor, and between two cancellations of a trigger (`TriggerRunner.arun`)."""

HEALTH_LIMIT_S = 30.0
"""Time without a heartbeat after which other triggerers take the triggers over (`[triggerer] triggerer_health_check_threshold`)."""

USER_ACTION = "user-action"
"""Message of a cancellation because the trigger is not assigned any more. The trigger does not see it."""

STOP_TIMEOUT_S = 10.0
"""Longest time from the signal SIGTERM to the end of the process (`TriggererJobRunner._execute`)."""


class SimulatedTriggerer:
    """Runs triggers in one event loop.

    Attributes:
        process: the process.
        loop: the event loop of the triggers.
    """

    def __init__(self, process: SimulatedProcess, record: Record, api: ApiServer, scheduler: Scheduler) -> None:
        """Start the triggerer.

        Args:
            process: the process.
            record: records the starts and ends of triggers.
            api: access to the database.
            scheduler: resumes the tasks.
        """
        self.process = process
        self.loop = SimulatedEventLoop(process)  # type: ignore[abstract]  # no methods for networks
        self._record = record
        self._api = api
        self._scheduler = scheduler
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ended_s = 0.0
        self._is_stopping = False
        self._events: dict[int, Mapping[str, Any]] = {}
        process.soon(lambda: process.kernel.start_thread(self._supervise))

    @property
    def idle_s(self) -> float:
        """Time for which no trigger has run, in seconds; 0 while a trigger runs."""
        return 0.0 if self._tasks else self.process.kernel.now - self._ended_s

    def runs(self, trigger_id: int) -> bool:
        """Return whether a trigger runs, and has not fired."""
        return trigger_id in self._tasks

    def leaks(self) -> list[str]:
        """Return one line for each resource that is not released although no job runs here; see `leaks.leaks`."""
        return leaks(self.loop)

    def stop(self) -> None:
        """Stop gracefully (SIGTERM): cancel all tasks of the event loop, and end the process when they have ended.

        The tasks do not reach Airflow any more. Other triggerers take over the triggers as soon as the process has ended.
        """
        if not self._is_stopping:
            self._is_stopping = True
            self._record(f"{self.process.name} stops")
            connect = self._api.faults.disconnect(hosts=self.process.name)
            self.process.soon(lambda: self._cancel_all(connect))

    def _cancel_all(self, connect: Action) -> None:
        tasks = sorted(asyncio.all_tasks(self.loop), key=lambda task: int(task.get_name().rpartition("-")[2]))
        for task in tasks:
            task.cancel()
        if tasks:
            ended = self.loop.create_task(asyncio.wait(tasks, timeout=STOP_TIMEOUT_S))
            ended.add_done_callback(lambda _: self._end(connect))
        else:
            self._end(connect)

    def _end(self, connect: Action) -> None:
        self._record(f"{self.process.name} has ended")
        self._api.database.heartbeats.pop(self.process.name, None)
        self.process.kill()
        connect()

    def _supervise(self) -> None:
        """Submit events, send heartbeats, and start and cancel triggers, round after round."""
        while True:
            with suppress(AirflowRuntimeError):  # The supervisor repeats its queries.
                assigned = self._api.execute("Heartbeat", self.process.name, lambda host: self._synchronize())
                if self._is_stopping:
                    return
                self._update(assigned)
            self.process.kernel.sleep(SYNC_INTERVAL_S)

    def _synchronize(self) -> dict[int, Trigger]:
        """Execute the queries of one round, and return the triggers of this triggerer."""
        database, now = self._api.database, self.process.kernel.now
        for number, event in self._events.items():
            self._submit(number, event)
        self._events.clear()
        database.heartbeats[self.process.name] = now
        database.remove_unused_triggers()
        return database.assign_triggers(self.process.name, now, HEALTH_LIMIT_S)

    def _submit(self, number: int, event: Mapping[str, Any]) -> None:
        """Resume the task that waits for a trigger."""
        trigger = self._api.database.triggers.get(number)
        if trigger is None:
            return
        instance = self._api.database.tasks[trigger.task]
        if instance.state is TaskState.DEFERRED and instance.trigger_id == number:
            self._scheduler.queue(self._scheduler.tasks[trigger.task.task_id], event=event)

    def _update(self, assigned: Mapping[int, Trigger]) -> None:
        """Start new triggers; cancel triggers that are not assigned any more, in each round until they have ended."""
        for number, task in list(self._tasks.items()):
            if number not in assigned and number not in self._events:
                self.loop.call_soon_threadsafe(task.cancel, USER_ACTION)
        for number, trigger in assigned.items():
            if number not in self._tasks and number not in self._events:
                self._start(trigger)

    def _start(self, trigger: Trigger) -> None:
        self._record(f"{trigger.task.task_id}: trigger {trigger.trigger_id} starts")
        task = self.loop.create_task(self._run(trigger))
        self._tasks[trigger.trigger_id] = task
        task.add_done_callback(lambda task: self._ended(trigger, task))

    async def _run(self, trigger: Trigger) -> None:
        job_trigger = AdaptiveJobTrigger(**json.loads(trigger.arguments))
        try:
            async for event in job_trigger.run():
                self._events[trigger.trigger_id] = json.loads(json.dumps(event.payload))
                self._record(f"{trigger.task.task_id}: trigger {trigger.trigger_id} fires {event.payload['status']}")
        except asyncio.CancelledError as error:
            if error.args and error.args[0] == USER_ACTION:
                self._record(f"{trigger.task.task_id}: trigger {trigger.trigger_id} is canceled")
            raise
        finally:
            with suppress(Exception):
                await job_trigger.cleanup()

    def _ended(self, trigger: Trigger, task: asyncio.Task[None]) -> None:
        """Forget a trigger. The task of a trigger that failed before it fired fails."""
        del self._tasks[trigger.trigger_id]
        self._ended_s = self.process.kernel.now
        if not task.cancelled() and trigger.trigger_id not in self._events:
            error = task.exception()
            self._events[trigger.trigger_id] = {"error": f"trigger failed: {type(error).__name__}: {error}"}
