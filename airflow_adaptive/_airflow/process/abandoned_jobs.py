"""Cancels jobs that no task runs any more, and that no loop has noticed.

Theory: the trigger of a job cancels the job when its task ends, is deleted, or runs another item of a list. A trigger cannot do so if its triggerer
was down at that moment, or ends before the cancellation. Each loop therefore examines the directories of the other jobs below its folder when it
starts, and each trigger that observes a job does so with the folder of this job. The journal names the last
attempt of a job, the owner of the directory names the connections, and Airflow knows whether a task continues this attempt. A job of which this
Airflow does not know the attempt may belong to another Airflow, so it is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from airflow_adaptive._airflow.process.job_loop import Fate, cancel_until_ended, fate_of
from airflow_adaptive._airflow.process.job_ports import all_jobs, job_directory
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob, ProcessResources
from airflow_adaptive._airflow.store.job_asset import recorded
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, BASE, XCOM_ATTEMPT, XCOM_STATE, pull, push
from airflow_adaptive._core.ports import JobKey
from airflow_adaptive._core.scheduler.snapshot import decode, from_json
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.journal.journal import attempt_of
from airflow_adaptive._engine.spec import JobSpec

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 30.0
"""Seconds between two checks of a job that a task may still take over."""

SWEEP_INTERVAL_S: Final = 600.0
"""Seconds between two examinations of a folder by the loops of one process."""

REQUEST_TRIES: Final = 20
"""Examinations of a job that a user cancels, while Airflow or the storage does not answer."""

READS_AT_ONCE: Final = 2
"""Jobs that are examined at the same time. The folder may contain thousands of jobs."""

Cancel = Callable[[DeployedJob], Awaitable[Any]]


class NotExaminedError(LookupError):
    """This Airflow did not run the newest attempt of a job, or does not know the connections of the job."""


@asynccontextmanager
async def canceling_abandoned_jobs(job: str, base: str | None = None) -> AsyncIterator[None]:
    """Cancel abandoned jobs in the background, see `cancel_abandoned_jobs`."""
    others = asyncio.create_task(cancel_abandoned_jobs(job, base))
    try:
        yield
    finally:
        others.cancel()


async def cancel_abandoned_jobs(job: str, base: str | None, cancel: Cancel = cancel_until_ended) -> None:
    """Cancel the jobs in a folder that no task runs any more. A job that cannot be examined is skipped.

    Args:
        job: name of a job in the folder.
        base: URI of the folder, if the caller runs the job, which is then left alone; None for the folder in which the job was deployed last.
        cancel: cancels one job.
    """
    process, folder = ProcessResources.current(), base
    try:
        if (
            folder is None
            and (folder := await process.store_access.read(lambda: recorded(job, BASE), urgent=False)) is None
        ):
            return
        if process.clock.elapsed < process.next_sweeps.get(folder, 0.0):
            return
        process.next_sweeps[folder] = process.clock.elapsed + SWEEP_INTERVAL_S
        found = await all_jobs(folder, JobKey.parse(job))
    except Exception as error:  # noqa: BLE001  The libraries of storages raise exceptions of any class.
        log.info("The jobs in the folder of job %s cannot be listed now: %s", job, error)
        return
    others = [other for other in found if base is None or other != job]
    reads = asyncio.Semaphore(READS_AT_ONCE)
    await asyncio.gather(*(_examine(other, folder, reads, cancel) for other in others))


async def cancel_abandoned_job(
    job: str, base: str, task: Mapping[str, Any] | None = None, cancel: Cancel = cancel_until_ended
) -> None:
    """Cancel one job if no task runs it any more, because a user requests it. The API server lets a triggerer call this function.

    The XComs of `task`, a deleted task instance, must contain the end, because the job has no other store.

    A job that has ended is canceled, too, because the last loop may not have published the end.

    Raises:
        NotExaminedError: the job cannot be canceled by this Airflow.
        Exception: Airflow or the storage did not answer `REQUEST_TRIES` times.
    """
    for tries_left in reversed(range(REQUEST_TRIES)):
        try:
            return await _cancel_and_record(job, base, task, cancel)
        except NotExaminedError:
            raise
        except Exception as error:
            if not tries_left:
                raise
            log.warning("Job %s cannot be canceled now. The cancellation is tried again: %s", job, error)
            await ProcessResources.current().clock.sleep(POLL_INTERVAL_S)
    return None


async def _cancel_and_record(job: str, base: str, task: Mapping[str, Any] | None, cancel: Cancel) -> None:
    is_over = await _cancel_if_abandoned(job, base, asyncio.Semaphore(), cancel, is_requested=True)
    if is_over and task is not None:
        await ProcessResources.current().store_access.write(partial(_record_end, decode(TaskKey, task)))


def _record_end(task: TaskKey) -> bool:
    """Record the end of the job of a deleted task, unless its loop has done so; blocks. A later attempt may have ended the job, or the job never began."""
    if pull(task, XCOM_STATE) not in [*Outcome]:
        push(task, XCOM_STATE, Outcome.CANCELED.value)
    return True


async def _examine(job: str, base: str, reads: asyncio.Semaphore, cancel: Cancel) -> None:
    """Cancel a job if no task runs it any more."""
    try:
        await _cancel_if_abandoned(job, base, reads, cancel)
    except NotExaminedError as error:
        log.warning("Job %s is not canceled: %s", job, error)
    except Exception as error:  # noqa: BLE001  Airflow or the storage does not answer; the next loop examines the job again.
        log.info("Job %s cannot be examined now: %s: %s", job, type(error).__name__, error)


async def _cancel_if_abandoned(
    job: str, base: str, reads: asyncio.Semaphore, cancel: Cancel, *, is_requested: bool = False
) -> bool:
    """Cancel a job if no task runs it any more. Return whether no task runs it."""
    while True:
        async with reads:
            found = await _abandoned(job, base, is_requested=is_requested)
        if found is None:
            return True
        access = ProcessResources.current().store_access
        fate = partial(fate_of, job, found.task, found.spec.attempt)
        match await access.read(fate, urgent=is_requested):
            case Fate.CONTINUES:
                return False
            case Fate.OVER:
                log.warning("No task runs job %s any more. Canceling the job, because its driver may run.", job)
                await cancel(found)
                return True
            case Fate.UNKNOWN:
                await ProcessResources.current().clock.sleep(POLL_INTERVAL_S)


async def _abandoned(job: str, base: str, *, is_requested: bool) -> DeployedJob | None:
    """Return a job as its last attempt has deployed it; None if there is nothing to cancel.

    Only a user cancels a job that has ended, or whose attempt this Airflow does not know. Raises `NotExaminedError`.
    """
    access = ProcessResources.current().store_access
    directory = await access.read_connection(base, lambda: job_directory(base, job))
    newest = await directory.newest()
    state = None if newest is None else from_json(newest.scheduler)
    if newest is None or state is None:
        return None
    if isinstance(state.current, Finished) and state.driver is None and not is_requested:
        return None
    attempt = attempt_of(newest.owner)
    task, connections = TaskKey.of_attempt(attempt), await directory.connections()
    # Another Airflow may use the same folder.
    if task is None or not await access.read(
        lambda: attempt in (pull(task, XCOM_ATTEMPT), recorded(job, ATTEMPT)), urgent=is_requested
    ):
        if not is_requested:
            return None
        raise NotExaminedError(f"this Airflow did not record the attempt {attempt!r}: run its DAG again")
    if connections is None:
        raise NotExaminedError("its directory does not name its connections: run its DAG again")
    spec = JobSpec(
        graph=state.job, options=state.options, directory=directory.uri, script="", py_files=(), attempt=attempt
    )
    return DeployedJob(spec, decode(ConnectionIds, connections), base, task)
