"""Airflow as the place where people leave wishes and look at jobs: asset state store in, XComs out (port `JobStore`).

A job is an Airflow Asset of the same name. Its state store is the inbox (keys `wish` and `requirements`); the task's XComs show
what the job does. Neither is the truth: that is the job's log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import AssetStateStoreAccessor
from airflow.sdk.execution_time.xcom import XCom

from airflow_adaptive.ports import Clock, Inbox, Wish

log = logging.getLogger(__name__)

WISH = "wish"
REQUIREMENTS = "requirements"

XCOM_STATE = "state"
XCOM_PARALLELISM = "parallelism"
XCOM_TRANSITIONS = "transitions"
XCOM_MASTER_URL = "spark_master_url"
XCOM_DRIVER_URL = "spark_driver_url"
XCOM_ATTEMPT = "attempt"

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
    """`JobStore` over an asset's state store and a task's XComs; every call runs in a thread, which works everywhere."""

    def __init__(self, job: str, task: TaskKey, clock: Clock) -> None:
        """Take note; nothing is read yet."""
        self._accessor = AssetStateStoreAccessor(name=job)
        self._task = task
        self._clock = clock
        self._read_at: datetime | None = None
        self._inbox = Inbox()

    async def inbox(self) -> Inbox:
        """The wish and the overrides, read at most every `INBOX_INTERVAL`; what can't be read leaves them as they were."""
        now = self._clock.now()
        if self._read_at is None or now - self._read_at >= INBOX_INTERVAL:
            self._read_at = now
            self._inbox = await asyncio.to_thread(self._read)
        return self._inbox

    async def publish(self, view: Mapping[str, Any]) -> None:
        """Push the view as XComs; a failure is logged, since the job must not depend on who watches it."""
        try:
            await asyncio.to_thread(self._push, view)
        except AirflowRuntimeError as error:
            log.warning("The XComs of %s could not be pushed: %s", self._task, error)

    def _read(self) -> Inbox:
        try:
            wish = self._accessor.get(WISH, Wish.RUN.value)
            requirements = self._accessor.get(REQUIREMENTS, {})
            return parse_inbox(wish, requirements)
        except AirflowRuntimeError as error:
            log.warning("The wishes for the job could not be read: %s", error)
        except ValueError as error:
            log.warning("A wish is ignored: %s", error)
        return self._inbox

    def _push(self, view: Mapping[str, Any]) -> None:
        urls = view["urls"]
        values = {
            XCOM_STATE: view["outcome"] or view["state"],
            XCOM_PARALLELISM: view["parallelism"],
            XCOM_TRANSITIONS: view["transitions"][-SHOWN_TRANSITIONS:],
            XCOM_MASTER_URL: urls["master"],
            XCOM_DRIVER_URL: urls["driver"],
        }
        for key, value in values.items():
            self._task.push(key, value)


def parse_inbox(wish: Any, requirements: Any) -> Inbox:
    """The inbox from what the state store holds.

    Args:
        wish: "run", "suspend" or "cancel".
        requirements: vertex -> {"parallelism": {"lowerBound": n, "upperBound": n}} (FLIP-291's body).

    Raises:
        ValueError: it is something else.
    """
    try:
        bounds = {name: item["parallelism"] for name, item in dict(requirements or {}).items()}
        overrides = {name: (int(b["lowerBound"]), int(b["upperBound"])) for name, b in bounds.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"requirements {requirements!r} are not of FLIP-291's form: {error!r}") from error
    return Inbox(wish=Wish(wish), requirements=overrides)


def ask(job: str, wish: Wish) -> None:
    """Leave a wish for a job; blocks."""
    AssetStateStoreAccessor(name=job).set(WISH, wish.value)
