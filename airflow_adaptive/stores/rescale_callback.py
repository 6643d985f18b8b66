"""Tells of a job's rescales through a callback of the DAG author, such as one of Airflow's notifiers.

The callback is Airflow's own `AsyncCallback`, which deadline alerts take as well: an importable name and plain arguments, so
it reaches the triggerer, where the loop runs and no object of the DAG file does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from inspect import Parameter, signature
from pkgutil import resolve_name
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_adaptive.ports import ControlRequests
from airflow_adaptive.scheduler.timeline import TerminalState, TriggerCause
from airflow_adaptive.stores.asset_store import AirflowJobStore
from airflow_adaptive.stores.task_xcoms import TaskKey

log = logging.getLogger(__name__)

CALL_TIMEOUT = timedelta(minutes=1)
"""Of one call; a loop that ends waits for those that are under way."""

CAUSES = {
    TriggerCause.UPDATE_REQUIREMENT: "requirements were changed",
    TriggerCause.NEW_RESOURCE_AVAILABLE: "slots came or went",
    TriggerCause.RECOVERABLE_FAILOVER: "it failed",
}
"""What is told of; the first schedule of a job is no rescale."""

ENDS = {TerminalState.COMPLETED: "was rescaled", TerminalState.FAILED: "could not be rescaled"}
"""What a rescale ends with that is told of; nobody needs to hear of one that was given up for another."""


class Announcer:
    """Makes the calls. None of them, and nothing that they raise, holds up the loop or ends it.

    A rescale is told at most once: one that ended while no loop ran, or was just being moved, is not told.
    """

    def __init__(self, callback: Mapping[str, Any], job: str, task: TaskKey) -> None:
        """Take note.

        Args:
            callback: `path` and `kwargs` of an `AsyncCallback`.
            job: id of the job.
            task: that runs it.
        """
        self._callback = callback
        self._job = job
        self._task = task
        self._told: int | None = None
        self._calls: set[asyncio.Task[None]] = set()

    def see(self, view: Mapping[str, Any]) -> None:
        """Tell of the rescales that have ended since the last view."""
        ended = {rescale["number"]: rescale for rescale in view["rescale_history"] if rescale["end"] is not None}
        told, self._told = self._told, max([self._told or 0, *ended])
        if told is None:  # these are an earlier loop's
            return
        for number, rescale in ended.items():
            if number > told and rescale["trigger_cause"] in CAUSES and rescale["terminal_state"] in ENDS:
                self._tell(rescale)

    async def finish(self) -> None:
        """Wait for the calls that are under way; each ends in time."""
        if self._calls:
            await asyncio.wait(self._calls)

    def close(self) -> None:
        """End the calls that are under way."""
        for call in self._calls:
            call.cancel()

    def _tell(self, rescale: Mapping[str, Any]) -> None:
        context = {**asdict(self._task), "job": self._job, "rescale": rescale, "message": message(self._job, rescale)}
        call = asyncio.create_task(self._call(context))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, context: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(CALL_TIMEOUT.total_seconds()):
                await call(self._callback, context)
        except Exception as error:  # noqa: BLE001  (it is the author's code)
            log.warning("on_rescale_callback %s failed: %s: %s", self._callback["path"], type(error).__name__, error)


class AnnouncingStore:
    """An `AirflowJobStore` that also tells of rescales."""

    def __init__(self, store: AirflowJobStore, announcer: Announcer) -> None:
        """Put the two together."""
        self._store = store
        self._announcer = announcer

    async def control_requests(self) -> ControlRequests:
        """See `JobStore`."""
        return await self._store.control_requests()

    async def publish(self, view: Mapping[str, Any]) -> None:
        """See `JobStore`."""
        self._announcer.see(view)
        await self._store.publish(view)

    async def measure(self, figures: Mapping[str, Any]) -> None:
        """See `JobStore`."""
        await self._store.measure(figures)

    async def figures(self) -> Mapping[str, Any]:
        """See `JobStore`."""
        return await self._store.figures()

    async def finish(self) -> None:
        """Wait until everything is shown and told, for a while."""
        await self._store.finish()
        await self._announcer.finish()

    def close(self) -> None:
        """Show and tell no more."""
        self._store.close()
        self._announcer.close()


def message(job: str, rescale: Mapping[str, Any]) -> str:
    """One line for people."""
    amounts, failure = rescale["vertices"] or {}, rescale["failure"]
    moved = f" from {_counts(amounts.get('before'))} to {_counts(amounts.get('after'))}"
    end, cause = ENDS[rescale["terminal_state"]], CAUSES[rescale["trigger_cause"]]
    return f"job {job!r} {end}{moved}: {cause}" + (f" ({failure})" if failure else "")


async def call(callback: Mapping[str, Any], context: dict[str, Any]) -> None:
    """Call what the author gave, as Airflow's `CallbackTrigger` does; a notifier that can only block is given a thread.

    Raises:
        Exception: what it raises; `ImportError` if it can't be found here.
    """
    function: Callable[..., Any] = resolve_name(callback["path"])
    given = {"context": context} if _accepts_context(function) else {}
    called = function(**callback["kwargs"], **given)
    if isinstance(called, BaseNotifier) and type(called).notify is not BaseNotifier.notify:
        await asyncio.to_thread(called, context)  # Airflow's blocking calls work everywhere, those to await do not
    else:
        await called


def _accepts_context(function: Callable[..., Any]) -> bool:
    parameters = signature(function).parameters
    return "context" in parameters or any(it.kind is Parameter.VAR_KEYWORD for it in parameters.values())


def _counts(parallelism: Mapping[str, int] | None) -> str:
    if not parallelism:
        return "nothing"
    one = len(parallelism) == 1
    return ", ".join(str(count) if one else f"{name}={count}" for name, count in parallelism.items())
