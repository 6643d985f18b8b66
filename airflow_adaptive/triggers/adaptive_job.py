"""The trigger that runs a job's loop: no worker slot is held, and no transition needs a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_adaptive.autoscaling.advisor import advisor
from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_adaptive.launch.composition import world
from airflow_adaptive.launch.deferral import long_enough
from airflow_adaptive.ports import JobChannel, JobDirectoryError, PortError
from airflow_adaptive.runtime.journal.journal import SupersededError, attempt_of
from airflow_adaptive.runtime.loop import Loop, RunLimits
from airflow_adaptive.runtime.spec import JobSpec
from airflow_adaptive.scheduler.errors import AdaptiveSchedulerError
from airflow_adaptive.scheduler.history.failures import root_cause
from airflow_adaptive.scheduler.snapshot import decode, encode
from airflow_adaptive.scheduler.state import Finished, SchedulerState
from airflow_adaptive.scheduler.state_transitions import can_recover
from airflow_adaptive.spark.standalone import StandaloneCluster
from airflow_adaptive.stores.asset_store import XCOM_ATTEMPT, TaskKey

log = logging.getLogger(__name__)

STAND_BY = timedelta(seconds=30)
"""Longer than Airflow takes to end a trigger that it runs elsewhere; if it has not, the job has nobody else."""

HANDING_ON = timedelta(seconds=5)
"""How often a loop that is about to be relieved asks whether its task still lives; most are relieved sooner."""

KILL_GRACE = timedelta(seconds=10)
"""Longest graceful stop of a killed task: Airflow gives `on_kill` 30 s (`[triggerer] on_kill_timeout`)."""

LOOK_BACK = 20
"""Documents among which an attempt looks for its own: more than another one's loop writes before this one is told."""

ENDED_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of a task instance that nobody will run any more."""

_kept: set[asyncio.Task[None]] = set()
"""What outlives its trigger in this process; the event loop itself keeps only weak references to tasks."""


class AdaptiveJobTrigger(BaseTrigger):
    """Runs the loop of one job until the job is over, or until it is time to defer anew.

    Args:
        spec: the job as deployed (`encode(JobSpec)`): plain JSON without secrets.
        conn_id: Airflow connection of the Spark cluster.
        base: URI of the folder of all job directories.
        task_key: the task instance that waits (`TaskKey` as a dict).
        cancel_at: when the task's time is up, ISO 8601; None for never.
        on_rescale: `path` and `kwargs` of the callback that is told of rescales, None without one.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        conn_id: str,
        base: str,
        task_key: dict[str, Any],
        cancel_at: str | None = None,
        on_rescale: dict[str, Any] | None = None,
    ) -> None:
        """Only assign: the object is made on workers, too."""
        super().__init__()
        self.spec = spec
        self.conn_id = conn_id
        self.base = base
        self.task_key = task_key
        self.cancel_at = cancel_at
        self.on_rescale = on_rescale
        self._is_handed_on = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and constructor arguments; stored in clear, so there is no secret in them."""
        arguments = ("spec", "conn_id", "base", "task_key", "cancel_at", "on_rescale")
        return (f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in arguments})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Run the loop; fire once, when the job is over or the trigger's lifetime is.

        In the latter case the loop goes on in a task of its own until that of the next trigger has taken over: Airflow may
        need long for that, or for ever (its scheduler is down, the DAG is paused, its file is broken).
        """
        cancel_at = None if self.cancel_at is None else datetime.fromisoformat(self.cancel_at)
        loop = asyncio.create_task(self._run_loop(RunLimits(cancel_at=cancel_at)))
        try:
            await long_enough(asyncio.wait({loop}, timeout=self._job.options.trigger_lifetime.total_seconds()))
        except asyncio.CancelledError:
            await _stop(loop)
            raise
        if loop.done():
            yield TriggerEvent(loop.result())
        else:
            self._is_handed_on = True
            _keep(self._look_after(loop))
            yield TriggerEvent(recycled(self._job, cancel_at))

    async def _run_loop(self, leave: RunLimits) -> dict[str, Any]:
        """Run the loop; against a twin (this trigger on another triggerer) Airflow soon ends the one of the two that is too many."""
        while True:
            try:
                task = TaskKey(**self.task_key)
                return await run_loop(self._job, self.conn_id, self.base, task, leave, self.on_rescale)
            except SupersededError as error:
                level = logging.INFO if self._is_handed_on else logging.WARNING
                log.log(level, "Job %s: %s", self._job.graph.job, error)
                is_twin = error.attempt == self._job.attempt
                if is_twin and not self._is_handed_on:
                    await asyncio.sleep(STAND_BY.total_seconds())
                if self._is_handed_on or not is_twin:
                    return superseded(error)

    async def _look_after(self, loop: asyncio.Task[dict[str, Any]]) -> None:
        """Until the next trigger's loop has taken over; or cancel the job if its task is ended, of which Airflow tells nobody."""
        while not (await asyncio.wait({loop}, timeout=HANDING_ON.total_seconds()))[0]:
            try:
                killed = await asyncio.to_thread(self._is_killed)
            except Exception as error:  # noqa: BLE001  Airflow's API is away, say; the loop goes on meanwhile
                log.warning("It is not known whether the task goes on: %s: %s", type(error).__name__, error)
                continue
            if killed:
                await _stop(loop)
                await self._cancel()

    async def on_kill(self) -> None:
        """Cancel the job if the task was ended by somebody; this is also called when nobody did (apache/airflow#73454).

        Airflow cancels this coroutine too, a second after the trigger: the end goes on in a task of its own.
        """
        await asyncio.shield(_keep(self._end()))

    async def _end(self) -> None:
        job = self._job.graph.job
        if not await asyncio.to_thread(self._is_killed):
            log.info("The task goes on elsewhere: job %s is left alone", job)
            return
        await self._cancel()

    async def _cancel(self) -> None:
        log.info("The task was ended: job %s is canceled", self._job.graph.job)
        try:
            await cancel_job(self._job, self.conn_id, self.base, TaskKey(**self.task_key))
        except SupersededError as error:
            log.info("Job %s is left to whoever has taken it over: %s", self._job.graph.job, error)

    @property
    def _job(self) -> JobSpec:
        return cast(JobSpec, decode(JobSpec, self.spec))

    def _is_killed(self) -> bool:
        """Whether nobody will run this attempt any more: its task has ended or is gone (airflow-core, `TaskInstanceState`)."""
        task = TaskKey(**self.task_key)
        states = RuntimeTaskInstance.get_task_states(
            dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
        )
        of_run: Mapping[str, str | None] = states.get(task.run_id, {})
        mapped = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
        if mapped not in of_run:
            # `airflow db clean` forgets tasks that wait, too; while the run lives Airflow makes them anew.
            return not RuntimeTaskInstance.get_dr_count(
                dag_id=task.dag_id, run_ids=[task.run_id], states=["queued", "running"]
            )
        owner = task.pull(XCOM_ATTEMPT)
        return of_run[mapped] in ENDED_STATES and owner in (None, self._job.attempt)


def _keep(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Have something done even if the trigger that began it is gone."""
    task = asyncio.create_task(work)
    _kept.add(task)
    task.add_done_callback(_kept.discard)
    return task


async def _stop(loop: asyncio.Task[dict[str, Any]]) -> None:
    """Make sure that a loop does no more."""
    loop.cancel()
    await asyncio.wait({loop})


async def run_loop(
    spec: JobSpec,
    conn_id: str,
    base: str,
    task: TaskKey,
    leave: RunLimits | None = None,
    on_rescale: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a job's loop with Airflow as its world; return the event that tells the operator how it ended.

    Raises:
        SupersededError: another loop has taken the job over; this one must keep quiet.
    """
    loop: Loop | None = None
    try:
        patience = spec.options.deploy_timeout
        async with world(conn_id, base, spec.graph.job, task, patience, on_rescale) as ports:
            loop = Loop(spec, ports, leave, advisor(spec.rescale_policy))
            return outcome(spec, await loop.run(), leave, loop.trouble)
    except (PortError, AdaptiveSchedulerError, ValueError) as error:
        return {"status": "error", "message": str(error), "driver": None if loop is None else loop.driver}


def recycled(spec: JobSpec, cancel_at: datetime | None) -> dict[str, Any]:
    """The event of a loop that is to be relieved by that of another trigger."""
    deadline = None if cancel_at is None else cancel_at.isoformat()
    return {"status": "recycle", "attempt": spec.attempt, "cancel_at": deadline, "spec": encode(spec)}


def superseded(error: SupersededError) -> dict[str, Any]:
    """The event of a loop whose job another attempt has taken over."""
    return {"status": "superseded", "attempt": error.attempt}


async def cancel_job(spec: JobSpec, conn_id: str, base: str, task: TaskKey) -> None:
    """Take the job over and cancel it, in at most twice `KILL_GRACE`; not from an attempt that has taken it over since.

    Raises:
        SupersededError: another loop has taken over meanwhile.
    """
    hasty = replace(spec.options, stop_timeout=min(spec.options.stop_timeout, KILL_GRACE))
    async with world(conn_id, base, spec.graph.job, task, patience=KILL_GRACE) as ports:
        if await _was_taken_over(ports.channel, spec.attempt):
            log.info("Another attempt runs job %s by now: it is left alone", spec.graph.job)
            return
        policy = advisor(spec.rescale_policy)  # its memory is to outlive this, too
        await Loop(replace(spec, options=hasty), ports, advisor=policy).cancel()


async def _was_taken_over(channel: JobChannel, attempt: str) -> bool:
    """Whether another attempt follows this one in the job's log; who never got there itself may take an earlier one's job."""
    try:
        newest = await channel.newest()
        number = 0 if newest is None else newest.number
        documents = [await channel.read(older) for older in range(number, max(number - LOOK_BACK, 0), -1)]
    except JobDirectoryError:
        return False  # whoever cancels waits for the directory
    mine = [document is not None and attempt_of(document.owner) == attempt for document in documents]
    return any(mine) and not mine[0]


async def kill_driver(conn_id: str, driver: str) -> None:
    """Have a driver killed by its cluster.

    Raises:
        PortError: the cluster does not do it; says why.
        AddressError: there is no such connection, or it does not describe a cluster.
    """
    address = await asyncio.to_thread(AdaptiveSparkHook(conn_id).address)
    cluster = StandaloneCluster(address)
    try:
        await cluster.kill(driver)
    finally:
        await cluster.close()


def outcome(spec: JobSpec, state: SchedulerState, leave: RunLimits | None, trouble: str | None) -> dict[str, Any]:
    """The event that tells the operator how the loop ended."""
    causes = [told for told in (root_cause(state), trouble) if told]
    cancel_at = None if leave is None else leave.cancel_at
    current = state.current
    if not isinstance(current, Finished):
        return recycled(spec, cancel_at)
    return {
        "status": "finished",
        "outcome": current.outcome.value,
        "cause": "; ".join(causes) or None,
        "recoverable": current.cause is None or can_recover(state, current.cause),
        "timed_out": cancel_at is not None and current.since >= cancel_at,
        "restarts": state.num_restarts,
        "rescales": state.num_rescales,
        "parallelism": encode(state.timeline.running),
    }
