"""Calls a callback of the DAG author, for example one of Airflow's notifiers, for each rescale of a job.

The callback is Airflow's `AsyncCallback`, the class that deadline alerts use: an importable name and plain arguments. Therefore the
callback reaches the triggerer, where the loop runs. Objects of the DAG file do not reach the triggerer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from inspect import Parameter, signature
from pkgutil import resolve_name
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_adaptive._airflow.internals import on_this_loop
from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.ports import Clock, PortError
from airflow_adaptive._core.scheduler.timeline import Rescale, TerminalState, TriggerCause
from airflow_adaptive._core.view import JobHistory, JobView, TaskKey, rescale_record
from airflow_adaptive._engine.journal.storage_threads import StorageThreads

log = logging.getLogger(__name__)

CALL_TIMEOUT = timedelta(minutes=1)
"""Timeout of one call. A loop that ends waits for its running calls."""

BLOCKING_CALLS = 2
"""Concurrent calls of a blocking notifier of a job. A notifier that hangs occupies only threads of its job."""

AWAITED_CALLS = 16
"""Calls of an awaitable callback of a job that have not ended, including those that took longer than `CALL_TIMEOUT`."""

CAUSES = {
    TriggerCause.UPDATE_REQUIREMENT: "the requirements changed",
    TriggerCause.NEW_RESOURCE_AVAILABLE: "the available slots changed",
    TriggerCause.RECOVERABLE_FAILOVER: "the job failed",
}
"""Causes of rescales that are reported. The first schedule of a job is not a rescale."""

RESULTS: Mapping[TerminalState | None, str] = {
    TerminalState.COMPLETED: "was rescaled",
    TerminalState.FAILED: "could not be rescaled",
}
"""Results of rescales that are reported. A rescale that a newer rescale replaces is not reported."""


class RescaleCallback:
    """Calls the callback. Neither a slow call nor an exception of a call affects the loop.

    Each rescale is reported at most once. A rescale that ends while no loop runs, or while the loop moves to another process, is not
    reported.
    """

    def __init__(self, callback: Mapping[str, Any], job: str, task: TaskKey) -> None:
        self._callback = callback
        self._job = job
        self._task = task
        self._last_number: int | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._awaited: set[asyncio.Future[Any]] = set()
        self._threads = StorageThreads(BLOCKING_CALLS, "the rescale callback", PortError)

    def report(self, history: JobHistory) -> None:
        """Report the rescales that have ended since the previous call."""
        ended = {rescale.number: rescale for rescale in history.rescales if rescale.end is not None}
        previous = self._last_number
        # An earlier loop has reported the rescales of the first view, also those that could not be read yet.
        self._last_number = max([history.ended_rescales if previous is None else previous, *ended])
        if previous is None:
            return
        for number, rescale in ended.items():
            if number > previous and rescale.trigger_cause in CAUSES and rescale.terminal_state in RESULTS:
                self._start_call(rescale)

    async def finish(self) -> None:
        """Wait for the running calls. Each call ends within `CALL_TIMEOUT`."""
        if self._calls:
            await asyncio.wait(self._calls)

    def close(self) -> None:
        """Stop waiting for the running calls."""
        for call in self._calls:
            call.cancel()

    def _start_call(self, rescale: Rescale) -> None:
        more = {"rescale": rescale_record(rescale), "message": message(self._job, rescale)}
        context = {**asdict(self._task), "job": self._job, **more}
        call = asyncio.create_task(self._call(context))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, context: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(CALL_TIMEOUT.total_seconds()):
                await call(self._callback, context, self._threads, self._awaited)
        except Exception as error:  # noqa: BLE001  The callback is the code of the DAG author.
            log.warning("on_rescale_callback %s failed: %s: %s", self._callback["path"], type(error).__name__, error)


class CallbackStore(AirflowJobStore):
    """An `AirflowJobStore` that also reports rescales to a callback."""

    def __init__(self, job: str, task: TaskKey, clock: Clock, access: StoreAccess, callback: Mapping[str, Any]) -> None:
        super().__init__(job, task, clock, access)
        self._callback = RescaleCallback(callback, job, task)

    async def publish(self, view: JobView) -> None:
        """See `JobStore`."""
        self._callback.report(view.history)
        await super().publish(view)

    async def finish(self) -> None:
        """Wait for the last write and for the running calls."""
        await super().finish()
        await self._callback.finish()

    def close(self) -> None:
        """Cancel writes, and stop waiting for calls."""
        super().close()
        self._callback.close()


def message(job: str, rescale: Rescale) -> str:
    """Return a human-readable line about a rescale that has ended."""
    change = f" from {_counts(rescale.vertices.before)} to {_counts(rescale.vertices.after)}"
    result, cause = RESULTS[rescale.terminal_state], CAUSES[rescale.trigger_cause]
    return f"job {job!r} {result}{change}: {cause}" + (f" ({rescale.failure})" if rescale.failure else "")


async def call(
    callback: Mapping[str, Any], context: dict[str, Any], threads: StorageThreads, awaited: set[asyncio.Future[Any]]
) -> None:
    """Call a callback like Airflow's `CallbackTrigger`. A notifier that implements only the blocking `notify` runs in a thread.

    A call is never canceled, as a thread cannot be: on Airflow 3.1, the answer to a call of the Task SDK that is canceled is read by the next
    call of any trigger, and the triggerer ends.

    Args:
        callback: `path` and `kwargs` of an `AsyncCallback`.
        context: context of the call.
        threads: threads for blocking notifiers.
        awaited: calls of awaitable callbacks that have not ended. This call is added, and removed at its end.

    Raises:
        ImportError: the callback cannot be imported in this process.
        PortError: too many earlier calls have not ended.
        Exception: the callback raised the exception.
    """
    if len(awaited) >= AWAITED_CALLS:
        raise PortError(f"{len(awaited)} earlier calls have not ended: give the callback a timeout of its own")
    function: Callable[..., Any] = resolve_name(callback["path"])
    extra = {"context": context} if _accepts_context(function) else {}
    called = function(**callback["kwargs"], **extra)
    if isinstance(called, BaseNotifier) and type(called).notify is not BaseNotifier.notify:
        # Airflow's blocking calls work in all processes; the awaitable calls do not.
        await threads.call(on_this_loop(partial(called, context)), 2 * CALL_TIMEOUT.total_seconds())
        return
    answer = asyncio.ensure_future(called)
    awaited.add(answer)
    answer.add_done_callback(awaited.discard)
    await asyncio.shield(answer)


def _accepts_context(function: Callable[..., Any]) -> bool:
    parameters = signature(function).parameters
    return "context" in parameters or any(it.kind is Parameter.VAR_KEYWORD for it in parameters.values())


def _counts(parallelism: Mapping[str, int] | None) -> str:
    if not parallelism:
        return "nothing"
    one = len(parallelism) == 1
    return ", ".join(str(count) if one else f"{name}={count}" for name, count in parallelism.items())
