"""Airflow as the place where people leave wishes and look at jobs: asset state store in, XComs out (port `JobStore`).

A job is an Airflow Asset of the same name. Its state store is the inbox (keys `wish` and `requirements`); the task's XComs show
what the job does. Neither is the truth: that is the job's log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import AssetStateStoreAccessor
from airflow.sdk.execution_time.xcom import XCom

from airflow_adaptive.ports import Clock, Inbox, Wish

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

WISH = "wish"
REQUIREMENTS = "requirements"

XCOM_STATE = "state"
XCOM_PARALLELISM = "parallelism"
XCOM_TRANSITIONS = "transitions"
XCOM_FAILURES = "failures"
XCOM_MASTER_URL = "spark_master_url"
XCOM_DRIVER_URL = "spark_driver_url"
XCOM_EXECUTORS_URL = "spark_executors_url"
XCOM_STDOUT_URL = "spark_driver_stdout_url"
XCOM_STDERR_URL = "spark_driver_stderr_url"
XCOM_ATTEMPT = "attempt"

LINKS = {
    XCOM_MASTER_URL: "master",
    XCOM_DRIVER_URL: "driver",
    XCOM_EXECUTORS_URL: "executors",
    XCOM_STDOUT_URL: "stdout",
    XCOM_STDERR_URL: "stderr",
}
"""XComs of the extra links, and their names among a job's addresses."""

SHOWN_TRANSITIONS = 50
"""Transitions in the XCom; the job's log keeps them all."""

INBOX_INTERVAL = timedelta(seconds=2)
"""How often the inbox is read: an operation costs 12-30 ms, and a triggerer manages about 45 a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """The task instance that a job's XComs belong to; survives serialisation as a dict."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    def push(self, key: str, value: Any) -> None:
        """Set an XCom of the task; blocks."""
        XCom.set(key, value, **asdict(self))

    def pull(self, key: str) -> Any:
        """An XCom of the task, None if there is none; blocks."""
        return XCom.get_one(key=key, **asdict(self))


class AirflowJobStore:
    """`JobStore` over an asset's state store and a task's XComs; every call runs in a thread, which works everywhere.

    Nothing that goes wrong here ends a loop: a job must not depend on who watches it, nor on Airflow's API server.
    """

    def __init__(self, job: str, task: TaskKey, clock: Clock) -> None:
        """Take note; nothing is read yet."""
        self._accessor = AssetStateStoreAccessor(name=job)
        self._task = task
        self._clock = clock
        self._read_at: datetime | None = None
        self._inbox = Inbox()
        self._pushed: dict[str, Any] = {}
        self._complaint: str | None = None

    async def inbox(self) -> Inbox:
        """The wish and the overrides, read at most every `INBOX_INTERVAL`; what can't be read leaves them as they were."""
        now = self._clock.now()
        if self._read_at is None or now - self._read_at >= INBOX_INTERVAL:
            self._read_at = now
            await asyncio.to_thread(self._carefully, self._read)
        return self._inbox

    async def publish(self, view: Mapping[str, Any]) -> None:
        """Push as XComs what has changed; what can't be pushed now is pushed with a later view."""
        await asyncio.to_thread(self._carefully, self._push, view)

    def _carefully(self, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except Exception as error:  # noqa: BLE001  backends of XComs and state stores raise what they like
            self._complain(f"Airflow's stores can't be used now for {self._task}: {type(error).__name__}: {error}")

    def _read(self) -> None:
        # One after the other: overrides that nobody understands must not hide the wish to cancel.
        self._follow(WISH, Wish.RUN.value, lambda value: replace(self._inbox, wish=Wish(value)))
        self._follow(REQUIREMENTS, {}, lambda value: replace(self._inbox, requirements=parse_requirements(value)))

    def _follow(self, key: str, default: JsonValue, read: Callable[[Any], Inbox]) -> None:
        try:
            self._inbox = read(self._accessor.get(key, default))
        except ValueError as error:
            self._complain(f"Key {key!r} of {self._accessor} is ignored: {error}")

    def _push(self, view: Mapping[str, Any]) -> None:
        urls = view["urls"]
        values = {
            XCOM_STATE: view["outcome"] or view["state"],
            XCOM_PARALLELISM: view["parallelism"],
            XCOM_TRANSITIONS: view["transitions"][-SHOWN_TRANSITIONS:],
            XCOM_FAILURES: view["failures"],
            **{key: urls[name] or "" for key, name in LINKS.items()},
        }
        for key, value in values.items():
            if key not in self._pushed or self._pushed[key] != value:
                self._task.push(key, value)
                self._pushed[key] = value

    def _complain(self, text: str) -> None:
        """Warn; a complaint that repeats with every look is made once."""
        if text != self._complaint:
            log.warning("%s", text)
            self._complaint = text


def parse_requirements(body: Any) -> Mapping[str, tuple[int, int]]:
    """Overrides as the inbox has them: vertex -> (lower bound, upper bound).

    Args:
        body: vertex -> {"parallelism": {"lowerBound": n, "upperBound": n}} (FLIP-291's body).

    Raises:
        ValueError: it is something else.
    """
    try:
        bounds = {vertex: item["parallelism"] for vertex, item in body.items()}
        overrides = {vertex: (found["lowerBound"], found["upperBound"]) for vertex, found in bounds.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{body!r} is not of FLIP-291's form: {error!r}") from error
    odd = [bound for pair in overrides.values() for bound in pair if type(bound) is not int]
    if odd:
        raise ValueError(f"{body!r} has bounds that are no whole numbers: {odd}")
    return overrides


def ask(job: str, wish: Wish) -> None:
    """Leave a wish for a job; blocks."""
    AssetStateStoreAccessor(name=job).set(WISH, wish.value)
