"""The trigger that runs the control loop of a job, so that neither the job nor its state transitions need a worker slot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_adaptive._airflow.process.abandoned_jobs import canceling_abandoned_jobs
from airflow_adaptive._airflow.process.deferral import (
    SerializedByAttributes,
    event_of,
    finish_in_background,
    with_minimum_deferral,
)
from airflow_adaptive._airflow.process.job_loop import Fate, cancel_until_ended, fate_of, run_job_loop
from airflow_adaptive._airflow.process.loop_events import deployed_spec, error_event, recycle_event, superseded_event
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob, ProcessResources
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.loop import RunLimits

log = logging.getLogger(__name__)

STANDBY_DELAY = timedelta(seconds=30)
"""Delay before a superseded trigger takes its job back. Airflow ends a trigger that runs on another triggerer within this time."""

HANDOVER_POLL_INTERVAL = timedelta(seconds=5)
"""Interval between two checks of the task while a loop waits for the loop of the next trigger."""

MAX_POLL_INTERVAL: Final = timedelta(minutes=1)
"""Longest interval between two checks of a task that was cleared and has not begun to run, because its DAG is paused, for example."""


class AdaptiveJobTrigger(SerializedByAttributes, BaseTrigger):
    """Runs the control loop of one job until the job ends, or until the trigger lifetime passes.

    Args:
        spec: the job as deployed (`encode(JobSpec)`); plain JSON without secrets.
        connections: Airflow connections of the cluster (`ConnectionIds` as a dict).
        base: URI of the folder of all job directories.
        task_key: the deferred task instance (`TaskKey` as a dict).
        cancel_at: deadline of the task, in ISO 8601; None without a deadline.
        on_rescale: `path` and `kwargs` of the rescale callback; None without a callback.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        connections: dict[str, str],
        base: str,
        task_key: dict[str, Any],
        cancel_at: str | None = None,
        on_rescale: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.connections = connections
        self.base = base
        self.task_key = task_key
        self.cancel_at = cancel_at
        self.on_rescale = on_rescale
        self._is_handed_over = False
        self._has_fired = False

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Run the loop, and fire once: when the job has ended or the trigger lifetime has passed.

        In the second case the loop continues in an asyncio task until the loop of the next trigger takes over. Airflow may
        start the next trigger late or never: the scheduler may be down, the DAG may be paused, or the DAG file may be broken.
        """
        try:
            job = self._job
        except SnapshotError as error:
            event = error_event(error, None, is_driver_known=False)
            await with_minimum_deferral(asyncio.sleep(0))
            self._has_fired = True
            yield event_of(event)
            return
        cancel_at = None if self.cancel_at is None else datetime.fromisoformat(self.cancel_at)
        loop = asyncio.create_task(self._run_loop(RunLimits(cancel_at=cancel_at)))
        try:
            async with canceling_abandoned_jobs(job.name, job.base):
                lifetime = job.spec.options.trigger_lifetime
                await with_minimum_deferral(asyncio.wait({loop}, timeout=lifetime.total_seconds()))
        except asyncio.CancelledError:
            await _stop(loop)
            raise
        self._has_fired = True
        if loop.done():
            yield event_of(loop.result())
        else:
            self._is_handed_over = True
            finish_in_background(self._wait_for_next_loop(loop))
            yield event_of(recycle_event(job, cancel_at))

    async def _run_loop(self, limits: RunLimits) -> dict[str, Any]:
        """Run the loop until the job ends or another attempt takes the job over.

        A duplicate of this trigger may run on another triggerer for a short time. Airflow soon ends one of the two.
        """
        while True:
            try:
                return await run_job_loop(self._job, limits, self.on_rescale)
            except SupersededError as error:
                level = logging.INFO if self._is_handed_over else logging.WARNING
                log.log(level, "Job %s: %s", self._job.name, error)
                is_duplicate = error.attempt == self._job.spec.attempt
                if is_duplicate and not self._is_handed_over:
                    await asyncio.sleep(STANDBY_DELAY.total_seconds())
                if self._is_handed_over or not is_duplicate:
                    return superseded_event(error)

    async def _wait_for_next_loop(self, loop: asyncio.Task[dict[str, Any]]) -> None:
        """Wait until the next loop has taken over. Cancel the job if its task ends, because Airflow does not notify this loop."""
        while not (await asyncio.wait({loop}, timeout=HANDOVER_POLL_INTERVAL.total_seconds()))[0]:
            try:
                is_over = await self._fate() is Fate.OVER
            except Exception as error:  # noqa: BLE001  for example if Airflow's API server is down; the loop continues
                log.warning("The state of the task cannot be read: %s: %s", type(error).__name__, error)
                continue
            if is_over:
                await _stop(loop)
                await self._cancel()

    async def cleanup(self) -> None:
        """Cancel the job if a user ended the task before the trigger fired.

        Airflow calls this method at the end of every trigger, and does not tell the reason: an event, a user's action, a shutdown, or another triggerer
        that runs the trigger now. So the state of the task decides. The check and the cancellation run in the background, because a shutdown waits for
        this method. (From Airflow 3.3 on, `on_kill` tells a user's action apart, but not from a trigger that moved: apache/airflow#73454.)
        """
        if not self._has_fired:
            finish_in_background(self._cancel_if_over())

    async def _cancel_if_over(self) -> None:
        """Cancel the job if no task runs it any more. Try again until Airflow knows, because no loop monitors the driver any more.

        A driver without a loop stops by itself after `orphan_timeout`, so the checks end soon after it.
        """
        clock = ProcessResources.current().clock
        began_s = clock.elapsed
        while True:
            try:
                match await self._fate():
                    case Fate.CONTINUES:
                        log.info("Another trigger continues the task. Job %s is not canceled.", self._job.name)
                        return
                    case Fate.OVER:
                        await self._cancel()
                        return
                    case Fate.UNKNOWN:
                        limit = self._job.spec.options.orphan_timeout
                        if limit is not None and clock.elapsed - began_s > 2 * limit.total_seconds():
                            return
            except SnapshotError as error:
                log.error(  # noqa: TRY400  The traceback contains nothing that helps the reader.
                    "The job cannot be canceled, and its driver may still run. Kill the driver in the web UI of its master. %s",
                    error,
                )
                return
            except Exception as error:  # noqa: BLE001  Airflow's API server is down, for example.
                log.warning("The state of the task cannot be read: %s: %s", type(error).__name__, error)
            longest_s = min((clock.elapsed - began_s) / 10, MAX_POLL_INTERVAL.total_seconds())
            await asyncio.sleep(max(HANDOVER_POLL_INTERVAL.total_seconds(), longest_s))

    async def _cancel(self) -> None:
        log.info("The task has ended. Canceling job %s.", self._job.name)
        await cancel_until_ended(self._job)

    async def _fate(self) -> Fate:
        job, access = self._job, ProcessResources.current().store_access
        return await access.read(lambda: fate_of(job.name, job.task, job.spec.attempt, was_deferred=True))

    @property
    def _job(self) -> DeployedJob:
        """The job as deployed. Raises `SnapshotError` if another version encoded the job."""
        connections = decode(ConnectionIds, self.connections)
        return DeployedJob(deployed_spec(self.spec), connections, self.base, decode(TaskKey, self.task_key))


async def _stop(loop: asyncio.Task[dict[str, Any]]) -> None:
    """Cancel a loop, and wait until the loop has ended."""
    loop.cancel()
    await asyncio.wait({loop})
