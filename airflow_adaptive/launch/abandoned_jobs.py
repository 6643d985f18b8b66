"""Cancels jobs of a fleet that no task runs any more, and that no loop has noticed.

Theory: the trigger of a job cancels the job when its item leaves the list of the mapped task. A trigger cannot do so if its triggerer was down at that
moment. The loop of the first item therefore examines the directories of all jobs of its fleet when it starts. The journal names the last attempt of each
job, and Airflow knows whether a task continues this attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from airflow_adaptive.launch.cluster.connection_ids import ConnectionIds
from airflow_adaptive.launch.job_loop import cancel_until_ended
from airflow_adaptive.launch.job_ports import fleet_jobs, job_directory
from airflow_adaptive.launch.process_resources import ProcessResources
from airflow_adaptive.launch.task_state import Fate, fate_of
from airflow_adaptive.ports import JobKey
from airflow_adaptive.runtime.journal.journal import attempt_of
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler.snapshot import from_json
from airflow_adaptive.scheduler.state import Finished
from airflow_adaptive.stores.task_xcoms import TaskKey

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 30.0
"""Seconds between two checks of a job that a task may still take over."""


async def cancel_abandoned_jobs(
    job: str,
    connections: ConnectionIds,
    base: str,
    task: TaskKey,
    cancel: Callable[[JobSpec, ConnectionIds, str, TaskKey], Awaitable[Any]] = cancel_until_ended,
) -> None:
    """Cancel the other jobs of a fleet that no task runs any more. A job that cannot be examined is skipped.

    Args:
        job: name of the job of this loop.
        connections: Airflow connections of the cluster of the fleet.
        base: URI of the folder of all job directories.
        task: task instance of this loop. Only the first one of a mapped task does the work.
        cancel: cancels a job.
    """
    if task.map_index != 0:
        return
    try:
        others = [other for other in await fleet_jobs(base, JobKey.parse(job)) if other != job]
    except Exception as error:  # noqa: BLE001  The libraries of storages raise exceptions of any class.
        log.info("The jobs of the fleet of job %s cannot be listed now: %s", job, error)
        return
    await asyncio.gather(*(_examine(other, connections, base, cancel) for other in others))


async def _examine(
    job: str,
    connections: ConnectionIds,
    base: str,
    cancel: Callable[[JobSpec, ConnectionIds, str, TaskKey], Awaitable[Any]],
) -> None:
    """Cancel a job if no task runs it any more."""
    try:
        access = ProcessResources.current().store_access
        directory = await access.read_connection(base, lambda: job_directory(base, job))
        newest = await directory.newest()
        state = None if newest is None else from_json(newest.scheduler)
        if newest is None or state is None or (isinstance(state.current, Finished) and state.driver is None):
            return
        attempt = attempt_of(newest.owner)
        task = TaskKey.of_attempt(attempt)
        if task is None:
            return
        while (fate := await access.read(lambda: fate_of(job, task, attempt))) is Fate.UNKNOWN:
            await ProcessResources.current().clock.sleep(POLL_INTERVAL_S)
        if fate is Fate.OVER:
            log.warning("No task runs job %s any more. Canceling the job, because its driver may run.", job)
            spec = JobSpec(
                graph=state.job, options=state.options, directory=directory.uri, script="", py_files=(), attempt=attempt
            )
            await cancel(spec, connections, base, task)
    except Exception as error:  # noqa: BLE001  Airflow or the storage does not answer; the next loop examines the job again.
        log.info("Job %s cannot be examined now: %s: %s", job, type(error).__name__, error)
