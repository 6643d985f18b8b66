"""Runs and cancels the control loop of a job in an Airflow process, and kills drivers that no loop will stop.

Operators and triggers share these functions: the loop runs in the triggerer for deferrable tasks, and in the worker for all others.

Theory: the journal cannot decide, because it does not tell which attempt is the current one: Airflow's database may have been restored, and a
triggerer that was frozen may start an outdated trigger. Airflow decides, through the state of a task and the attempt in its XComs. A loop that
Airflow does not answer knows nothing, so it must neither claim nor kill anything.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from airflow_adaptive._airflow.internals import RuntimeTaskInstance
from airflow_adaptive._airflow.process.job_ports import job_directory, job_ports
from airflow_adaptive._airflow.process.loop_events import error_event, finished_event, recycle_event
from airflow_adaptive._airflow.process.process_resources import ConnectionIds, DeployedJob, ProcessResources
from airflow_adaptive._airflow.store.job_asset import recorded
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, XCOM_ATTEMPT, pull
from airflow_adaptive._core.ports import (
    ClusterRefusedError,
    ClusterUnreachableError,
    JobDirectory,
    JobDirectoryError,
    StoreUnavailableError,
)
from airflow_adaptive._core.scheduler.config.parsing import format_duration
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Finished
from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._engine.journal.journal import MayTakeOver, SupersededError, attempt_of
from airflow_adaptive._engine.loop import Loop, Ports, RunLimits
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.autoscaling.advisor import advisor

log = logging.getLogger(__name__)

END_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of a task instance that has ended (airflow-core, `TaskInstanceState`)."""

LEFT_THE_LIST = frozenset({"removed", "upstream_failed"})
"""States of a task instance of a mapped task that ended without an attempt, because its list has changed or is missing."""

NOT_IDENTIFIED = frozenset({None, "none", "scheduled", "queued", "restarting", "running"})
"""States of a task instance of which it is not known which job it runs. A task that begins to run has the XComs of its previous attempt for a moment."""

MAY_END_BEFORE_A_LOOP = NOT_IDENTIFIED | {"up_for_retry"}
"""States in which a task instance has no loop, and may end before it has one."""


class Fate(StrEnum):
    """What happens to the job of an attempt whose loop does not run."""

    CONTINUES = "CONTINUES"
    """A loop of this attempt or of a later one runs the job, or will run it."""
    OVER = "OVER"
    """No task runs the job any more."""
    UNKNOWN = "UNKNOWN"
    """A task instance that has not started yet may run the job."""


def fate_of(job: str, task: TaskKey, attempt: str, *, was_deferred: bool = False) -> Fate:
    """Return what happens to a job. Blocks.

    A task that was cleared may fail before it begins to run the job, for example because its DAG file is broken.

    The job of a mapped task belongs to the task instance that runs its id. The list of the task may change, and the DAG run is cleared: then the task
    instance with the map index of this attempt runs another job, and another one may run this job.

    Args:
        job: name of the job.
        task: task instance of the attempt.
        attempt: token of the attempt.
        was_deferred: whether the attempt ran in a trigger, so that a task that runs now is a later attempt, unless the trigger fired.
    """
    fate = _fate_by_state(task, attempt, was_deferred) if task.map_index < 0 else _fate_by_indexes(task, attempt)
    # An attempt records itself before it sets its XComs, so this read comes last.
    is_continued = fate is not Fate.CONTINUES and recorded(job, ATTEMPT) not in (None, attempt)
    return Fate.CONTINUES if is_continued else fate


def _fate_by_state(task: TaskKey, attempt: str, was_deferred: bool) -> Fate:
    """Return what happens to the job of a task that is not mapped."""
    states = _states(task, task.map_index)
    if task.task_id not in states:  # `airflow db clean` deletes task instances, and Airflow creates them again.
        return Fate.UNKNOWN if _is_run_active(task) else Fate.OVER
    state = states[task.task_id]
    if state in END_STATES:
        return Fate.OVER if owns(task, attempt) else Fate.CONTINUES
    if state == "running" and not was_deferred and pull(task, XCOM_ATTEMPT) == attempt:
        return Fate.CONTINUES  # The attempt itself, whose loop is in its worker.
    return Fate.UNKNOWN if state in MAY_END_BEFORE_A_LOOP else Fate.CONTINUES


def _fate_by_indexes(task: TaskKey, attempt: str) -> Fate:
    """Return what happens to the job of a mapped task, from the task instances of the run."""
    states = _states(task, None)
    if not states:
        return Fate.UNKNOWN if _is_run_active(task) else Fate.OVER
    own = states.pop(f"{task.task_id}_{task.map_index}", "removed")
    if own in MAY_END_BEFORE_A_LOOP:
        return Fate.UNKNOWN
    if own not in LEFT_THE_LIST:
        owner = pull(task, XCOM_ATTEMPT)
        if owner in (None, attempt):
            return Fate.OVER if own in END_STATES else Fate.CONTINUES
    return Fate.OVER if NOT_IDENTIFIED.isdisjoint(states.values()) else Fate.UNKNOWN


def owns(task: TaskKey, attempt: str) -> bool:
    """Return whether no other attempt owns the task. Airflow deletes the XComs of a cleared task before its next attempt sets its own. Blocks."""
    return pull(task, XCOM_ATTEMPT) in (None, attempt)


def is_task_over(task: TaskKey) -> bool:
    """Return whether a task instance has ended or was deleted. Blocks."""
    states = _states(task, task.map_index)
    mapped = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
    if mapped not in states:
        # `airflow db clean` also deletes deferred task instances. Airflow creates them again while the DAG run is active.
        return not _is_run_active(task)
    return states[mapped] in END_STATES


def _states(task: TaskKey, map_index: int | None) -> dict[str, str | None]:
    """Return the states of the instances of a task in its run, of one map index or of all; blocks."""
    found = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=map_index
    )
    return dict(found.get(task.run_id, {}))


def _is_run_active(task: TaskKey) -> bool:
    count = RuntimeTaskInstance.get_dr_count(dag_id=task.dag_id, run_ids=[task.run_id], states=["queued", "running"])
    return bool(count)


KILL_GRACE = timedelta(seconds=10)
"""Longest graceful stop of a killed task. Airflow gives `on_kill` 30 s (`[triggerer] on_kill_timeout`)."""

CANCEL_RETRY_INTERVAL = timedelta(seconds=10)
"""Delay before a cancellation that failed is tried again."""

FIRST_RESTART_DELAY = timedelta(seconds=1)
MAX_RESTART_DELAY = timedelta(minutes=1)
"""Delay before a failed loop is restarted; each further failure doubles the delay. A loop that runs for longer resets the delay."""


class NotCanceledError(Exception):
    """A job did not end in the time that a cancellation has."""


class OverdueError(Exception):
    """The execution timeout of a job has passed, each loop failed before it could cancel the job, and no driver is left."""

    def __init__(self, failure: str) -> None:
        super().__init__(
            f"execution_timeout has passed, and the control loop fails before it can cancel the job, so its driver was killed: {failure}"
        )


async def run_job_loop(
    job: DeployedJob, limits: RunLimits | None = None, on_rescale: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Run the loop of a job until the loop ends, and return the event that resumes the task (see `loop_events`).

    A loop that fails is restarted with backoff, because the driver of the job must not run without a loop. The loop ends with an
    error only if a restart cannot help: another version owns the journal, the job directory is lost, the job was never deployed, the
    cluster accepts no driver and none runs, or the driver was killed because each loop failed after the execution timeout.

    Raises:
        SupersededError: another loop has taken the job over.
    """
    spec, restarts, clock = job.spec, _Restarts(), ProcessResources.current().clock
    cancel_at = None if limits is None else limits.cancel_at
    while True:
        began_at, loop = clock.now(), None
        try:
            async with job_ports(job, may_run(job), spec.options.deploy_timeout, on_rescale) as ports:
                await _require_cluster(ports, spec)
                loop = Loop(spec, ports, limits, advisor(spec.rescale_policy), restarts.failure)
                state = await loop.run()
                if isinstance(state.current, Finished):
                    return finished_event(state, state.current, cancel_at, loop.last_error)
                return recycle_event(job, cancel_at)
        except SupersededError:
            raise
        except (ClusterRefusedError, JobDirectoryError, SnapshotError) as error:
            if loop is not None and loop.has_claimed:
                return error_event(error, loop.driver)
            return error_event(error, None, is_driver_known=isinstance(error, ClusterRefusedError))
        except Exception as error:
            if loop is None and not await _is_deployed(job):
                return error_event(error, None)
            log.exception("The control loop of job %s failed. It is restarted.", job.name)
            place = _location(error)
        # The loop had to cancel the job, and the time for a graceful cancellation has passed.
        is_overdue = cancel_at and cancel_at <= began_at and cancel_at + 2 * spec.options.stop_timeout <= clock.now()
        if is_overdue and await _is_driver_killed(job):
            return error_event(OverdueError(place), None)
        await clock.sleep(restarts.delay_s(place, has_run=clock.now() - began_at > MAX_RESTART_DELAY))


async def _require_cluster(ports: Ports, spec: JobSpec) -> None:
    """Raise `ClusterRefusedError` if the cluster accepts no driver, or never has room for the job.

    A driver that runs keeps its loop in any case. Nodes and limits of a job that has begun may come back, so its sizes are not checked.
    """
    try:
        newest = await ports.directory.newest()
        state = None if newest is None else from_json(newest.scheduler)
        has_begun = state is not None and not isinstance(state.current, Finished)
        may_have_driver = state is not None and state.driver is not None
    except (JobDirectoryError, SnapshotError):  # The loop reports the error.
        has_begun = may_have_driver = True
    try:
        await ports.cluster.check(*(() if has_begun else (spec.driver.request, spec.executor.request)))
    except ClusterUnreachableError as error:
        log.info("The cluster cannot be checked now: %s", error)
    except ClusterRefusedError as error:
        if not may_have_driver:
            raise
        log.warning("The cluster accepts no other driver: %s", error)


class _Restarts:
    """Restarts of a loop: the failure that the next loop reports, and the delay before its start."""

    def __init__(self) -> None:
        self._delay = FIRST_RESTART_DELAY
        self._previous = ""
        self.failure: str | None = None

    def delay_s(self, place: str, *, has_run: bool) -> float:
        """Record the failure of a loop, and return the delay before its restart. A failure that repeats is reported once."""
        self.failure = place if has_run or place != self._previous else None
        self._previous = place
        delay = FIRST_RESTART_DELAY if has_run else self._delay
        self._delay = min(2 * delay, MAX_RESTART_DELAY)
        return delay.total_seconds()


async def _is_driver_killed(job: DeployedJob) -> bool:
    """Kill the driver of a job whose loop cannot cancel the job. Return whether no driver of the job runs any more.

    Raises:
        SupersededError: another attempt has taken the job over.
    """
    try:
        await _kill_driver_of(job)
    except SupersededError:
        raise
    except Exception:
        log.exception(
            "The execution timeout of job %s has passed, but the job cannot be canceled, and its driver cannot be killed now. Both are "
            "tried again. To end the job now, kill the driver in the web UI of its master, and mark the task as failed.",
            job.name,
        )
        return False
    return True


async def _kill_driver_of(job: DeployedJob) -> None:
    """Kill the driver that the journal names, unless the driver belongs to another attempt that may continue the job.

    Raises `SupersededError`, and the exceptions of Airflow, of the storage and of the cluster.
    """
    directory, own = await _directory(job), job.spec.attempt
    newest, allowed = await directory.newest(), own
    while newest is not None and (other := attempt_of(newest.owner)) not in (own, allowed):
        if not await may_end(job)(other):
            raise SupersededError(newest.number, newest.owner)
        newest, allowed = await directory.newest(), other  # Airflow may have answered late.
    if newest is None:
        return
    state = from_json(newest.scheduler)
    standby, driver = state.standby.driver, state.driver
    if (
        standby is not None and standby.submission_id is not None
    ):  # Another one runs no query, and ends with the journal.
        await kill_driver(job.connections, standby.submission_id)
    if driver is None:
        return
    if driver.submission_id is None:
        raise LookupError("the cluster has not reported the id of the driver yet")
    await kill_driver(job.connections, driver.submission_id)


async def _is_deployed(job: DeployedJob) -> bool:
    """Whether the job has a journal, so that a driver may run. An unreadable journal may exist."""
    try:
        return await (await _directory(job)).newest() is not None
    except Exception as error:  # noqa: BLE001  The libraries of storages raise exceptions of any class.
        log.warning("The job directory cannot be read, so a driver of the job may run: %s", error)
        return True


async def _directory(job: DeployedJob) -> JobDirectory:
    access = ProcessResources.current().store_access
    return await access.read_connection(job.base, lambda: job_directory(job.base, job.name))


def _location(error: Exception) -> str:
    """The class and the place of an exception. Its message may contain a secret, and the timeline is not masked."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{PurePath(frame.filename).name}, line {frame.lineno}"
    return f"{type(error).__name__} at {place}; the log of the task contains the details"


async def cancel_until_ended(job: DeployedJob) -> None:
    """Cancel a job whose task has ended. A cancellation that fails is repeated, because no loop monitors the driver any more."""
    while True:
        try:
            return await cancel_job(job)
        except SupersededError as error:
            return log.info("Another attempt has taken job %s over: %s", job.name, error)
        except Exception:
            log.exception("Job %s cannot be canceled now. The cancellation is tried again.", job.name)
            await asyncio.sleep(CANCEL_RETRY_INTERVAL.total_seconds())


async def cancel_job(job: DeployedJob) -> None:
    """Take a job over and cancel it, within at most twice `KILL_GRACE`.

    Raises:
        SupersededError: another attempt runs the job, or takes the job over during the cancellation.
        NotCanceledError: the job has not ended in this time, for example because the job directory is not available.
    """
    spec = job.spec
    options = replace(spec.options, stop_timeout=min(spec.options.stop_timeout, KILL_GRACE))
    async with job_ports(job, may_end(job), KILL_GRACE) as ports:
        policy = advisor(spec.rescale_policy)  # The loop writes the state of the policy into the journal.
        loop = Loop(replace(spec, options=options), ports, advisor=policy)
        state = await loop.cancel()
    if not isinstance(state.current, Finished):
        cause = loop.last_error or f"its state is {state.name}"
        time = format_duration(2 * options.stop_timeout)
        raise NotCanceledError(f"job {job.name!r} has not ended within {time}: {cause}")


async def kill_driver(connections: ConnectionIds, driver: str) -> None:
    """Kill a driver through its cluster.

    Raises:
        PortError: the cluster refuses the request or does not answer.
        AddressError: the connection does not exist or does not describe a cluster.
    """
    process = ProcessResources.current()
    address = await process.store_access.read_connection(connections.spark, connections.address)
    async with process.cluster(connections, address) as (client, _):
        await client.kill(driver)


def may_run(job: DeployedJob) -> MayTakeOver:
    """Return the rule for a loop that runs a job: its attempt is the current one of a task that has not ended."""
    return _answered(lambda _: owns(job.task, job.spec.attempt) and not is_task_over(job.task))


def may_end(job: DeployedJob) -> MayTakeOver:
    """Return the rule for a loop that ends a job: the other attempt belongs to the same task, or its task has ended.

    Another task that has not ended runs the job, or starts it.
    """

    def rule(other: str) -> bool:
        of = TaskKey.of_attempt(other)
        return owns(job.task, job.spec.attempt) and (of == job.task or (of is not None and is_task_over(of)))

    return _answered(rule)


def _answered(rule: Callable[[str], bool]) -> MayTakeOver:
    """Return a blocking rule as a question, whose answer may be unknown."""

    async def answer(other: str) -> bool:
        try:
            return await ProcessResources.current().store_access.read(lambda: rule(other))
        except StoreUnavailableError:
            raise
        except Exception as error:
            raise StoreUnavailableError(f"{type(error).__name__}: {error}") from error

    return answer
